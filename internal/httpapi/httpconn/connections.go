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
)

// headerBytesMax bounds a request's headers.
const headerBytesMax = 16 << 10

// Connections limits how many connections are served at once. At the limit, a new connection replaces one that carries no
// request: one that never had an authorized request, or one that has been idle for KeepIdle. It also replaces one that sends
// its body very slowly. If there is none, the new connection waits for DoorWait in Accept, and those behind it in the kernel.
// Then it is served once, to be told that the limit is reached: see Place.Refused. The exported fields are set before Server;
// all are required.
type Connections struct {
	Stops   *Stops
	Open    *metrics.Gauge   // open connections, the one that is held included
	Held    *metrics.Counter // of connections that found no place free
	Evicted *metrics.Counter // of connections that were ended for another
	Refused *metrics.Counter // of connections that were let in to be refused

	held    atomic.Int32 // those that wait now
	max     int
	wait    time.Duration
	keep    time.Duration // ServerOptions.KeepIdle
	changed chan struct{} // something may have become free; holds one

	mu     sync.Mutex // guards what follows and what is in each Place
	places map[net.Conn]*Place
	asking list.List // of *Place in phase asking, the longest first
	shed   time.Time // when ShedSlow looked last
}

// ServerOptions are what Connections.Server needs. All fields are required.
type ServerOptions struct {
	Handler http.Handler
	Logger  *slog.Logger // gets what net/http says, as debug messages
	Max     int          // connections served at once; refusedMost more, at most a quarter, are let in only to be refused
	// HeaderTimeout is for a request's headers, IdleTimeout for the next request on a connection, DoorWait for a place.
	HeaderTimeout, IdleTimeout, DoorWait time.Duration
	// KeepIdle is how long a connection that had an authorized request is kept for the next one while others wait.
	KeepIdle time.Duration
}

// refusedMost is how many connections over the limit are open at once, each for the time of one answer.
const refusedMost = 32

// Open is how many connections a server that serves n may have open.
func Open(n int) int { return n + min(refusedMost, n/4+1) }

// Served is how many connections a server may serve, at least one, of which no more than open are to be open.
func Served(open int) int {
	n := max(1, (open-1)*4/5, open-refusedMost)
	if Open(n+1) <= open { // the fraction was rounded down
		n++
	}
	return n
}

// Server returns a server with its timeouts and limits set, to be given a listener. Its Shutdown calls Stops.Stop; call
// Shutdown, or Stop, before its Close, which waits for a connection that is held over the limit.
func (c *Connections) Server(o ServerOptions) *http.Server {
	c.max, c.wait, c.keep = o.Max, o.DoorWait, o.KeepIdle
	c.changed = make(chan struct{}, 1)
	c.places = map[net.Conn]*Place{}
	s := &http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ConnContext:       c.context,
		ConnState:         c.state,
		// "OPTIONS *" too goes through the handler, which looks at its head.
		DisableGeneralOptionsHandler: true,

		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), // clients that break off; nothing else comes here
	}
	s.RegisterOnShutdown(c.Stops.Stop)
	return s
}

// Waiting says whether a connection waits for another's end. Answers then close their own.
func (c *Connections) Waiting() bool { return c.held.Load() > 0 }

// context is called by net/http with a new connection, before state is.
func (c *Connections) context(ctx context.Context, conn net.Conn) context.Context {
	p := &Place{c: c, conn: conn}
	c.mu.Lock()
	c.places[conn] = p
	c.mu.Unlock()
	return context.WithValue(ctx, placeKey{}, p)
}

// state is called by net/http with a new connection before it accepts the next, so one that finds no place is held here.
func (c *Connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.places[conn]
	switch s {
	case http.StateNew:
		c.Open.Inc()
		c.admitLocked(p)
	case http.StateActive:
		p.enterLocked(serving)
	case http.StateIdle:
		if g, ok := conn.(seenConn); ok {
			g.seen().next(p.body)
		}
		p.enterLocked(asking)
		c.signal()
	case http.StateClosed, http.StateHijacked:
		c.Open.Dec()
		p.enterLocked(gone)
		delete(c.places, conn)
		c.signal()
	}
}

func (c *Connections) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// lookEvery is how often a held connection looks for a place that time alone has made free.
const lookEvery = 20 * time.Millisecond

// admitLocked returns when p has a place, or the server stops: then its connection is closed and has none. It unlocks
// while it waits.
func (c *Connections) admitLocked(p *Place) {
	// p itself is in c.places already.
	if len(c.places) <= c.max {
		p.enterLocked(asking)
		return
	}
	c.Held.Inc()
	c.held.Add(1)
	defer c.held.Add(-1)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	until := time.Now().Add(c.wait - waited(p.conn))
	for {
		now := time.Now()
		late := now.After(until)
		most := c.max
		if late {
			most = Open(c.max)
		}
		if len(c.places) <= most {
			if p.refused = len(c.places) > c.max; p.refused {
				c.Refused.Inc()
			}
			p.enterLocked(asking)
			return
		}
		c.evictLocked(now)
		c.mu.Unlock()
		stopped := false
		select {
		case <-c.changed:
		case <-tick.C:
		case <-c.Stops.ended:
			cut(p.conn) // the server's first read fails and ends the connection
			stopped = true
		}
		c.mu.Lock()
		if stopped {
			return
		}
	}
}

// evictLocked ends the connection that is worth least, if there is one that is worth little.
func (c *Connections) evictLocked(now time.Time) {
	for e := c.asking.Front(); e != nil; e = e.Next() {
		p := e.Value.(*Place)
		if now.Sub(p.since) < askingMin {
			break // those behind it are younger
		}
		if p.idleLocked(now) {
			c.pressLocked(p, now)
			return
		}
	}
	for _, p := range c.places {
		if p.leftLocked(now) {
			c.endLocked(p)
			return
		}
	}
	var slowest *Place
	for _, p := range c.places {
		if p.slowLocked(now) && (slowest == nil || p.since.Before(slowest.since)) {
			slowest = p
		}
	}
	if slowest != nil {
		c.hurryLocked(slowest, now)
	}
}

// pressLocked ends a connection that asks for nothing by letting its read fail: if net/http has just read a whole request
// it is served all the same. If net/http was about to set a deadline of its own, it takes another try.
func (c *Connections) pressLocked(p *Place, now time.Time) {
	if p.pressed.IsZero() {
		c.Evicted.Inc()
	}
	p.pressed = now
	_ = p.conn.SetReadDeadline(now)
}

// endLocked closes a connection; state hears of it soon.
func (c *Connections) endLocked(p *Place) {
	c.Evicted.Inc()
	p.enterLocked(ending)
	cut(p.conn)
}

// hurryLocked lets the reading of a slow body fail, which its request answers.
func (c *Connections) hurryLocked(p *Place, now time.Time) {
	c.Evicted.Inc()
	p.enterLocked(leaving)
	_ = p.conn.SetReadDeadline(now)
}

// ShedSlow lets requests fail whose bodies come very slowly: others need the memory that they hold.
func (c *Connections) ShedSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.shed) < lookEvery {
		return
	}
	c.shed = now
	for _, p := range c.places {
		if p.slowLocked(now) {
			c.hurryLocked(p, now)
		}
	}
}
