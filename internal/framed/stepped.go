package framed

import (
	"context"
	"net"
)

// Stepped is a connection without goroutines, for callers that decide the order of events, such as a
// simulator. Its methods must not be called concurrently. Read may be suspended in a read of the
// net.Conn and Answer in a Finish while the other one runs.
type Stepped struct {
	l     *link
	ended bool
}

// Stepped returns a connection that is not one of those that Serve has accepted.
func (s *Server) Stepped(c net.Conn) *Stepped {
	l := s.newLink(c)
	l.end = func() {}
	return &Stepped{l: l}
}

// Read begins requests until the connection ends, and returns why. Less than Options.QueueRequests
// may wait for their answers.
func (c *Stepped) Read(ctx context.Context) error { return c.l.read(ctx) }

// Answer answers the oldest request that has begun. It returns false if there is none.
func (c *Stepped) Answer(ctx context.Context) bool {
	select {
	case p := <-c.l.queue:
		c.ended = !c.l.complete(ctx, p, !c.ended)
		return true
	default:
		return false
	}
}

// Close ends the connection. Read and Answer must have returned.
func (c *Stepped) Close() { c.l.session.Close() }
