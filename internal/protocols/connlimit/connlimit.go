// Package connlimit bounds the open connections of all listeners of a broker together, by the memory
// and the files that they take.
//
//	0                                    9/10      10/10
//	├── every connection ─────────────────┼─ reserve ─┤┄ over ┄
//	                                      │           └ new ones, until their request has shown what they
//	                                      │             are: a write takes the slot of a waiting reader
//	                                      └ no reader may begin to wait
//
// A reader is a connection whose request waits for records. Readers take at most nine tenths, so that
// producers and operators always get in. A reader never takes the slot of another one: otherwise
// readers that reconnect would replace each other without end.
package connlimit

import (
	"cmp"
	"container/list"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/base/wake"
)

const (
	// reserveShare is the part of a limit in which no reader waits.
	reserveShare = 10
	// othersShare is the part of the memory that one listener leaves to the others.
	othersShare = 20
	// overMax bounds the connections of a listener beyond the limit, and their part of it.
	overMax   = 32
	overShare = 16
	// pollInterval is how often a new connection looks for a slot that the passage of time has freed.
	pollInterval = 20 * time.Millisecond
	// closingTime is the time for evicted connections to close.
	closingTime = 100 * time.Millisecond
)

// Limiter is the limit of all listeners. Its methods may be called concurrently.
type Limiter struct {
	o Options

	mu        sync.Mutex // guards the fields below, and those of listeners and slots that say so
	used      int64      // bytes of the open connections
	open      int
	waiting   list.List // *Slot of the readers that wait, longest first
	listeners []*Listener
	lines     sampled.Lines
}

// Options configure New. A zero number means no bound.
type Options struct {
	Bytes  int64        // memory of all connections
	Files  int          // open connections, because each takes a file
	Logger *slog.Logger // nil discards
}

// New returns a limiter without listeners.
func New(o Options) *Limiter {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Bytes, o.Files = cmp.Or(o.Bytes, math.MaxInt64/2), cmp.Or(o.Files, math.MaxInt)
	return &Limiter{o: o}
}

// Listener is the part of one listener in the limit. On a nil Listener there is no limit.
type Listener struct {
	l       *Limiter
	o       ListenerOptions
	freed   wake.Signal // a slot may be free
	refused *metrics.Counter

	open, over int   // guarded by l.mu
	used       int64 // bytes of its connections; guarded by l.mu
}

// ListenerOptions configure Listen. Name, Bytes and Evict are required.
type ListenerOptions struct {
	Name  string // in metrics and log lines, such as http
	Bytes int64  // memory of a connection
	// Max bounds the connections of this listener; 0: no bound of its own. Flag is the setting that
	// changes it.
	Max  int
	Flag string
	// Evict closes the connection of this listener whose client loses least by that, if there is one
	// that may be closed for a new one. The connection's slot may be closed later.
	Evict   func(now time.Time) bool
	Metrics *metrics.Set // nil: none
}

// Listen adds a listener.
func (l *Limiter) Listen(o ListenerOptions) *Listener {
	o.Max = cmp.Or(o.Max, math.MaxInt)
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	p := &Listener{l: l, o: o, freed: wake.New()}
	p.refused = o.Metrics.NewCounter("seb_" + o.Name + "_connections_refused_total")
	o.Metrics.NewGauge("seb_"+o.Name+"_connections", func() float64 { return float64(p.Open()) })
	o.Metrics.NewGauge("seb_"+o.Name+"_connections_limit", func() float64 { return float64(p.Most()) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, p)
	return p
}

// Open returns the number of open connections.
func (p *Listener) Open() int {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.open
}

// Most returns the number of connections within the limit if no other listener had any.
func (p *Listener) Most() int {
	return int(min(int64(p.o.Max), int64(p.l.o.Files), p.mostBytes()/p.o.Bytes))
}

// mostBytes returns the memory that one listener may take. The rest is for the others, so that clients
// of one do not keep those of another away.
func (p *Listener) mostBytes() int64 { return p.l.o.Bytes - p.l.o.Bytes/othersShare }

// Refused returns the number of refused connections.
func (p *Listener) Refused() uint64 { return p.refused.Get() }

// FilesSetting is the setting of the limit of open files.
const FilesSetting = "ulimit -n"

// Setting names what raises the limit of this listener, as full as it is now.
func (p *Listener) Setting() string {
	switch most := p.Most(); {
	case most == p.o.Max:
		return p.o.Flag
	case most == p.l.o.Files:
		return FilesSetting
	}
	return "--memory-limit"
}

// Status describes all listeners for GET /status.
func (l *Limiter) Status() *api.ConnectionsStatus {
	l.mu.Lock()
	s, listeners := &api.ConnectionsStatus{Used: l.used, Limit: l.o.Bytes}, l.listeners
	l.mu.Unlock()
	for _, p := range listeners {
		s.Listeners = append(s.Listeners, api.ListenerStatus{
			Name: p.o.Name, Open: p.Open(), Limit: p.Most(), Refused: p.Refused(), Setting: p.Setting(),
		})
	}
	return s
}

// Slot is an open connection. Its methods may be called concurrently.
type Slot struct {
	p       *Listener
	bytes   int64         // guarded by l.mu
	reader  bool          // may wait; guarded by l.mu
	over    atomic.Bool   // beyond the limit; written with l.mu
	closed  bool          // guarded by l.mu
	leave   func()        // ends the wait; guarded by l.mu
	element *list.Element // in l.waiting while it waits; guarded by l.mu
}

// fitsLocked reports whether n more connections and bytes leave 1/share of the limit free; 0: none of it.
func (p *Listener) fitsLocked(n int, bytes int64, share int) bool {
	within := func(have, limit int64) bool {
		if share > 0 {
			limit -= limit / int64(share)
		}
		return have <= limit
	}
	return within(p.l.used+bytes, p.l.o.Bytes) && within(int64(p.l.open+n), int64(p.l.o.Files)) &&
		within(int64(p.open+n), int64(p.o.Max)) && p.used+bytes <= p.mostBytes()
}

// Enter returns the slot of a new connection. While none is free, it asks the listeners to close
// connections, this one first. After until, or at once if nothing but a waiting reader could make
// room, the connection enters beyond the limit, where there are few slots. Enter returns nil if none
// is free, or if stop is closed.
func (p *Listener) Enter(until time.Time, stop <-chan struct{}) *Slot {
	var tick *time.Ticker
	for {
		if s := p.Take(); s != nil {
			return s
		}
		now := time.Now()
		evicted, late := p.evict(now), !now.Before(until)
		if late && !evicted || now.After(until.Add(closingTime)) || !evicted && p.displaces() {
			if s := p.take(true); s != nil || late {
				return s
			}
		}
		if tick == nil {
			tick = time.NewTicker(pollInterval)
			defer tick.Stop()
		}
		select {
		case <-p.freed:
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}

// Take returns a slot within the limit, or nil.
func (p *Listener) Take() *Slot { return p.take(false) }

// take returns a slot, within the limit or beyond it, or nil.
func (p *Listener) take(over bool) *Slot {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if !over && !p.fitsLocked(1, p.o.Bytes, 0) || over && p.over >= min(overMax, p.Most()/overShare+1) {
		return nil
	}
	s := &Slot{p: p, bytes: p.o.Bytes}
	s.over.Store(over)
	p.l.used += s.bytes
	p.used += s.bytes
	p.l.open++
	p.open++
	if over {
		p.over++
	}
	return s
}

// displaces reports whether a write could take the slot of a reader.
func (p *Listener) displaces() bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.firstLocked() != nil
}

// evict reports whether a connection is being closed for a new one of p. It holds no lock, because
// listeners take theirs.
func (p *Listener) evict(now time.Time) bool {
	if p.o.Evict(now) {
		return true
	}
	p.l.mu.Lock()
	own, all := p.open-p.over >= p.o.Max, p.l.listeners // own: another listener cannot help
	p.l.mu.Unlock()
	for _, other := range all {
		if !own && other != p && other.o.Evict(now) {
			return true
		}
	}
	return false
}

// firstLocked returns the reader that has waited longest, whose end would help p; nil: none.
func (p *Listener) firstLocked() *Slot {
	own := p.open-p.over >= p.o.Max
	for e := p.l.waiting.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*Slot); s.p == p || !own {
			return s
		}
	}
	return nil
}

// Over reports whether the connection is beyond the limit.
func (s *Slot) Over() bool { return s != nil && s.over.Load() }

// Promote brings a connection that is beyond the limit within it, because its request writes or
// operates the broker. If nothing is free, the reader that has waited longest ends. It returns false
// if no reader waits.
func (s *Slot) Promote() bool {
	if !s.Over() {
		return true
	}
	l := s.p.l
	l.mu.Lock()
	if !s.over.Load() || s.closed {
		l.mu.Unlock()
		return true
	}
	var leave func()
	if !s.p.fitsLocked(0, 0, 0) {
		first := s.p.firstLocked()
		if first == nil {
			l.mu.Unlock()
			return false
		}
		leave = first.leave
		first.endWaitLocked()
	}
	s.over.Store(false)
	s.p.over--
	l.mu.Unlock()
	if leave != nil {
		leave()
	}
	return true
}

// Read makes the connection that of a reader, which takes bytes. It returns false if only the reserve
// is left, unless it was a reader before, or another connection can be closed for it.
func (s *Slot) Read(bytes int64) bool {
	if s == nil {
		return true
	}
	return s.read(bytes) || s.p.evict(time.Now()) && s.read(bytes) // perhaps only the next attempt succeeds
}

func (s *Slot) read(bytes int64) bool {
	s.p.l.mu.Lock()
	defer s.p.l.mu.Unlock()
	if s.over.Load() || !s.reader && !s.p.fitsLocked(0, bytes-s.bytes, reserveShare) {
		return false
	}
	s.reader = true
	if !s.closed {
		s.setLocked(bytes)
	}
	return true
}

// Set sets the memory of the connection, whatever is free.
func (s *Slot) Set(bytes int64) {
	if s == nil {
		return
	}
	s.p.l.mu.Lock()
	defer s.p.l.mu.Unlock()
	if !s.closed {
		s.setLocked(bytes)
	}
}

func (s *Slot) setLocked(bytes int64) {
	less := bytes < s.bytes
	s.p.l.used += bytes - s.bytes
	s.p.used += bytes - s.bytes
	s.bytes = bytes
	if less {
		s.p.l.freedLocked()
	}
}

// Wait begins a wait of a reader. leave is called, at most once and from any goroutine, if a write
// needs the slot: the wait must end, and then the connection.
func (s *Slot) Wait(leave func()) {
	if s == nil {
		return
	}
	s.p.l.mu.Lock()
	defer s.p.l.mu.Unlock()
	if s.element == nil && !s.closed {
		s.leave, s.element = leave, s.p.l.waiting.PushBack(s)
	}
}

// EndWait ends the wait.
func (s *Slot) EndWait() {
	if s != nil {
		s.p.l.mu.Lock()
		defer s.p.l.mu.Unlock()
		s.endWaitLocked()
	}
}

func (s *Slot) endWaitLocked() {
	if s.element != nil {
		s.p.l.waiting.Remove(s.element)
		s.leave, s.element = nil, nil
	}
}

// Close frees the slot. It may be called more than once.
func (s *Slot) Close() {
	if s == nil {
		return
	}
	l := s.p.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.endWaitLocked()
	if s.over.Load() {
		s.p.over--
	}
	s.p.open--
	l.open--
	l.used -= s.bytes
	s.p.used -= s.bytes
	l.freedLocked()
}

// freedLocked wakes the new connections.
func (l *Limiter) freedLocked() {
	for _, p := range l.listeners {
		p.freed.Send()
	}
}

// Refuse counts and logs a refused connection.
func (p *Listener) Refuse(remote string) {
	p.refused.Inc()
	p.l.lines.Warn(p.l.o.Logger, p.o.Name, "connections at their limit and in use, new ones are refused", "listener", p.o.Name,
		"open", p.Open(), "limit", p.Most(), "remote", remote, "flag", p.Setting())
}
