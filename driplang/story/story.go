// Package story shows what an expression means by short histories of one entity: some fire, some do
// not, and some are undecided. Most differ from another one in one event or one instant.
//
// [Of] builds histories from the normal form of the expression that should make it true, varies
// them, evaluates all with a monitor, and keeps a few that differ in kind. Its work is bounded, and
// the same expression has the same stories.
package story

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
)

// Limits of an answer.
const (
	// MaxStories is the maximum number of stories of an expression.
	MaxStories = 10
	// MaxEvents is the maximum number of events of a story.
	MaxEvents = 64
	// maxData bounds the data of the events of a story together, in bytes.
	maxData = 16 << 10
)

// Outcome is the end of a story.
type Outcome string

// Fires: the expression becomes true. DoesNotFire: it does not, even after all open windows.
// Pending: an open window decides.
const (
	Fires       Outcome = "fires"
	DoesNotFire Outcome = "does_not_fire"
	Pending     Outcome = "pending"
)

// Event is an event of a story.
type Event struct {
	Name  string
	Data  json.RawMessage // nil: it has no effect
	After int64           // time after the first event, in milliseconds
	Words string          // the same in English; "" for the first event
}

// Story is a history of one entity.
type Story struct {
	Outcome Outcome
	Events  []Event // at least one
	// End is the time after the first event, in milliseconds, at which the story ends: it fires, no
	// window is open any more, or, if Pending, a window is still open. Later events may follow it.
	End  int64
	Text string // the story in English
	// DiffersFrom is the index of an earlier story that differs in one event or one instant; -1: none.
	DiffersFrom int
	Difference  string // in English, seen from the other story
	// Change is the difference. It is the zero Change if DiffersFrom is -1.
	Change Change
}

// Reason says why no story fires.
type Reason string

const (
	// TrueAtStart: the expression is true before any event, so that nothing can make it true.
	TrueAtStart Reason = "true_at_start"
	// NeverTrue: no history makes the expression true.
	NeverTrue Reason = "never_true"
	// NotFound: no examined history makes the expression true.
	NotFound Reason = "not_found"
)

// Answer is the result of Of.
type Answer struct {
	// Stories have the plainest one that fires first, then near misses, undecided ones, and boundaries
	// of windows.
	Stories []Story
	// NoneFires is the reason if no story fires, else "". Note says it in English.
	NoneFires Reason
	Note      string
	// Truncated: fewer histories were examined than such an expression deserves, because it is large.
	Truncated bool
}

// Of returns the stories of an expression. It returns an error if monitor.Compile does.
func Of(e driplang.Expr) (Answer, error) {
	p, err := monitor.Compile(e, monitor.Options{Pending: true})
	if err != nil {
		return Answer{}, err
	}
	if p.Initially() == monitor.True {
		return Answer{
			Stories: []Story{}, NoneFires: TrueAtStart,
			Note: "The expression is true before any event, so that no event can make it true. Add an event that starts it.",
		}, nil
	}
	t := newTeller(e, p)
	var a Answer
	a.Stories = t.stories()
	a.Truncated = t.truncated
	switch {
	case t.fired:
	case monitor.New(p).Settled():
		a.NoneFires, a.Note = NeverTrue, "The expression can never become true."
	default:
		a.NoneFires, a.Note = NotFound, "No history of at most 64 events was found that makes the expression true."
	}
	return a, nil
}

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// plainUnits are the units of plain durations, in milliseconds.
var plainUnits = []int64{day, hour, 30 * minute, 15 * minute, 10 * minute, minute, 10 * second, second, 100, 10, 1}

// usual is the time between two events without a window.
const usual = hour

// plain returns a duration between two others that is easy to read, near the wanted one. It excludes
// both, if there is another one. low is at most high.
func plain(low, want, high int64) int64 {
	for _, u := range plainUnits {
		for _, d := range []int64{want / u * u, (want/u + 1) * u} {
			if low < d && d < high {
				return d
			}
		}
	}
	return high
}

// between returns a plain duration in the middle of two others.
func between(low, high int64) int64 { return plain(low, low+(high-low)/2, high) }

// beyond returns the next plain duration that is longer than d.
func beyond(d int64) int64 {
	for _, u := range plainUnits {
		if u <= max(d, 1) {
			return (d/u + 1) * u
		}
	}
	return d + 1
}

// words returns a duration in English. A millisecond more or less than a plainer one is said so.
func words(millis int64) string {
	if millis == 0 {
		return "0 milliseconds"
	}
	in := func(millis int64) string { return driplang.DurationInWords(time.Duration(millis) * time.Millisecond) }
	if more := in(millis + 1); millis > 2 && parts(more) < parts(in(millis)) {
		return "1 millisecond less than " + more
	}
	return in(millis)
}

func parts(s string) int { return strings.Count(s, ",") + strings.Count(s, " and ") }
