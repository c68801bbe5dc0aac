package httpapi

import (
	"net/http"
	"strconv"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/encoding"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// textTags mark the encodings in entity tags.
var textTags = map[encoding.TextForm]string{encoding.Array: "a", encoding.EachLine: "l"}

// Text answers with records in JSON.
func (g *Reading) Text(w http.ResponseWriter, r *http.Request, kind string, form encoding.TextForm) error {
	t := &encoding.Text{Form: form}
	if err := g.Collect(r.Context(), t); err != nil {
		return err
	}
	if err := t.Finish(&g.memory); err != nil {
		return err
	}
	if g.unchanged(w, textTags[form]) {
		return nil
	}
	g.headOfRecords(w, kind, t.Out.Size)
	g.s.o.Timeout.ExtendWrite(w)
	w.WriteHeader(http.StatusOK)
	return Sent(g.s.o.Timeout.SendAll(w, &t.Out))
}

// Sent handles errors of writing after the status was sent. It aborts the connection, because a
// truncated answer must not look complete. The client is gone or too slow anyway.
func Sent(err error) error {
	if err != nil {
		return http.ErrAbortHandler
	}
	return nil
}

// Batches answers with batches as they are stored, with sendfile if they are in a file.
func (g *Reading) Batches(w http.ResponseWriter, r *http.Request) error {
	part, err := g.wait(r.Context(), g.Timeout)
	if err != nil {
		return err
	}
	list, err := g.cut(part.Chunks)
	if err != nil {
		return err
	}
	size := int64(0)
	for i := range list {
		size += list[i].Size
	}
	g.Bytes = size
	if len(list) > 0 {
		w.Header().Set(api.HeaderBaseOffset, strconv.FormatInt(list[0].Base, 10))
		g.Offset = list[len(list)-1].End
	}
	g.headOfRecords(w, api.RecordBatch, size)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	for i := range list {
		if err := sendChunk(g.s.o.Timeout, w, &list[i]); err != nil {
			return Sent(err)
		}
	}
	return nil
}

func sendChunk(timeout httpconn.ProgressTimeout, w http.ResponseWriter, c *broker.Chunk) error {
	if c.Section != nil {
		return timeout.SendSection(w, c.Section)
	}
	for _, p := range c.Parts {
		if err := timeout.Send(w, p); err != nil {
			return err
		}
	}
	return nil
}
