package httpconn

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// ConnSlot is a served connection, as its requests see it. The methods may be called concurrently.
// On a nil ConnSlot, of a request without a real connection, they do nothing.
//
//	queued --> idle <--> serving <--> reading
//	            |           |            |
//	            |           +--> finishing --> idle
//	            +--> closing or closed, from every phase
type ConnSlot struct {
	c             *Connections
	conn          net.Conn
	limit         *connlimit.Slot // set before the first request
	displaced     atomic.Bool     // a write took the slot while a request waited for records
	request       string          // its name by the client
	client        string          // address of the client of a forwarded request; "": that of conn
	body          int64           // length of the request's body
	whole         bool            // the request's body arrived with its head
	read          atomic.Int64    // bytes of the request's body
	authenticated atomic.Bool     // a request had the key

	// The fields below are guarded by c.mu.
	phase   phase
	since   time.Time     // start of the phase; of serving, which has no limit, that of an earlier one
	element *list.Element // in c.idle, from the first phase idle on

	evicted         time.Time // last eviction attempt, in phase idle
	unauthenticated bool      // to be closed after its answer
	complete        bool      // in phase finishing: the body was read to its end
	gone            func()    // ends the event stream that has taken the connection over; nil: none has
}

// phase is the activity of a connection.
type phase uint8

const (
	queued    phase = iota // waits for a slot
	idle                   // waits for a request
	serving                // a request is being handled
	reading                // a request reads its body
	finishing              // the request has ended; answer or rest of the body in transit
	closing                // closed by Connections
	closed                 // net/http has released it
)

const (
	// A connection may be idle for idleMin before it can be evicted, for silentMin if it has not
	// sent anything, and for unreadMax while the kernel holds unread bytes of it.
	idleMin   = 5 * time.Millisecond
	silentMin = 500 * time.Millisecond
	unreadMax = 5 * time.Second
	// finishingMax is how long the end of a request may take while others are queued: time for an
	// answer to be sent.
	finishingMax = 250 * time.Millisecond
	// A body is slow if it takes at least slowAfter and averages fewer than slowBytes per second.
	slowAfter = time.Second
	slowBytes = 16 << 10
)

type slotKey struct{}

// SlotOf returns the slot of a request's connection, nil if there is none.
func SlotOf(ctx context.Context) *ConnSlot {
	slot, _ := ctx.Value(slotKey{}).(*ConnSlot)
	return slot
}

// Peer returns the certificate of the connection's client, or nil.
func (p *ConnSlot) Peer() *tlsport.Peer {
	if p == nil {
		return nil
	}
	if s, ok := p.conn.(*secured); ok {
		return s.Peer()
	}
	return nil
}

// Over reports whether the connection is beyond the limit: it is served only if its request is worth
// more than a waiting reader (Promote), and otherwise refused.
func (p *ConnSlot) Over() bool { return p != nil && p.limit.Over() }

// Promote brings a connection beyond the limit within it, instead of a waiting reader. It returns false
// if none waits.
func (p *ConnSlot) Promote() bool { return p == nil || p.limit.Promote() }

// Refuse counts and logs that a request was refused for want of a slot.
func (p *ConnSlot) Refuse() {
	if p != nil {
		p.c.Slots.Refuse(p.Remote())
	}
}

// Read makes the connection that of a reader, whose request takes bytes of memory. It returns false if
// only the reserve is left, which is not for readers.
func (p *ConnSlot) Read(bytes int64) bool { return p == nil || p.limit.Read(bytes+p.c.TLS) }

// Wait is Read, and begins a wait for records, until EndWait. cancel is called if a write takes the
// slot: then the wait has to end with what there is (Displaced), and the connection ends after the
// answer.
func (p *ConnSlot) Wait(bytes int64, cancel func()) bool {
	if p == nil {
		return true
	}
	if !p.Read(bytes) {
		return false
	}
	p.limit.Wait(func() {
		p.displaced.Store(true)
		cancel()
	})
	return true
}

// EndWait ends the wait.
func (p *ConnSlot) EndWait() {
	if p != nil {
		p.limit.EndWait()
	}
}

// Displaced reports whether a write has taken the connection's slot.
func (p *ConnSlot) Displaced() bool { return p != nil && p.displaced.Load() }

// Begin starts a request and returns what is wrong with its head, or nil.
func (p *ConnSlot) Begin(r *http.Request) *api.Problem {
	if p == nil {
		return nil
	}
	p.body, p.whole, p.client = r.ContentLength, false, ""
	p.request = r.Header.Get("X-Request-Id")
	seen, ok := p.conn.(seenConn)
	if !ok {
		return nil
	}
	g := seen.seen()
	// Without a body net/http may be reading ahead by now, and then the rest of g belongs to it.
	p.whole = r.ContentLength > 0 && g.ahead >= r.ContentLength
	return g.head.fault(r)
}

// Remote returns the client's address.
func (p *ConnSlot) Remote() string {
	switch {
	case p == nil:
		return ""
	case p.client != "":
		return p.client
	}
	return p.conn.RemoteAddr().String()
}

// ForwardedFor sets the address of the client of a request that another broker has forwarded. Only
// the request's handler may call it and Remote.
func (p *ConnSlot) ForwardedFor(client string) {
	if p != nil {
		p.client = client
	}
}

// RequestID returns the name that the client gave its request (X-Request-Id), or "". Only the
// request's handler may call it.
func (p *ConnSlot) RequestID() string {
	if p == nil {
		return ""
	}
	return p.request
}

// BodyReceived reports, after Begin, whether the whole body has already arrived. Reading it then
// waits for nothing, so that it needs no deadline.
func (p *ConnSlot) BodyReceived() bool { return p != nil && p.whole }

// MarkAuthenticated records that the request has the key: the connection may be kept.
func (p *ConnSlot) MarkAuthenticated() {
	if p != nil && !p.authenticated.Load() {
		p.authenticated.Store(true)
	}
}

// BeginRead records that the request reads its body from now on. A slow body may then be aborted;
// its reads fail.
func (p *ConnSlot) BeginRead() {
	if p != nil {
		p.read.Store(0)
		p.change(reading, serving)
	}
}

// AddRead counts bytes of the body.
func (p *ConnSlot) AddRead(n int) {
	if p != nil {
		p.read.Add(int64(n))
	}
}

// EndRead records that the request does not read its body, because it is complete or the broker
// waits.
func (p *ConnSlot) EndRead() {
	if p != nil {
		// finishing: the body was aborted as slow and ended nevertheless
		p.change(serving, reading, finishing)
	}
}

// MarkUnauthenticated marks the connection for closing after an unauthorized request.
func (p *ConnSlot) MarkUnauthenticated() {
	if p != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		p.unauthenticated = true
	}
}

// Finish records that the handler has returned.
func (p *ConnSlot) Finish() {
	if p != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		p.complete = p.whole || p.body == 0 || p.body > 0 && p.read.Load() >= p.body
		if p.phase == serving || p.phase == reading {
			p.enterLocked(finishing)
		}
	}
}

// change enters phase to if the current phase is one of from.
func (p *ConnSlot) change(to phase, from ...phase) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if slices.Contains(from, p.phase) {
		p.enterLocked(to)
	}
}

func (p *ConnSlot) enterLocked(to phase) {
	if p.phase >= closing && to < p.phase {
		return // net/http still reports states of a closed connection
	}
	if to == idle {
		p.limit.Set(IdleBytes + p.c.TLS)
	}
	p.phase, p.evicted = to, time.Time{}
	if to != serving {
		p.since = time.Now()
	}
	switch {
	case to == idle && p.element == nil:
		p.element = p.c.idle.PushBack(p)
	case to == idle:
		p.c.idle.MoveToBack(p.element)
	case to >= closing && p.element != nil:
		p.c.idle.Remove(p.element)
		p.element = nil
	}
}

// idleLocked reports whether an idle connection may be evicted.
func (p *ConnSlot) evictableLocked(now time.Time) bool {
	age := now.Sub(p.since)
	if p.authenticated.Load() && age < p.c.keepIdle {
		return false // the client may send its next request at any moment
	}
	return now.Sub(p.evicted) >= pollInterval && (age >= unreadMax || !unread(p.conn)) && (age >= silentMin || !mute(p.conn))
}

// finishedLocked reports whether a connection whose request has ended may be closed for another: if its
// body does not end, or its answer does not leave. Another one waits only for a processor.
func (p *ConnSlot) finishedLocked(now time.Time) bool {
	age := now.Sub(p.since)
	switch {
	case p.phase != finishing:
		return false
	case p.unauthenticated:
		return age >= idleMin
	}
	return age >= finishingMax && (age >= unreadMax || !p.complete || unsent(p.conn))
}

// slowLocked reports whether a body is slow enough to be aborted for others.
func (p *ConnSlot) slowLocked(now time.Time) bool {
	took := now.Sub(p.since)
	return p.phase == reading && took >= slowAfter && p.read.Load() < int64(took.Seconds()*slowBytes)
}
