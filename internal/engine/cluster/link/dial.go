package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// keep dials a run while there is no link to it.
func (n *Net) keep(ctx context.Context, p *peer) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if at, ok := n.due(p); ok {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
			n.dial(ctx, p)
		}
	}
}

// due returns when to dial a run next; false: not before something changes. Without an earlier link
// the other run may not know this one. After a link, the run with the smaller node dials first, unless
// the other one cannot dial it. After an end by the other side both dial at once, to learn whether it
// is gone.
func (n *Net) due(p *peer) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := &n.o.Times
	switch {
	case p.conn != nil || len(p.reg.Addresses) == 0:
		return time.Time{}, false
	case p.tries == 0 && (p.linked && n.lower(p) || !p.linked && p.expected || p.byPeer || !n.o.Self.Reachable()):
		return p.lost, true
	case p.tries == 0:
		return p.lost.Add(t.Other), true
	case p.tried.Sub(p.lost) > t.Trying:
		return p.tried.Add(pause.Growth{Min: firstPause, Max: t.Later}.After(p.tries)), true
	case p.tries == 1 && p.byPeer:
		return p.tried.Add(secondPause), true // two refused dials show that the run is gone
	}
	return p.tried.Add(pause.Growth{Min: firstPause, Max: t.Soon}.After(p.tries)), true
}

// dialed is the outcome of an address.
type dialed struct {
	address string
	conn    net.Conn
	err     error
}

// dial tries the addresses of a run once and tells the outcome.
func (n *Net) dial(ctx context.Context, p *peer) {
	n.mu.Lock()
	if p.conn != nil {
		n.mu.Unlock()
		return
	}
	good := p.good
	n.mu.Unlock()
	c, ev := n.tryAddresses(ctx, p, good)
	n.mu.Lock()
	p.tries++
	p.tried = time.Now()
	n.mu.Unlock()
	switch {
	case c != nil && n.adopt(c):
	case c != nil:
		_ = c.raw.Close() // there is a better one
	case ctx.Err() == nil:
		n.logFailure(p, ev.Err)
		n.tell(p, nil, ev)
	}
}

// tryAddresses connects to all addresses at the same time, and makes the first connection a link that
// leads to the run. Without one it returns the event that says why.
func (n *Net) tryAddresses(ctx context.Context, p *peer, good string) (*conn, Event) {
	ctx, cancel := context.WithTimeout(ctx, n.o.Times.Greet)
	defer cancel()
	outcomes := make(chan dialed, len(p.reg.Addresses))
	for _, address := range p.reg.Addresses {
		n.work.Go(func() {
			conn, err := n.o.Dial(ctx, address)
			outcomes <- dialed{address, conn, err}
		})
	}
	left := len(p.reg.Addresses)
	defer func() {
		n.work.Go(func() { // the rest ends with ctx
			for range left {
				if d := <-outcomes; d.conn != nil {
					_ = d.conn.Close()
				}
			}
		})
	}()
	var failed, refused Event
	for left > 0 {
		d := <-outcomes
		left--
		if d.err == nil {
			var c *conn
			if c, d.err = n.greet(ctx, d.conn, func() (*conn, error) { return n.greetDialed(ctx, d.conn, p, d.address) }); d.err == nil {
				c.address = d.address
				return c, Event{}
			}
		}
		ev := Event{Kind: Failed, Address: d.address, Err: fmt.Errorf("dial %s: %w", d.address, d.err)}
		other, isOther := n.answers(d.err)
		switch {
		case isOther && replaces(&other, &p.reg):
			ev.Kind, ev.Other = Replaced, other.Run
			return nil, ev
		case errors.Is(d.err, syscall.ECONNREFUSED):
			ev.Kind = Refused
			if refused = ev; d.address == good {
				return nil, refused
			}
		case !errors.Is(d.err, errSelf) || failed.Kind == 0:
			failed = ev
		}
	}
	// An address that another machine has too, such as that of a bridge of containers, says nothing.
	if refused.Kind != 0 && (failed.Kind == 0 || errors.Is(failed.Err, errSelf)) {
		return nil, refused
	}
	return nil, failed
}

// answers returns the run that has answered instead of the one that was dialed.
func (n *Net) answers(err error) (cluster.Registration, bool) {
	if another, ok := errors.AsType[*errAnother](err); ok {
		return another.reg, true
	}
	return n.o.Self, errors.Is(err, errSelf)
}

// replaces reports whether a run that answers at an address of another one proves that the other has
// ended: because it has the lock of its data folder, because no two processes of a machine listen at one
// address, or because an operator gave it the name of the other with --advertise. An IP address that
// machines choose themselves may belong to several, and each machine is localhost.
func replaces(r, old *cluster.Registration) bool {
	u, err := url.Parse(old.URL)
	return r.Run.Node == old.Run.Node || r.Beside(old) || err == nil && old.URL == r.URL && isName(u.Hostname())
}

func isName(host string) bool {
	return host != "" && net.ParseIP(host) == nil && !strings.EqualFold(host, "localhost")
}

// greet runs a handshake on a connection, which it closes after an error, and when ctx ends meanwhile.
func (n *Net) greet(ctx context.Context, raw net.Conn, handshake func() (*conn, error)) (*conn, error) {
	_ = raw.SetDeadline(time.Now().Add(n.o.Times.Greet))
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	c, err := handshake()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, nil
}

// logFailure logs why there is no link to a run, once for each reason.
func (n *Net) logFailure(p *peer, err error) {
	n.mu.Lock()
	text := err.Error()
	is := p.conn == nil && p.failed != text
	if is {
		p.failed = text
	}
	n.mu.Unlock()
	if is {
		n.o.Logger.Warn("no link to another broker", "broker", p.reg.Name, "run", p.run.String(), "err", err)
	}
}

// Accept answers a request for a link: GET Path with an upgrade to Protocol. It takes the connection
// over and returns nil, or returns an error before it has written anything: state.ErrInvalid for another
// request, ErrClosed.
func (n *Net) Accept(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), Protocol) || !hasToken(r.Header.Values("Connection"), "upgrade") {
		return &state.InvalidError{Field: "Upgrade", Reason: "want a GET with an upgrade to " + Protocol + "; this route is for other brokers of the bucket"}
	}
	h := n.handshake()
	if h == nil {
		return ErrClosed
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		n.shaken(h)
		return fmt.Errorf("link: %w", err)
	}
	go func() {
		defer n.shaken(h)
		if rw.Reader.Buffered() > 0 { // sent before the answer
			_ = conn.Close()
			return
		}
		n.accepted(h.ctx, conn)
	}()
	return nil
}

// handshake is a connection that is not authenticated yet.
type handshake struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// handshake begins one, or returns nil if n is closed.
func (n *Net) handshake() *handshake {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	if len(n.handshakes) == handshakesMax {
		n.handshakes[0].cancel()
		n.handshakes = slices.Delete(n.handshakes, 0, 1)
	}
	h := new(handshake)
	h.ctx, h.cancel = context.WithTimeout(n.ctx, n.o.Times.Greet)
	n.handshakes = append(n.handshakes, h)
	n.work.Add(1)
	return h
}

// shaken ends a handshake.
func (n *Net) shaken(h *handshake) {
	h.cancel()
	n.mu.Lock()
	n.handshakes = slices.DeleteFunc(n.handshakes, func(o *handshake) bool { return o == h })
	n.mu.Unlock()
	n.work.Done()
}

func hasToken(values []string, token string) bool {
	return slices.ContainsFunc(values, func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), token) })
	})
}

// accepted makes a connection a link.
func (n *Net) accepted(ctx context.Context, raw net.Conn) {
	c, err := n.greet(ctx, raw, func() (*conn, error) {
		if _, err := fmt.Fprintf(raw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", Protocol); err != nil {
			return nil, err
		}
		return n.greetAccepted(ctx, raw)
	})
	if err != nil {
		n.o.Logger.Debug("link of another broker not made", "remote", raw.RemoteAddr().String(), "err", err)
		return
	}
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	i := slices.IndexFunc(c.p.reg.Addresses, func(a string) bool { return strings.HasPrefix(a, net.JoinHostPort(host, "")) })
	if i >= 0 {
		c.address = c.p.reg.Addresses[i]
	}
	if !n.adopt(c) {
		_, _ = c.tls.Write(appendHello(nil, kindRefused, &hello{reason: "there is another link"}))
		_ = raw.Close()
	}
}
