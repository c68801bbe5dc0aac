// Package logtime tells a leader the times of its commits (rule R15).
package logtime

import (
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// SkewMax is how far the machine's clock may be from the store's.
	SkewMax = 60 * time.Second
	// LeapMax is how far ahead of the log's last time a clock is believed at a start.
	LeapMax = 400 * 24 * time.Hour
	// LeapDistrust is from when on a leap at a start is not believed at once by what deletes.
	LeapDistrust = 24 * time.Hour
	// never is a time (µs, in 2001) below which a log holds nothing but empty slots, which count from 0.
	never = 1e15
)

// Reading is what the clocks show at one moment.
type Reading struct {
	Mono int64 // ns on a clock that nobody sets
	Wall int64 // the machine's clock, µs since 1970
	// Store: the store tells the time, and the machine's clock is ahead of it by Skew.
	Store bool
	Skew  time.Duration
}

// Clock tells a leader the times of its commits (rule R15). Where the store tells the time, the machine's clock must agree with it.
// Elsewhere the machine's clock counts once, at the start, and must agree with the log; from then on time passes by a clock that nobody
// sets. The zero value is ready. It is not safe for concurrent use.
type Clock struct {
	Accept bool // the machine's clock is right at the start, whatever the log says

	begun   bool
	started Reading
	last    int64 // the log's last time when this run began to lead, µs
	settled bool  // what the clock shows agrees with last, or need not
	leap    time.Duration
}

// ErrClock is what every *Error is.
var ErrClock = errors.New("the clock is wrong")

// Error says why there is no commit at the time that the clocks show.
type Error struct {
	// Skew is how far the machine's clock is ahead of the store's; 0 if the log is what it contradicts.
	Skew time.Duration
	// Last is the log's last time, and Leap how far the clock is ahead of it, if the log is what it contradicts.
	Last time.Time
	Leap time.Duration
}

func (e *Error) Error() string {
	switch {
	case e.Skew != 0:
		return fmt.Sprintf("clock is %v off the store's (at most %v is allowed), and writes wait: set the machine's clock",
			e.Skew.Round(time.Second), SkewMax)
	case e.Leap <= 0:
		return fmt.Sprintf("clock is %v behind the log's last time, %s, and writes wait: set the machine's clock; or, if the log's time is wrong, "+
			`run "seb time reset"; --accept-clock continues at the log's time`, (-e.Leap).Round(time.Second), e.Last.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("clock is %d days ahead of the log's last time, %s (at most %d are believed), and writes wait: set the machine's clock, "+
		"or start with --accept-clock", e.Leap/(24*time.Hour), e.Last.UTC().Format(time.RFC3339), LeapMax/(24*time.Hour))
}

// Is makes it ErrClock.
func (e *Error) Is(target error) bool { return target == ErrClock }

// Lead tells the log's last time, µs, when this run begins to lead.
func (c *Clock) Lead(last int64) { c.last = last }

// Time is the time of a commit that is made now, µs since 1970, or a *Error if there must be none; what the time
// would be is returned with it.
func (c *Clock) Time(r Reading) (int64, error) {
	if !c.begun {
		c.begun, c.started = true, r
	}
	at := r.Wall
	if r.Store {
		if r.Skew.Abs() > SkewMax {
			return at, &Error{Skew: r.Skew}
		}
	} else {
		at = c.started.Wall + (r.Mono-c.started.Mono)/1000
	}
	if c.settled || c.last < never {
		return at, nil
	}
	leap := leap(at, c.last)
	if !r.Store && !c.Accept && (leap <= 0 || leap > LeapMax) {
		return at, &Error{Last: time.UnixMicro(c.last), Leap: leap}
	}
	c.settled, c.leap = true, leap
	return at, nil
}

// leap is the duration from one time to another, as much of it as a Duration holds.
func leap(to, from int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(to-from, -most), most)) * time.Microsecond
}

// Leapt says whether the clock was so far ahead of the log's last time when this run began to lead that time may be wrong.
func (c *Clock) Leapt() bool { return c.leap > LeapDistrust }

// Set takes the machine's clock as it is now to be right, as an operator has said. Error: the store's clock contradicts it.
func (c *Clock) Set(r Reading) (int64, error) {
	if r.Store && r.Skew.Abs() > SkewMax {
		return 0, &Error{Skew: r.Skew}
	}
	if c.begun, c.started = true, r; !c.settled && c.last >= never {
		c.leap = leap(r.Wall, c.last)
	}
	c.settled = true
	return r.Wall, nil
}
