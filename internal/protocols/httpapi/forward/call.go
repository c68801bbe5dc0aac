package forward

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// Call is one request that is, or may be, forwarded. It belongs to the goroutine of the request.
type Call struct {
	// Prepare, if not nil, changes the head of each request to another broker.
	Prepare func(out *http.Request, to cluster.Run)
	// Answered, if not nil, is called with the answer before it is sent to the client. An error is
	// returned by Send instead of the answer.
	Answered func(*http.Response, *api.Problem) error

	f      *Forwarder
	w      http.ResponseWriter
	r      *http.Request // as it arrived
	memory budget.Arena
	body   *body  // nil: the request has none
	buf    []byte // for the answer

	way    cluster.Forwarding
	reason error // why the last attempt failed
}

// Keep prepares a request that this broker answers itself so that it can be forwarded if the broker
// stops leading meanwhile. r.Body then keeps what is read from it. If the memory for that is missing,
// the result is nil. The caller closes the Call.
func (f *Forwarder) Keep(w http.ResponseWriter, r *http.Request) *Call {
	c := f.newCall(w, r)
	if !c.small() || c.keep(c.r.Body.Read) != nil {
		return nil
	}
	c.replace(r)
	return c
}

// Within lets the next Send end with ctx.
func (c *Call) Within(ctx context.Context) { c.r = c.r.WithContext(ctx) }

// Begin prepares a request that is forwarded. wait, if not nil, lets it wait for memory. The caller
// closes the Call.
func (f *Forwarder) Begin(w http.ResponseWriter, r *http.Request, wait func(*httpconn.Body)) (*Call, error) {
	c := f.newCall(w, r)
	in := &httpconn.Body{W: w, R: c.r, Timeout: f.o.Timeout, Max: 1<<63 - 1, Memory: c.memory}
	if wait != nil {
		wait(in)
	}
	if err := in.OpenStream(c.sending() + c.keeps()); err != nil {
		return nil, err
	}
	c.memory = in.Memory
	if err := c.keep(in.Read); err != nil {
		c.Close()
		return nil, err
	}
	c.replace(r)
	return c, nil
}

func (f *Forwarder) newCall(w http.ResponseWriter, r *http.Request) *Call {
	whole := *r // with the body of the client
	return &Call{f: f, w: w, r: &whole, way: f.forwarding(r), memory: budget.Arena{Class: f.o.Memory, Buffers: f.o.Buffers}}
}

// readerFunc is an io.Reader.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// small reports whether the whole body is kept.
func (c *Call) small() bool { return c.r.ContentLength >= 0 && c.r.ContentLength <= keptMax }

// sending returns how much memory the sending of the request and its answer takes.
func (c *Call) sending() int64 {
	if c.small() && c.r.Method != http.MethodGet {
		return smallOverhead + smallCopy
	}
	return overhead + copyBytes
}

// keeps returns how many bytes of the body are kept at most.
func (c *Call) keeps() int64 {
	if c.r.ContentLength < 0 {
		return keptMax
	}
	return min(keptMax, c.r.ContentLength)
}

// keep reserves memory for the first bytes of the body, which read reads.
func (c *Call) keep(read readerFunc) error {
	if c.r.ContentLength == 0 {
		return nil
	}
	n := c.keeps()
	kept, err := c.memory.Get(int(n))
	if err != nil {
		return err
	}
	c.body = &body{in: read, kept: kept[:0:n]}
	return nil
}

// replace lets a handler on this broker read the body.
func (c *Call) replace(r *http.Request) {
	if c.body != nil {
		r.Body, _ = c.body.attempt()
	}
}

// Close releases the memory.
func (c *Call) Close() {
	if c.body != nil {
		c.body.release()
	}
	c.memory.Release()
}

// Again reports whether the request may be served or sent again after an attempt.
func (c *Call) Again(o cluster.Outcome) bool {
	return c.way.Again(o, c.body == nil || c.body.available())
}

// Send forwards the request, and sends the answer to the client. It waits for a leader if none is
// known. ErrLeads: this broker leads, and r.Body has the body. Other errors are the answer; nothing
// was written to the client. http.ErrAbortHandler: the answer broke off.
func (c *Call) Send(r *http.Request) error {
	if err := c.reserve(); err != nil {
		return err
	}
	c.way.Until = time.Now().Add(c.f.o.Wait)
	for {
		to, err := c.leader()
		if err == nil {
			var o cluster.Outcome
			if o, err = c.once(to); c.Again(o) {
				c.reason = err
				continue
			}
		}
		if errors.Is(err, ErrLeads) {
			c.replace(r)
		}
		return err
	}
}

// reserve reserves the memory for sending a request.
func (c *Call) reserve() (err error) {
	if c.buf != nil {
		return nil
	}
	n := c.sending()
	if err := c.memory.Need(n); err != nil {
		return err
	}
	c.buf, err = c.memory.Get(int(min(copyBytes, n-smallOverhead)))
	return err
}

// leader waits for a broker to which the request can be sent.
func (c *Call) leader() (cluster.Registration, error) {
	view := c.f.o.View
	for {
		changed := view.Changed()
		to, route := c.way.Next(view, c.f.o.Leads(), time.Now())
		switch route {
		case cluster.ServeCall:
			return to, ErrLeads
		case cluster.ForwardCall:
			return to, nil
		case cluster.RefuseCall:
			return to, c.unknown()
		}
		select {
		case <-changed:
		case <-time.After(rolePoll):
		case <-c.r.Context().Done():
			return cluster.Registration{}, context.Cause(c.r.Context())
		}
	}
}

// unknown returns the answer to a request for which there is no leader.
func (c *Call) unknown() error {
	if c.reason != nil {
		return c.reason
	}
	return problem.New(api.NotLeader, "no broker leads at the moment; try again")
}
