package httpconn

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/protocols/connlimit"
)

// headerBytesMax bounds a request's headers.
const headerBytesMax = 16 << 10

// IdleBytes is the memory of a connection: two buffers of 4 KiB, a goroutine, and the state of net/http
// and of the request guard. A request takes 9 KiB more, for the stack of its handler and a buffer for
// its answer, but all connections within the limit may have one at once. PollBytes is the memory of a
// connection whose request waits for records, with its second goroutine, and StreamBytes that of an
// event stream, which net/http does not serve (taker).
const (
	IdleBytes   = 11 << 10
	PollBytes   = 30 << 10
	StreamBytes = 15 << 10
)

// Connections are the open connections of a server. A new connection that finds no slot is queued in
// Accept, and later ones in the kernel. For it, Evict makes room in this order:
//
//  1. idle: a connection without a request, longest first; after an authorized request only after KeepIdle
//  2. finishing: a connection whose request has ended and whose response or body does not end
//  3. slow: the request whose body arrives too slowly, longest first
//
// Package connlimit tells when it is accepted beyond the limit instead: see ConnSlot.Promote. Set the
// exported fields before Server; all are required.
type Connections struct {
	Drain   *DrainGroup
	Slots   *connlimit.Listener // Evict is its ListenerOptions.Evict
	TLS     int64               // memory of a connection for TLS
	Queued  *metrics.Counter    // connections that were queued
	Evicted *metrics.Counter    // connections that were closed for another

	queued   atomic.Int32 // connections that are queued
	wait     time.Duration
	keepIdle time.Duration // ServerOptions.KeepIdle

	mu          sync.Mutex // guards the fields below and the phase fields of each ConnSlot
	slots       map[net.Conn]*ConnSlot
	idle        list.List // *ConnSlot, by the start of its last phase idle
	slowChecked time.Time // last pass of AbortSlow
	streams     int       // connections that were taken over
	watching    bool      // watch runs
}

// ServerOptions are what Connections.Server needs. All fields but Streams are required.
type ServerOptions struct {
	Handler http.Handler
	Streams func(r *http.Request) bool // the answer may be an event stream; nil: none is
	Logger  *slog.Logger               // receives the errors of net/http at level debug
	// HeaderTimeout bounds a request's headers, IdleTimeout the wait for the next request on a
	// connection, QueueWait the wait of a new connection for a slot.
	HeaderTimeout, IdleTimeout, QueueWait time.Duration
	// KeepIdle is how long a connection that had an authorized request stays open while others are
	// queued.
	KeepIdle time.Duration
}

// Server returns a server with timeouts and limits, ready for a listener. Its Shutdown stops Drain.
// Call Shutdown or Drain.Stop before Close, because Close waits for a connection that is queued.
func (c *Connections) Server(o ServerOptions) *http.Server {
	c.wait, c.keepIdle = o.QueueWait, o.KeepIdle
	c.slots = map[net.Conn]*ConnSlot{}
	if o.Streams != nil {
		o.Handler = &taker{c, o.Handler, o.Streams, o.Logger}
	}
	s := &http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ConnContext:       c.context,
		ConnState:         c.state,
		// The handler also gets "OPTIONS *", so that its head is checked.
		DisableGeneralOptionsHandler: true,

		// Only errors of clients come here, such as broken connections.
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	s.RegisterOnShutdown(c.Drain.Stop)
	return s
}

// pollInterval is how often a connection without a slot looks for one, and an idle one may be evicted
// again.
const pollInterval = 20 * time.Millisecond

// HasQueued reports whether a connection waits for a slot. Responses then close their own
// connection.
func (c *Connections) HasQueued() bool { return c.queued.Load() > 0 }

// context registers a new connection. net/http calls it before state.
func (c *Connections) context(ctx context.Context, conn net.Conn) context.Context {
	slot := &ConnSlot{c: c, conn: conn}
	if g, ok := conn.(seenConn); ok {
		g.seen().slot = slot
	}
	c.mu.Lock()
	c.slots[conn] = slot
	c.mu.Unlock()
	return context.WithValue(ctx, slotKey{}, slot)
}

// state follows the state of a connection. net/http calls it for a new connection before it accepts
// the next, so that blocking here queues both.
func (c *Connections) state(conn net.Conn, s http.ConnState) {
	if s == http.StateNew {
		c.admit(conn)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.slotLocked(conn)
	switch s {
	case http.StateActive:
		slot.enterLocked(serving)
	case http.StateIdle:
		if g, ok := conn.(seenConn); ok {
			g.seen().next(slot.body)
		}
		slot.enterLocked(idle)
		if slot.displaced.Load() {
			c.closeLocked(slot)
		}
	case http.StateClosed, http.StateHijacked:
		if slot.gone != nil {
			return // it is open until the stream ends
		}
		slot.enterLocked(closed)
		slot.limit.Close()
		delete(c.slots, conn)
	}
}

func (c *Connections) slotLocked(conn net.Conn) *ConnSlot {
	if g, ok := conn.(seenConn); ok {
		return g.seen().slot // faster than the map, for each request
	}
	return c.slots[conn]
}

// admit returns when a connection is admitted. If the server stops first, it closes the connection and
// returns without admitting it.
func (c *Connections) admit(conn net.Conn) {
	c.mu.Lock()
	slot := c.slotLocked(conn)
	c.mu.Unlock()
	limit := c.Slots.Take()
	if limit == nil {
		c.Queued.Inc()
		c.queued.Add(1)
		defer c.queued.Add(-1)
		until := time.Now().Add(c.wait - waited(conn))
		for limit == nil {
			if limit = c.Slots.Enter(until, c.Drain.ended); limit == nil && c.Drain.Stopped() {
				cut(conn) // the first read of the server fails and ends the connection
				return
			}
			until = time.Now().Add(pollInterval)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slot.limit = limit
	slot.enterLocked(idle)
}

// Evict closes the cheapest connection to lose: idle first, then finishing, then a slow upload. It
// returns false if there is none.
func (c *Connections) Evict(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evictLocked(now)
}

func (c *Connections) evictLocked(now time.Time) bool {
	for e := c.idle.Front(); e != nil; e = e.Next() {
		slot := e.Value.(*ConnSlot)
		if slot.phase != idle {
			continue // its place in the list saves the work of leaving and joining it
		}
		if now.Sub(slot.since) < idleMin {
			break // the rest have been idle for less time
		}
		if slot.evictableLocked(now) {
			c.evictIdleLocked(slot, now)
			return true
		}
	}
	for _, slot := range c.slots {
		if slot.finishedLocked(now) {
			c.closeLocked(slot)
			return true
		}
	}
	var slowest *ConnSlot
	for _, slot := range c.slots {
		if slot.slowLocked(now) && (slowest == nil || slot.since.Before(slowest.since)) {
			slowest = slot
		}
	}
	if slowest != nil {
		c.abortSlowLocked(slowest, now)
	}
	return slowest != nil
}

// evictIdleLocked closes an idle connection by expiring its read deadline. If net/http has just
// read a whole request, it is served. If net/http overwrites the deadline with its own, a later
// call tries again.
func (c *Connections) evictIdleLocked(slot *ConnSlot, now time.Time) {
	if slot.evicted.IsZero() {
		c.Evicted.Inc()
	}
	slot.evicted = now
	_ = slot.conn.SetReadDeadline(now)
}

// closeLocked closes a connection; net/http calls state afterwards.
func (c *Connections) closeLocked(slot *ConnSlot) {
	c.Evicted.Inc()
	slot.enterLocked(closing)
	cut(slot.conn)
}

// abortSlowLocked makes the reads of a slow body fail. The request answers with the error.
func (c *Connections) abortSlowLocked(slot *ConnSlot, now time.Time) {
	c.Evicted.Inc()
	slot.enterLocked(finishing)
	_ = slot.conn.SetReadDeadline(now)
}

// AbortSlow fails all requests whose bodies arrive too slowly, because other requests need their
// memory.
func (c *Connections) AbortSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.slowChecked) < pollInterval {
		return
	}
	c.slowChecked = now
	for _, slot := range c.slots {
		if slot.slowLocked(now) {
			c.abortSlowLocked(slot, now)
		}
	}
}
