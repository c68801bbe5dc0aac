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
)

// Place is a connection that is served, as its requests see it. The methods may be called concurrently, and of a nil
// Place, which belongs to a request without a real connection: then they do nothing.
type Place struct {
	c       *Connections
	conn    net.Conn
	refused bool         // set before the first request
	body    int64        // length of the request's; this and the next of the goroutine that serves the connection
	whole   bool         // the request's body was there when its head was
	read    atomic.Int64 // bytes of the request's body
	trusted atomic.Bool  // it has had a request with the key

	// guarded by c.mu
	phase phase
	since time.Time     // when the phase was entered
	place *list.Element // in c.asking

	pressed   time.Time // when it was last told to make room, in phase asking
	dismissed bool      // it is to end, and hardly matters how
}

// phase is what a connection is doing.
type phase uint8

const (
	outside phase = iota // it has no place yet
	asking               // there is no whole request, the first or the next
	serving              // a request is at work
	reading              // a request reads its body
	leaving              // a request is over; its answer is being sent, or what is left of its body is received
	ending               // closed by us
	gone                 // net/http is done with it
)

const (
	// askingMin is how long a connection may ask for nothing undisturbed, silentMin is that time for one that has not sent
	// anything yet, and unreadMax while the kernel has bytes of it that nobody has read.
	askingMin = 5 * time.Millisecond
	silentMin = 500 * time.Millisecond
	unreadMax = 5 * time.Second
	// leavingMax is how long the end of a request may take while others wait: for an answer to be on its way.
	leavingMax = 250 * time.Millisecond
	// slowAfter and slowBytes say which bodies are slow enough to be given up for others: so many bytes a second, on
	// average, once they have had some time.
	slowAfter = time.Second
	slowBytes = 16 << 10
)

type placeKey struct{}

// PlaceOf returns the place of a request's connection, nil if there is none.
func PlaceOf(ctx context.Context) *Place {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p
}

// Refused says whether the connection was let in only to be told that there is no place for it.
func (p *Place) Refused() bool { return p != nil && p.refused }

// Begin looks at a request and says what is wrong with its head.
func (p *Place) Begin(r *http.Request) *api.Problem {
	if p == nil {
		return nil
	}
	p.body, p.whole = r.ContentLength, false
	seen, ok := p.conn.(seenConn)
	if !ok {
		return nil
	}
	g := seen.seen()
	// With no body at all net/http may be reading ahead by now, and the rest of g is its.
	p.whole = r.ContentLength > 0 && g.ahead >= r.ContentLength
	return g.head.fault(r)
}

// Whole says, after Begin, whether all of the request's body has come in already, as small ones do: reading it waits for
// nobody, so there is nothing to time and nothing to give up.
func (p *Place) Whole() bool { return p != nil && p.whole }

// Trust tells that the request has the key: its client may keep the connection.
func (p *Place) Trust() {
	if p != nil && !p.trusted.Load() {
		p.trusted.Store(true)
	}
}

// Reading tells that the request begins to read its body; then it may be ended for being slow, which its reads hear.
func (p *Place) Reading() {
	if p != nil {
		p.read.Store(0)
		p.change(reading, serving)
	}
}

// Got tells of bytes of the body.
func (p *Place) Got(n int) {
	if p != nil {
		p.read.Add(int64(n))
	}
}

// Read tells that the body has been read, or is not read for a while.
func (p *Place) Read() {
	if p != nil {
		p.change(serving, reading, leaving) // leaving: it was slow, and came to its end all the same
	}
}

// Dismiss tells that the answer of the request ends the connection, of somebody who has no key.
func (p *Place) Dismiss() {
	if p != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		p.dismissed = true
	}
}

// Leaving tells that the request is over.
func (p *Place) Leaving() {
	if p != nil {
		p.change(leaving, serving, reading)
	}
}

// change enters a phase if p is in one of others.
func (p *Place) change(to phase, from ...phase) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if slices.Contains(from, p.phase) {
		p.enterLocked(to)
	}
}

func (p *Place) enterLocked(to phase) {
	if p.phase >= ending && to < p.phase {
		return // what net/http still says of a connection that was closed
	}
	if p.place != nil {
		p.c.asking.Remove(p.place)
		p.place = nil
	}
	p.phase, p.since, p.pressed = to, time.Now(), time.Time{}
	if to == asking {
		p.place = p.c.asking.PushBack(p)
	}
}

// idleLocked says whether a connection that asks may be ended for another.
func (p *Place) idleLocked(now time.Time) bool {
	age := now.Sub(p.since)
	if p.trusted.Load() && age < p.c.keep {
		return false // a client sends the next request on it at any moment
	}
	return now.Sub(p.pressed) >= lookEvery && (age >= unreadMax || !unread(p.conn)) && (age >= silentMin || !mute(p.conn))
}

// leftLocked says whether a connection whose request is over may be ended for another.
func (p *Place) leftLocked(now time.Time) bool {
	age := now.Sub(p.since)
	return p.phase == leaving && (age >= leavingMax || p.dismissed && age >= askingMin)
}

// slowLocked says whether a body is given up when others need its place or memory.
func (p *Place) slowLocked(now time.Time) bool {
	took := now.Sub(p.since)
	return p.phase == reading && took >= slowAfter && p.read.Load() < int64(took.Seconds()*slowBytes)
}
