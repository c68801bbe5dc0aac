package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sebbroker/seb/api"
)

// listBuffer is how much of a list is collected before it is sent. A shorter list has a
// Content-Length.
const listBuffer = 64 << 10

// list is a JSON object with one array. It makes and sends one element after the other, so that
// only one takes memory.
type list struct {
	a    *API
	w    http.ResponseWriter
	buf  []byte
	n    int
	sent bool // the head is sent: an error can only cut the answer
}

func (a *API) newList(w http.ResponseWriter, member string) *list {
	return &list{a: a, w: w, buf: fmt.Appendf(nil, "{%q:[", member)}
}

// add appends an element and reserves size bytes while it is made. element returns nil if the
// element no longer exists. After an error the list is over: pass the error to end.
func (l *list) add(ctx context.Context, size int64, element func() (any, error)) error {
	memory, err := l.a.fetch.ReserveWait(ctx, size+2*listBuffer)
	if err != nil {
		return err
	}
	defer memory.Release()
	v, err := element()
	if err != nil || v == nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	if l.n++; l.n > 1 {
		l.buf = append(l.buf, ',')
	}
	if l.buf = append(l.buf, b...); len(l.buf) < listBuffer {
		return nil
	}
	if !l.sent {
		l.sent = true
		l.head().WriteHeader(http.StatusOK)
	}
	err = l.a.pace.Send(l.w, l.buf)
	if l.buf = l.buf[:0]; cap(l.buf) > 2*listBuffer {
		l.buf = nil
	}
	return err
}

func (l *list) head() http.ResponseWriter {
	h := l.w.Header()
	h.Set("Content-Type", api.JSON)
	h.Set("X-Content-Type-Options", "nosniff")
	return l.w
}

// end sends the rest. With an error it cuts an answer that has begun, so that it does not look
// complete.
func (l *list) end(err error) error {
	switch {
	case err != nil && l.sent:
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	}
	l.buf = append(l.buf, "]}"...)
	if l.sent {
		_ = l.a.pace.Send(l.w, l.buf)
		return nil
	}
	l.head()
	l.a.write(l.w, http.StatusOK, l.buf)
	return nil
}
