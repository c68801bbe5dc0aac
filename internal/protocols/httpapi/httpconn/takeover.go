package httpconn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// Event streams leave net/http, which keeps 14 KiB of buffers and a deep stack for each request in
// progress. A taker is the handler of a server; it takes the connection of a stream over, and serves
// its request with an own http.ResponseWriter. The connection ends with the answer.
type taker struct {
	c       *Connections
	handler http.Handler
	streams func(r *http.Request) bool
	log     *slog.Logger
}

func (t *taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slot := SlotOf(r.Context())
	if slot == nil || r.Method != http.MethodGet || r.Body != http.NoBody || !r.ProtoAtLeast(1, 1) || !t.streams(r) {
		t.handler.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), slotKey{}, slot))
	t.c.taken(slot, cancel)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // cannot happen: it is HTTP/1.1, and the first Hijack
		t.c.ended(slot)
		panic(http.ErrAbortHandler)
	}
	go t.serve(slot, conn, r.WithContext(ctx))
}

// serve answers the request on a connection that it owns.
func (t *taker) serve(slot *ConnSlot, conn net.Conn, r *http.Request) {
	w := &taken{conn: conn, header: http.Header{}}
	defer func() {
		fault := recover()
		if fault != nil && fault != http.ErrAbortHandler {
			t.log.Error("panic in a request", "remote", r.RemoteAddr, "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
		if fault != nil || w.end() != nil {
			cut(conn)
		}
		_ = conn.Close()
		t.c.ended(slot)
	}()
	t.handler.ServeHTTP(w, r)
}

// watchInterval is how often connections that were taken over are checked for clients that have left. A
// goroutine for each that reads would take 4 KiB.
const watchInterval = time.Second

// taken notes that a connection is taken over. gone is called when its client has left, and at the end.
func (c *Connections) taken(slot *ConnSlot, gone func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot.gone = gone
	if c.streams++; !c.watching {
		c.watching = true
		go c.watch()
	}
}

// watch ends the streams of clients that have left, until there are no streams.
func (c *Connections) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var streams []*ConnSlot
	for stops := c.Drain.ended; ; {
		select {
		case <-tick.C:
		case <-stops:
			stops = nil
			tick.Reset(pollInterval)
		}
		c.mu.Lock()
		streams = streams[:0]
		for _, slot := range c.slots {
			if slot.gone != nil {
				streams = append(streams, slot)
			}
		}
		c.watching = len(streams) > 0
		c.mu.Unlock()
		if len(streams) == 0 {
			return
		}
		for _, slot := range streams {
			if left(slot.conn) {
				slot.gone()
			}
		}
		clear(streams)
	}
}

// ended frees the slot of a connection that was taken over.
func (c *Connections) ended(slot *ConnSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot.gone()
	slot.enterLocked(closed)
	slot.limit.Close()
	delete(c.slots, slot.conn)
	c.streams--
}

// EndStreams waits until the answers of event streams are complete, after Drain.Stop. When ctx ends, it
// cuts them, and returns ctx's error.
func (c *Connections) EndStreams(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for err := error(nil); ; {
		c.mu.Lock()
		n := c.streams
		for conn, slot := range c.slots {
			if err != nil && slot.gone != nil {
				cut(conn)
			}
		}
		c.mu.Unlock()
		if n == 0 {
			return err
		}
		<-tick.C
		err = ctx.Err()
	}
}

// taken writes an answer to a connection without net/http. Between two flushes it holds no buffer.
type taken struct {
	conn   net.Conn
	header http.Header
	head   []byte        // not sent yet
	body   *bytes.Buffer // of the next chunk; nil: nothing
	status int           // 0: not written
	whole  bool          // the answer has a length: no chunks
}

// chunkBytes is the size from which a chunk is sent.
const chunkBytes = 16 << 10

var chunks = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Header implements http.ResponseWriter.
func (w *taken) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *taken) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.header
	w.whole = h.Get("Content-Length") != ""
	if !w.whole {
		h.Set("Transfer-Encoding", "chunked")
	}
	h.Set("Connection", "close")
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = h.Write(&b) // to memory
	b.WriteString("\r\n")
	w.head, w.header = b.Bytes(), http.Header{}
}

// Write implements io.Writer.
func (w *taken) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(p) >= chunkBytes {
		if err := w.FlushError(); err != nil {
			return 0, err
		}
		return len(p), w.send(p)
	}
	if w.body == nil {
		w.body = chunks.Get().(*bytes.Buffer)
	}
	w.body.Write(p)
	if w.body.Len() >= chunkBytes {
		return len(p), w.FlushError()
	}
	return len(p), nil
}

// FlushError implements the Flush of http.ResponseController.
func (w *taken) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.body == nil {
		return w.send(nil)
	}
	err := w.send(w.body.Bytes())
	w.body.Reset()
	chunks.Put(w.body)
	w.body = nil
	return err
}

// send sends the head, if it is not sent yet, and a chunk.
func (w *taken) send(p []byte) error {
	out := net.Buffers{w.head}
	switch {
	case len(p) == 0:
	case w.whole:
		out = append(out, p)
	default:
		out = append(out, fmt.Appendf(nil, "%x\r\n", len(p)), p, []byte("\r\n"))
	}
	w.head = nil
	_, err := out.WriteTo(w.conn)
	return err
}

// end completes the answer.
func (w *taken) end() error {
	if err := w.FlushError(); err != nil || w.whole {
		return err
	}
	_, err := io.WriteString(w.conn, "0\r\n\r\n")
	return err
}

// SetReadDeadline does nothing: the request has no body.
func (w *taken) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements that of http.ResponseController.
func (w *taken) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }
