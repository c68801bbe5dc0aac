package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// errMoved: the broker leads no more and has not answered.
var errMoved = errors.New("another broker leads meanwhile")

// once sends the request to a broker, and its answer to the client. err is the answer if there is no
// other attempt.
func (c *Call) once(to cluster.Registration) (o cluster.Outcome, err error) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	answered := make(chan struct{})
	go c.watch(ctx, to.Run, answered, cancel)
	out, begun, err := c.request(ctx, &to)
	if err != nil {
		close(answered)
		return cluster.CallAnswered, err
	}
	resp, err := c.f.transport.RoundTrip(out)
	close(answered)
	c.endBody()
	if err != nil {
		return c.broken(ctx, to.URL, begun(), err)
	}
	defer resp.Body.Close()
	p, head, err := problemOf(resp)
	if err != nil {
		return c.broken(ctx, to.URL, begun(), err)
	}
	if p != nil && refused(p) {
		c.way.Hint(p.Leader)
		return cluster.CallRefused, notLeader(to.URL, "%s: %s", to.URL, p.Error())
	}
	if c.Answered != nil {
		if err := c.Answered(resp, p); err != nil {
			return cluster.CallAnswered, err
		}
	}
	return cluster.CallAnswered, c.relay(resp, head, to.URL)
}

// watch cancels a request whose broker leads no more and does not answer.
func (c *Call) watch(ctx context.Context, run cluster.Run, answered chan struct{}, cancel context.CancelCauseFunc) {
	view := c.f.o.View
	var moved <-chan time.Time
	for {
		changed := view.Changed()
		if grace, yes := cluster.Moved(view, run); yes && moved == nil {
			moved = time.After(grace)
		}
		select {
		case <-changed:
		case <-moved:
			cancel(errMoved)
			return
		case <-answered:
			return
		case <-ctx.Done():
			return
		}
	}
}

// request returns the request to a broker. begun reports, at its end, whether it may have had an
// effect.
func (c *Call) request(ctx context.Context, to *cluster.Registration) (out *http.Request, begun func() bool, err error) {
	at, err := url.Parse(to.URL)
	if err != nil {
		return nil, nil, problem.New(api.NotLeader, "the leader's address is invalid")
	}
	at.Path, at.RawPath, at.RawQuery = c.r.URL.Path, c.r.URL.RawPath, c.r.URL.RawQuery
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	out = (&http.Request{Method: c.r.Method, URL: at, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: passedOn(c.r.Header)}).WithContext(ctx)
	if len(out.Header["User-Agent"]) == 0 {
		out.Header["User-Agent"] = []string{""} // none instead of that of net/http
	}
	out.Header.Set(api.HeaderForwarded, c.f.o.View.Self().Run.String())
	begun = connected.Load
	switch {
	case c.body == nil:
	case c.small():
		// net/http sends a body in memory together with the head.
		b, err := c.body.whole()
		if err != nil {
			return nil, nil, httpconn.ReadFault(err)
		}
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(b)), c.r.ContentLength
		out.GetBody = func() (io.ReadCloser, error) {
			connected.Store(false)
			return io.NopCloser(bytes.NewReader(b)), nil
		}
	default:
		reader, ok := c.body.attempt()
		if !ok {
			return nil, nil, problem.New(api.NotLeader, "the request cannot be sent again")
		}
		var current atomic.Pointer[attempt]
		current.Store(reader)
		begun = func() bool { return current.Load().begun() }
		out.Body, out.ContentLength = reader, c.r.ContentLength
		// The transport calls it if it has written nothing to a connection that has ended.
		out.GetBody = func() (io.ReadCloser, error) {
			next, err := reader.again()
			if err == nil {
				current.Store(next)
			}
			return next, err
		}
		out.Header.Set("Expect", "100-continue")
	}
	if c.Prepare != nil {
		c.Prepare(out, to.Run)
	}
	return out, begun, nil
}

// endBody ends the reading of the body. net/http reads some of what the client still sends before it
// sends the answer, as for a request that this broker refuses.
func (c *Call) endBody() {
	if b := c.body; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.turn++
	}
}

// broken returns the answer to a request that got no answer.
func (c *Call) broken(ctx context.Context, leader string, begun bool, err error) (cluster.Outcome, error) {
	if c.body != nil {
		if err := c.body.clientErr(); err != nil {
			return cluster.CallAnswered, httpconn.ReadFault(err) // the leader has the body in part
		}
	}
	if c.r.Context().Err() != nil {
		return cluster.CallAnswered, context.Cause(c.r.Context())
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	o := cluster.Unanswered(begun)
	if o == cluster.CallUnknown && !c.way.Reads {
		p := problem.New(api.OutcomeUnknown, "the leader at %s did not answer: %v", leader, err)
		p.Leader = leader
		return o, p
	}
	return o, notLeader(leader, "the leader at %s does not answer: %v", leader, err)
}

func notLeader(leader, format string, args ...any) *api.Problem {
	p := problem.New(api.NotLeader, format, args...)
	p.Leader = leader
	return p
}

// refused reports whether a problem means that the broker has done nothing, because it does not lead
// or stops.
func refused(p *api.Problem) bool {
	switch p.Code {
	case api.NotLeader, api.Fenced, api.ShuttingDown:
		return len(p.Results)+len(p.Offsets) == 0
	}
	return false
}

// problemMax bounds the bytes of an answer in which a problem is looked for.
const problemMax = 16 << 10

// problemOf reads the problem of an answer, if it has one. head is what it has read of the body.
func problemOf(resp *http.Response) (p *api.Problem, head []byte, err error) {
	if resp.StatusCode < 400 || resp.Header.Get("Content-Type") != api.ProblemJSON {
		return nil, nil, nil
	}
	head, err = io.ReadAll(io.LimitReader(resp.Body, problemMax))
	if err != nil {
		return nil, nil, fmt.Errorf("read answer: %w", err)
	}
	p = new(api.Problem)
	if json.Unmarshal(head, p) != nil {
		return nil, head, nil // relayed as it is
	}
	return p, head, nil
}

// relay sends an answer to the client.
func (c *Call) relay(resp *http.Response, head []byte, leader string) error {
	h := c.w.Header()
	for name, values := range passedOn(resp.Header) {
		if name == "Vary" {
			values = append(h[name], values...)
		}
		h[name] = values
	}
	h.Set(api.HeaderLeader, leader)
	timeout := c.f.o.Timeout
	timeout.ExtendWrite(c.w)
	c.w.WriteHeader(resp.StatusCode)
	in := io.MultiReader(bytes.NewReader(head), resp.Body)
	for {
		n, err := in.Read(c.buf)
		if n > 0 {
			if timeout.Send(c.w, c.buf[:n]) != nil {
				return http.ErrAbortHandler
			}
			if resp.ContentLength < 0 {
				_ = http.NewResponseController(c.w).Flush() // a stream; the next write reports an error
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return http.ErrAbortHandler
		}
	}
}

// notPassedOn are headers of one connection, and those by which the first broker has checked a web
// page.
var notPassedOn = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Date": true, "Cookie": true, "Origin": true,
	api.HeaderForwarded: true, api.HeaderForwardedFor: true, api.HeaderForwardedAs: true,
}

// passedOn returns the headers of a message that another connection gets.
func passedOn(from http.Header) http.Header {
	to := make(http.Header, len(from)+2)
	for name, values := range from {
		if !notPassedOn[name] && !strings.HasPrefix(name, "Sec-Fetch-") && !strings.HasPrefix(name, "Access-Control-") {
			to[name] = values
		}
	}
	for _, names := range from["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			to.Del(textproto.TrimString(name))
		}
	}
	return to
}
