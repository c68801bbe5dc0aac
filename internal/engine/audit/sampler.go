package audit

import (
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
)

const (
	// window is the time in which further events of a key are only counted.
	window = time.Minute
	// keysMax bounds the table of keys; beyond it the oldest is dropped.
	keysMax = 1024
	// perWindow bounds the records of all keys.
	perWindow = 60
)

// Event is a denied request or a failed login.
type Event struct {
	Origin
	Change
	Outcome string
	Count   int // events that it stands for; 0 means one
}

// key is the source of events and their kind.
type key struct{ source, action, outcome string }

// Sampler limits the records of events: the first event of a key makes a record, and one record each
// minute counts those that followed. A Sampler has no goroutine. Its methods may be called
// concurrently, and never wait for others than callers of Sampler.
type Sampler struct {
	now  func() time.Time
	wake wake.Signal

	mu      sync.Mutex // guards the following fields
	windows map[key]*counted
	queue   []*counted // the windows, by their end
	ready   []Event    // at most perWindow
	left    int        // records until end
	end     time.Time
	dropped int
}

// counted is the window of a key.
type counted struct {
	key
	end  time.Time
	last Event
	more int // events after the first
}

// NewSampler returns a Sampler. now is its clock. wake is sent when Take has more to do.
func NewSampler(now func() time.Time, wake wake.Signal) *Sampler {
	return &Sampler{now: now, wake: wake, windows: map[key]*counted{}}
}

// Add adds an event of a source: a principal or a network. It may be called on a nil Sampler, which
// ignores events.
func (s *Sampler) Add(source string, e Event) {
	if s == nil {
		return
	}
	// The texts may be parts of a large request.
	e.Request, e.Resource.Name, e.From = strings.Clone(cut(e.Request, fieldMax)), strings.Clone(cut(e.Resource.Name, fieldMax)), strings.Clone(e.From)
	k := key{source, e.Action, e.Outcome}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.expireLocked(now)
	w := s.windows[k]
	if w != nil {
		w.more++
		w.last = e
		return
	}
	if len(s.queue) >= keysMax {
		s.dropped += s.queue[0].more
		s.shiftLocked()
	}
	w = &counted{key: k, end: now.Add(window)}
	s.windows[k] = w
	s.queue = append(s.queue, w)
	s.emitLocked(e, now)
	s.wake.Send()
}

func (s *Sampler) shiftLocked() {
	delete(s.windows, s.queue[0].key)
	s.queue[0] = nil
	s.queue = s.queue[1:]
}

// expireLocked ends windows. One with more events makes a record of their number, which begins the
// next window.
func (s *Sampler) expireLocked(now time.Time) {
	for len(s.queue) > 0 && !s.queue[0].end.After(now) {
		w := s.queue[0]
		s.shiftLocked()
		if w.more == 0 {
			continue
		}
		w.last.Count = w.more
		s.emitLocked(w.last, now)
		w.more, w.end = 0, now.Add(window)
		s.windows[w.key] = w
		s.queue = append(s.queue, w)
	}
}

func (s *Sampler) emitLocked(e Event, now time.Time) {
	if !now.Before(s.end) {
		s.left, s.end = perWindow, now.Add(window)
	}
	if s.left == 0 || len(s.ready) >= perWindow {
		s.dropped += max(1, e.Count)
		return
	}
	s.left--
	s.ready = append(s.ready, e)
}

// Take returns the events to record, the number of events since the last call that no record counts,
// and when it must be called again; zero if only after a wake.
func (s *Sampler) Take() (events []Event, dropped int, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(s.now())
	events, s.ready = s.ready, nil
	dropped, s.dropped = s.dropped, 0
	if len(s.queue) > 0 {
		next = s.queue[0].end
	}
	return events, dropped, next
}
