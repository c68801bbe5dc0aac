package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/pause"
)

// errSilent is the error of a request whose broker sends nothing.
var errSilent = errors.New("the broker sends nothing")

// silence ends a request whose broker sends nothing for a time.
//
//	sent ── wait + suspectAfter ──▶ other brokers are asked ── one of them leads ──▶ ended
//	                                          └─────── wait + silenceMax ──────────▶ ended
type silence struct {
	c        *Client
	base     string        // the broker
	on       bool          // false: the request waits as long as it takes
	wait     time.Duration // that the request lets the broker wait
	timer    *time.Timer
	cancel   context.CancelCauseFunc
	answered chan struct{} // closed when the answer begins
}

// watch returns a context for the request, and begins to measure.
func (s *silence) watch(ctx context.Context) context.Context {
	if !s.on {
		return ctx
	}
	ctx, s.cancel = context.WithCancelCause(ctx)
	s.answered = make(chan struct{})
	b := s.c.brokers
	s.timer = time.AfterFunc(s.wait+min(b.suspect, b.silence), func() { s.suspect(ctx) })
	return ctx
}

// suspect ends the request when another broker leads, or when the time is over.
func (s *silence) suspect(ctx context.Context) {
	b := s.c.brokers
	moved, done := s.c.suspect(s.base)
	defer done()
	rest := time.NewTimer(b.silence - min(b.suspect, b.silence))
	defer rest.Stop()
	select {
	case <-moved:
	case <-rest.C:
	case <-s.answered:
		return
	case <-ctx.Done():
		return
	}
	s.cancel(errSilent)
}

// end releases the context of a request that has failed.
func (s *silence) end() {
	if s.on {
		s.timer.Stop()
		s.cancel(nil)
	}
}

// body returns the body of an answer, which is also measured while it is read.
func (s *silence) body(in io.ReadCloser) io.ReadCloser {
	if !s.on {
		return in
	}
	s.timer.Stop()
	close(s.answered)
	rest := s.c.brokers.silence
	s.timer = time.AfterFunc(rest, func() { s.cancel(errSilent) })
	s.timer.Stop()
	return &measured{in: in, s: s, rest: rest}
}

// measured is a body that fails if nothing arrives for a time.
type measured struct {
	in   io.ReadCloser
	s    *silence
	rest time.Duration
}

func (m *measured) Read(p []byte) (int, error) {
	m.s.timer.Reset(m.rest)
	n, err := m.in.Read(p)
	m.s.timer.Stop()
	return n, err
}

func (m *measured) Close() error {
	err := m.in.Close()
	m.s.end()
	return err
}

// suspicion is a broker that has sent nothing to some requests for a moment. The store may be slow, so
// nothing is repeated before another broker says that it leads.
type suspicion struct {
	requests int           // that wait for the broker; guarded by brokers.mu
	moved    chan struct{} // closed when another broker leads
	stop     context.CancelFunc
}

// suspect asks the other brokers whether one of them leads, until the last request has called done.
func (c *Client) suspect(base string) (moved <-chan struct{}, done func()) {
	b := c.brokers
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.suspects[base]
	if s == nil {
		ctx, stop := context.WithCancel(context.Background())
		s = &suspicion{moved: make(chan struct{}), stop: stop}
		b.suspects[base] = s
		for _, other := range b.list {
			if other != base {
				b.asking.Go(func() { c.askWhether(ctx, s, base, other) })
			}
		}
	}
	s.requests++
	return s.moved, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if s.requests--; s.requests == 0 {
			b.dispel(base, s)
		}
	}
}

// dispel ends a suspicion. b.mu is held.
func (b *brokers) dispel(base string, s *suspicion) {
	s.stop()
	if b.suspects[base] == s {
		delete(b.suspects, base)
	}
}

// askWhether asks a broker whether it leads until it does.
func (c *Client) askWhether(ctx context.Context, s *suspicion, base, other string) {
	for !c.leads(ctx, other) {
		if pause.Wait(ctx, askEvery) != nil {
			return
		}
	}
	b := c.brokers
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.suspects[base] != s {
		return // another broker has said so before
	}
	b.prefer(other)
	b.avoid[base] = time.Now().Add(avoidTime)
	close(s.moved)
	b.dispel(base, s)
}

// leads reports whether a broker says that it leads.
func (c *Client) leads(ctx context.Context, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, suspectAfter)
	defer cancel()
	r := &request{method: http.MethodGet, path: "/readyz", query: url.Values{"role": {api.MemberLeader}}, header: map[string]string{"Accept": api.JSON + ", " + api.ProblemJSON}}
	resp, fault := c.once(ctx, r, base)
	if fault != nil {
		return false
	}
	defer drain(resp.Body)
	var h api.Health
	return json.NewDecoder(resp.Body).Decode(&h) == nil && h.Epoch > 0
}
