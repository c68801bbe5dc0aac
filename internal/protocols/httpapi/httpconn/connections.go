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

	"github.com/sebbroker/seb/internal/engine/base/wake"
)

// headerBytesMax bounds a request's headers.
const headerBytesMax = 16 << 10

// Connections limits how many connections are served at once. A new connection over the limit is
// queued in Accept, and later ones in the kernel. While one is queued, Connections makes room in
// this order:
//
//  1. idle: a connection without a request, longest first; after an authorized request only after KeepIdle
//  2. finishing: a connection whose request has ended and whose response or body does not end
//  3. slow: the request whose body arrives too slowly, longest first
//
// If a connection is queued for QueueWait, it is accepted only to be refused: see ConnSlot.Refused.
// Set the exported fields before Server; all are required.
type Connections struct {
	Drain   *DrainGroup
	Open    *metrics.Gauge   // open connections, including the queued one
	Queued  *metrics.Counter // connections that were queued
	Evicted *metrics.Counter // connections that were closed for another
	Refused *metrics.Counter // connections that were accepted to be refused

	queued   atomic.Int32 // connections that are queued
	max      int
	wait     time.Duration
	keepIdle time.Duration // ServerOptions.KeepIdle
	changed  wake.Signal   // a slot may be free

	mu          sync.Mutex // guards the fields below and the phase fields of each ConnSlot
	slots       map[net.Conn]*ConnSlot
	idle        list.List // *ConnSlot, by the start of its last phase idle
	slowChecked time.Time // last pass of AbortSlow
}

// ServerOptions are what Connections.Server needs. All fields are required.
type ServerOptions struct {
	Handler http.Handler
	Logger  *slog.Logger // receives the errors of net/http at level debug
	Max     int          // connections served at once; see refusedMost
	// HeaderTimeout bounds a request's headers, IdleTimeout the wait for the next request on a
	// connection, QueueWait the wait of a new connection for a slot.
	HeaderTimeout, IdleTimeout, QueueWait time.Duration
	// KeepIdle is how long a connection that had an authorized request stays open while others are
	// queued.
	KeepIdle time.Duration
}

// refusedMost bounds the connections over the limit that are open to be refused; at most a quarter
// of the limit.
const refusedMost = 32

// Open returns the largest number of open connections of a server that serves n.
func Open(n int) int { return n + min(refusedMost, n/4+1) }

// Served returns the largest number of connections to serve so that at most open are open. It is at
// least 1.
func Served(open int) int {
	n := max(1, (open-1)*4/5, open-refusedMost)
	if Open(n+1) <= open { // the division rounded down
		n++
	}
	return n
}

// Server returns a server with timeouts and limits, ready for a listener. Its Shutdown stops Drain.
// Call Shutdown or Drain.Stop before Close, because Close waits for a connection that is queued.
func (c *Connections) Server(o ServerOptions) *http.Server {
	c.max, c.wait, c.keepIdle = o.Max, o.QueueWait, o.KeepIdle
	c.changed = wake.New()
	c.slots = map[net.Conn]*ConnSlot{}
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
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.slotLocked(conn)
	switch s {
	case http.StateNew:
		c.Open.Inc()
		c.admitLocked(slot)
	case http.StateActive:
		slot.enterLocked(serving)
	case http.StateIdle:
		if g, ok := conn.(seenConn); ok {
			g.seen().next(slot.body)
		}
		slot.enterLocked(idle)
		c.changed.Send()
	case http.StateClosed, http.StateHijacked:
		c.Open.Dec()
		slot.enterLocked(closed)
		delete(c.slots, conn)
		c.changed.Send()
	}
}

func (c *Connections) slotLocked(conn net.Conn) *ConnSlot {
	if g, ok := conn.(seenConn); ok {
		return g.seen().slot // faster than the map, for each request
	}
	return c.slots[conn]
}

// pollInterval is how often a queued connection checks for a slot that only the passage of time has
// freed.
const pollInterval = 20 * time.Millisecond

// admitLocked returns when slot is admitted. If the server stops first, it closes the connection
// and returns without admitting it. It releases c.mu while it waits.
func (c *Connections) admitLocked(slot *ConnSlot) {
	// slot itself is in c.slots already.
	if len(c.slots) <= c.max {
		slot.enterLocked(idle)
		return
	}
	c.Queued.Inc()
	c.queued.Add(1)
	defer c.queued.Add(-1)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	until := time.Now().Add(c.wait - waited(slot.conn))
	for {
		now := time.Now()
		late := now.After(until)
		most := c.max
		if late {
			most = Open(c.max)
		}
		if len(c.slots) <= most {
			if slot.refused = len(c.slots) > c.max; slot.refused {
				c.Refused.Inc()
			}
			slot.enterLocked(idle)
			return
		}
		c.evictLocked(now)
		c.mu.Unlock()
		stopped := false
		select {
		case <-c.changed:
		case <-tick.C:
		case <-c.Drain.ended:
			cut(slot.conn) // the first read of the server fails and ends the connection
			stopped = true
		}
		c.mu.Lock()
		if stopped {
			return
		}
	}
}

// evictLocked closes the cheapest connection to lose: idle first, then finishing, then a slow
// upload. It may close none.
func (c *Connections) evictLocked(now time.Time) {
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
			return
		}
	}
	for _, slot := range c.slots {
		if slot.finishedLocked(now) {
			c.closeLocked(slot)
			return
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
