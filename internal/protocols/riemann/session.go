package riemann

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// session is one connection. Only the reader's goroutine changes it; finishing calls read it.
type session struct {
	client
	secured *tlsport.Conn                 // nil without TLS
	valid   atomic.Pointer[auth.Identity] // who, for Valid
	spoke   bool                          // a message was valid
	last    Ticket                        // of the last message with events
	pending atomic.Int64                  // the part of Server.inFlight of messages that are not answered
}

// client is an authenticated sender of messages.
type client struct {
	*Server
	who    *auth.Identity // nil before authentication
	remote string         // address
}

// login authenticates the client: by its certificate, or else as the token of the listener.
func (s *session) login(ctx context.Context) (err error) {
	switch {
	case s.who != nil:
		return nil
	case s.secured != nil && s.secured.Peer() != nil:
		s.who, err = s.o.Auth.Certificate(ctx, s.secured.Peer(), s.remote)
	default:
		s.who, err = s.listenerIdentity(ctx, s.remote)
	}
	if err != nil {
		s.who = nil
		s.met.authFailures.Inc()
		return err
	}
	s.valid.Store(s.who)
	return nil
}

// listenerIdentity is the identity of clients without a certificate.
func (s *Server) listenerIdentity(ctx context.Context, remote string) (*auth.Identity, error) {
	if s.o.Token == "" {
		return s.o.Auth.Root(), nil
	}
	return s.o.Auth.Key(ctx, s.o.Token, remote)
}

// Authenticated implements framed.Session. A client proves by a message that it is one.
func (s *session) Authenticated() bool { return s.spoke }

// Valid implements framed.Session.
func (s *session) Valid() bool {
	who := s.valid.Load()
	return who == nil || who.Valid()
}

// Close implements framed.Session. Messages that were not answered count no more.
func (s *session) Close() { s.inFlight.Add(-s.pending.Swap(0)) }

// Admit implements framed.Session.
func (s *session) Admit(ctx context.Context, _ []byte, size int) (framed.Admission, error) {
	err := s.login(ctx)
	if err == nil && size > s.messageMax {
		err = fmt.Errorf("message of %d bytes, limit %d", size, s.messageMax)
		s.lines.Warn(s.log, sampled.Host(s.remote), "riemann: message too large, connection closed", "remote", s.remote,
			"bytes", size, "limit", s.messageMax, "flag", "--riemann-max-message")
	}
	if err != nil {
		return framed.Admission{Last: s.refuse(err)}, nil
	}
	wait := max(s.o.Patience, time.Nanosecond) // 0 waits without an end
	return framed.Admission{Use: framed.Writes, Class: s.produceClass, Wait: wait, Refuse: s.refuse}, nil
}

// Delay implements framed.Session. Beside quotas it delays messages while the records of earlier ones
// have their share of memory.
func (s *session) Delay(_ []byte, size int) (time.Duration, <-chan struct{}) {
	if s.inFlight.Load() > s.produceClass.Limit()/recordsShare {
		return retryInterval, nil
	}
	if s.who.Root() {
		return 0, nil
	}
	changed := s.who.Changed() // before the quota is looked at
	return s.who.Meter().Begin(auth.Produced, int64(size)), changed
}

// refuse answers a message with an error.
func (s *session) refuse(err error) framed.Finish {
	return func(context.Context) (framed.Answer, error) { return s.refusal(err), nil }
}

func (s *session) refusal(err error) framed.Answer {
	s.met.refused.Inc()
	return framed.Answer{Head: appendAnswer(make([]byte, lengthBytes, 64), err.Error())}
}

// lengthBytes is the size of the length before a message.
const lengthBytes = 4

// Begin implements framed.Session. It submits the events, so that the log has the order of the
// messages, and leaves the wait to the Finish.
func (s *session) Begin(ctx context.Context, f *framed.Frame) (framed.Finish, error) {
	s.met.messages.Inc()
	m, err := walk(f.Bytes)
	if err == nil && len(m.query) > QueryMax {
		err = malformed("query of %d bytes, limit %d", len(m.query), QueryMax)
	}
	if err != nil {
		return s.refuse(err), nil
	}
	s.spoke = true
	c := call{session: s, hasQuery: m.hasQuery, query: string(m.query), before: s.last}
	if m.events > 0 {
		if c.ticket, err = s.store(ctx, f, &m); err != nil {
			return s.refuse(err), nil
		}
		s.last, c.size = c.ticket, int64(m.room())
		s.inFlight.Add(c.size)
		s.pending.Add(c.size)
	}
	f.Shed()
	return c.finish, nil
}

// call is a message that has begun.
type call struct {
	*session
	ticket   Ticket // nil: no events
	size     int64  // of its records
	before   Ticket // of the last earlier message with events, which may be acknowledged before it is stored
	hasQuery bool
	query    string
}

// finish waits for the store, even if the client is gone: submitted events cannot be withdrawn. A
// query comes after the events of its message and of earlier ones, because finish is called in their
// order.
func (c *call) finish(ctx context.Context) (framed.Answer, error) {
	if c.ticket != nil {
		if err := c.wait(ctx); err != nil {
			return c.refusal(err), nil
		}
	}
	if c.hasQuery {
		return c.answerQuery(ctx), nil
	}
	return framed.Answer{Head: appendAnswer(make([]byte, lengthBytes, 8), "")}, nil
}

func (c *call) wait(ctx context.Context) error {
	if c.o.Received && !c.hasQuery {
		select {
		case c.unwatched <- unstored{c.ticket, c.size, &c.inFlight}:
			c.pending.Add(-c.size)
			return nil
		case <-ctx.Done(): // the server stops
		}
	}
	results := c.ticket.WaitFor(context.WithoutCancel(ctx), c.o.AckTimeout)
	c.inFlight.Add(-c.size)
	c.pending.Add(-c.size)
	return c.count(results)
}

var errNoIndex = errors.New("queries are not supported: the broker has no index")

// answerQuery answers a query. Its memory is reserved before it is answered.
func (c *call) answerQuery(ctx context.Context) framed.Answer {
	c.met.queries.Inc()
	if c.o.Index == nil {
		return c.refusal(errNoIndex)
	}
	if !c.who.Allow(access.Read, access.Topic, c.o.Topic) {
		return c.refusal(c.deny(access.Read))
	}
	if c.before != nil {
		c.before.WaitFor(ctx, c.o.AckTimeout) // objects are stored in order, so it is the last
	}
	waiting, cancel := context.WithTimeout(ctx, max(c.o.Patience, time.Nanosecond))
	memory, err := c.fetchClass.ReserveWait(waiting, int64(c.messageMax))
	cancel()
	if err != nil {
		return c.refusal(err)
	}
	events, err := c.o.Index.Query(ctx, c.query, c.messageMax)
	if err != nil {
		memory.Release()
		return c.refusal(err)
	}
	return framed.Answer{Head: appendAnswer(make([]byte, lengthBytes, 8), ""), Parts: []framed.Part{{Bytes: events}}, Release: memory.Release}
}

// deny reports a denial for the audit topic, and returns its error.
func (c *client) deny(o access.Operation) error {
	c.b.Denied(c.origin(), o, access.Topic, c.o.Topic)
	return fmt.Errorf("%w: %s on topic %s", state.ErrUnauthorized, o, c.o.Topic)
}

// origin describes the client in audit records, if there are any.
func (c *client) origin() (o audit.Origin) {
	if !c.b.Audits() {
		return o
	}
	o = c.who.Origin()
	o.Protocol, o.From = "riemann", c.remote
	return o
}
