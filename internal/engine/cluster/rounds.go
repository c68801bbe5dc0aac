package cluster

import "time"

// Round is the time between two rounds of a loop that steps a Core.
const Round = 100 * time.Millisecond

// Rounds decides when the loop that steps a Core asks the goroutine that owns the log for a Report. At
// most one is on its way. A round comes at its time however many events come before it, because beats
// are sent in rounds.
type Rounds struct {
	Every  time.Duration
	next   time.Time
	asking bool // a Report is on its way
	again  bool // something has happened since it was asked for
}

// Wait returns the time until the next round. A loop that rests makes none before something happens.
func (r *Rounds) Wait(now time.Time, rests bool) time.Duration {
	if rests && !r.again {
		return time.Hour
	}
	return max(r.next.Sub(now), 0)
}

// Begin reports whether a round begins now, with a Report that is asked for.
func (r *Rounds) Begin(now time.Time) bool { return !now.Before(r.next) && r.ask(now) }

func (r *Rounds) ask(now time.Time) bool {
	if r.next = now.Add(r.Every); r.asking {
		return false
	}
	r.asking, r.again = true, false
	return true
}

// Turned notes that the log has begun or ended to lead. A Report on its way may be from before. It
// returns whether to ask for one now.
func (r *Rounds) Turned(now time.Time) bool {
	r.again = r.asking
	return r.ask(now)
}

// Answered notes the answer to a Report. It returns whether the Core gets it: not if there is none,
// because the log has ended, or is between two roles.
func (r *Rounds) Answered(err error) bool {
	r.asking = false
	r.again = r.again || err != nil
	return err == nil
}

// Stepped notes that the Core has made a step. It returns whether to ask for a Report now.
func (r *Rounds) Stepped(now time.Time, fx *Effects) bool {
	r.again = r.again || fx.Ask
	return r.again && r.ask(now)
}
