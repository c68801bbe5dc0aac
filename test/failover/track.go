package failover

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// event is an acknowledgement, or a record that a consumer got.
type event struct {
	at, due time.Duration // since the start of the campaign
}

// track collects the events of one client. Its methods may be called concurrently.
type track struct {
	name  string
	began time.Time

	mu     sync.Mutex // guards the fields below
	events []event    // by at
	due    time.Duration
	errors map[string]int
	resets int
}

func newTrack(name string, began time.Time) *track {
	return &track{name: name, began: began, errors: map[string]int{}}
}

// now is the time since the start of the campaign.
func (t *track) now() time.Duration { return time.Since(t.began) }

// add notes that the record which was due at a time is acknowledged or read at another.
func (t *track) add(due, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.events); n > 0 {
		at = max(at, t.events[n-1].at) // of concurrent calls
	}
	t.events = append(t.events, event{at, due})
	t.due = max(t.due, due)
}

// failed counts an error.
func (t *track) failed(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors[kind]++
}

// reset counts an offset that does not follow the previous one.
func (t *track) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resets++
}

// newest returns the latest time at which a finished record was due.
func (t *track) newest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due
}

// counts returns the errors and resets until now.
func (t *track) counts() (map[string]int, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.errors), t.resets
}

// between returns the events of a window, with the last one before it and the first one after it.
func (t *track) between(from, to time.Duration) []event {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := func(e event, d time.Duration) int { return cmp.Compare(e.at, d) }
	first, _ := slices.BinarySearchFunc(t.events, from, at)
	last, _ := slices.BinarySearchFunc(t.events, to, at)
	return slices.Clone(t.events[max(0, first-1):min(len(t.events), last+1)])
}

// pauseMin is the shortest gap that counts as a pause.
const pauseMin = 500 * time.Millisecond

// gaps returns the longest time between two events, the longest time from when a record was due to
// its event, and the number of pauses.
func gaps(events []event) (longest, late time.Duration, pauses int) {
	for i, e := range events {
		late = max(late, e.at-e.due)
		if i == 0 {
			continue
		}
		gap := e.at - events[i-1].at
		longest = max(longest, gap)
		if gap >= pauseMin {
			pauses++
		}
	}
	return longest, late, pauses
}
