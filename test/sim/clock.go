package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// clock is a process's view of time, and what the checker knows about it. In runs without
// Config.Clocks the store agrees with any clock.
type clock struct {
	log.Clock
	dates    bool  // the store reports the time to this run
	date     *date // from its newest answer; nil: none
	begun    bool
	base     instant // reading of the clock that is used in a folder
	accepted bool    // an operator has accepted the clock
	ledAt    instant
	last     int64 // log time: when this run began to lead, then of the newest slot, µs
	first    bool  // the next slot is the first of the run
	waits    bool
	since    int64 // when writes began to wait
	looks    bool  // the clock is checked again later
	askAt    int64 // when the store may be asked for its time again
}

// instant is a moment in true time and by a machine's clocks: µs, and ns for the monotonic clock.
type instant struct{ truth, wall, mono int64 }

// date is the store's time in an answer: it was date at the local time at, in a request that began
// at begun.
type date struct{ begun, at, date int64 }

const (
	// clocksBegin is the true time at which runs with Config.Clocks begin, ns since 1970.
	clocksBegin = int64(1_767_225_600e9)
	// heldLook and askEvery are the intervals at which package log checks a wrong clock, and asks
	// the store for the time.
	heldLook, askEvery = time.Second, 5 * time.Second
	// waitMost bounds how long writes wait after all clocks are right: until the store or an
	// operator was asked.
	waitMost = 15 * time.Second
	// countsFrom is the log time, µs, from which a log contradicts clocks.
	countsFrom = int64(1e15)
)

// clocks sets a broker's wall clock at random times.
func (w *simulation) clocks(n *node) {
	if w.cfg.ClockEvery == 0 {
		return
	}
	w.after(w.around(w.cutRand, w.cfg.ClockEvery), func() {
		if w.calm {
			return
		}
		n.setClock(w.cutRand)
		w.stats.Clocks++
		w.stats.Faults++
		w.stats.Clock.Set++
		w.logf("node %d: clock off by %v", n.id, time.Duration(n.skew))
		w.clocks(n)
	})
}

// startClock sets the clock between two runs.
func (n *node) startClock() {
	w := n.w
	switch {
	case !w.cfg.Clocks:
		n.setClock(w.keyRand)
	case n.runs == 1:
		n.rate = int64(w.upTo(w.clockRand, 2*time.Duration(w.cfg.ClockRate))) - w.cfg.ClockRate
		n.setClock(w.clockRand)
	case w.clockRand.IntN(3) == 0:
		n.setClock(w.clockRand)
		w.stats.Clock.Between++
	}
}

func (n *node) setClock(r *rand.Rand) {
	if n.w.cfg.Clocks {
		n.setOff(n.w.wrong(r))
	} else {
		n.skew = int64(n.w.upTo(r, 2*n.w.cfg.ClockSkew) - n.w.cfg.ClockSkew)
	}
	if n.w.watch != nil {
		n.skew += watchEpoch
	}
	n.rightClock()
}

// wrong draws a clock error: in half of the cases less than a second, else up to decades.
func (w *simulation) wrong(r *rand.Rand) time.Duration {
	const day = 24 * time.Hour
	if r.IntN(2) == 0 {
		return w.upTo(r, 2*time.Second) - time.Second
	}
	sizes := []time.Duration{10 * time.Second, time.Minute, 2 * time.Minute, time.Hour, day, 30 * day, 400 * day, 3650 * day, 20_000 * day}
	size := sizes[r.IntN(len(sizes))]
	return (size*3/4 + w.upTo(r, size/2)) * time.Duration(1-2*r.IntN(2))
}

// watchEpoch is the right time at which runs with triggers begin, ns: no broker's clock is before
// 1970.
const watchEpoch = int64(100 * 24 * time.Hour)

// rightClock corrects a clock in the calm. In a run with triggers it is not behind the log,
// otherwise nothing would ever be due.
func (n *node) rightClock() {
	switch fold := n.w.check.fold; {
	case !n.w.calm:
	case n.w.cfg.Clocks:
		n.setOff(0)
	case n.w.watch != nil && fold != nil:
		n.skew = max(watchEpoch, fold.AppendTime*1000-n.w.now)
	}
}

// mono returns the machine's monotonic clock, ns.
func (n *node) mono() int64 { return n.w.now + n.w.now*n.rate/1e6 }

// setOff sets the wall clock ahead of true time, but not before 1970.
func (n *node) setOff(d time.Duration) {
	n.skew = max(int64(d), -clocksBegin) + n.w.now - n.mono()
}

// moment returns the current instant.
func (n *node) moment() instant {
	zero := int64(0)
	if n.w.cfg.Clocks {
		zero = clocksBegin
	}
	return instant{(zero + n.w.now) / 1000, (zero + n.mono() + n.skew) / 1000, n.mono()}
}

// startClock starts the clock of a run. Half of the runs read it immediately, the others when they
// lead.
func (r *run) startClock() {
	w := r.n.w
	if !w.cfg.Clocks {
		return
	}
	r.clock.dates = w.now-begin >= int64(w.cfg.DatesFrom)
	r.clock.Accept, r.clock.accepted, r.n.accept = r.n.accept, r.n.accept, false
	if w.clockRand.IntN(2) == 0 {
		_, _ = r.time()
	}
}

func (r *run) reading() log.Reading {
	now := r.n.moment()
	v := log.Reading{Mono: now.mono, Wall: now.wall, Store: !r.n.w.cfg.Clocks}
	if d := r.clock.date; d != nil {
		v.Store, v.Skew = true, time.Duration(now.wall*1000-(d.date+now.mono-d.at))
	}
	return v
}

// time returns the time of a commit that is made now, like package log.
func (r *run) time() (int64, error) {
	if !r.clock.begun {
		r.clock.begun, r.clock.base = true, r.n.moment()
	}
	return r.clock.Time(r.reading())
}

// leads records log time when the run begins to lead.
func (r *run) leads() {
	c := &r.clock
	c.last, c.first, c.ledAt = r.core.State().AppendTime, true, r.n.moment()
	c.Lead(c.last)
	_, _ = r.time()
}

// held reports whether writes wait for the clock, as in package log.
func (r *run) held() bool {
	c, w := &r.clock, r.n.w
	if r.core.Role() != core.RoleLeader {
		c.waits = false
		return false
	}
	_, err := r.time()
	switch was := c.waits; {
	case err != nil && !was:
		c.since = w.now
		w.stats.Clock.Waits++
		w.logf("node %d: writes wait: %v", r.n.id, err)
	case err == nil && was:
		w.stats.Clock.Ended++
		w.logf("node %d: writes continue", r.n.id)
	}
	if c.waits = err != nil; err == nil {
		return false
	}
	if since := max(c.since, begin+int64(w.cfg.Chaos)); w.calm && w.now-since > int64(waitMost) {
		w.fail("R15: writes of node %d have waited %v for a right clock: %v", r.n.id, time.Duration(w.now-since), err)
	}
	if !c.looks {
		c.looks = true
		w.after(heldLook, func() { r.deliver(func() { c.looks = false }) })
	}
	if e := (*log.ClockError)(nil); errors.As(err, &e) && e.Skew != 0 && w.now >= c.askAt {
		c.askAt = w.now + int64(askEvery)
		w.stats.Clock.Asks++
		arrives := r.asksTime()
		w.store.call(r.n, false, func() core.Outcome { return core.OutcomeOK }, func(o core.Outcome) { r.deliver(arrives(o)) })
	}
	return true
}

// asksTime begins a request whose answer may contain the store's time, of a moment between sending
// and arrival. Call the first function when the answer arrives, the second when the process reads
// it.
func (r *run) asksTime() (arrives func(o core.Outcome) (read func())) {
	w, sent, begun := r.n.w, r.n.w.now, r.n.mono()
	return func(o core.Outcome) func() {
		if !r.clock.dates || o == core.OutcomeNoVerdict {
			return func() {}
		}
		at := clocksBegin + sent + int64(w.upTo(w.clockRand, time.Duration(w.now-sent)))
		return func() { // as in objstore: the header has whole seconds
			r.clock.date = &date{begun, begun + (r.n.mono()-begun)/2, at/1e9*1e9 + 5e8}
		}
	}
}

// wrongClocks starts operators that correct clocks, and moves the bucket to a store that reports
// the time.
func (w *simulation) wrongClocks() {
	if !w.cfg.Clocks {
		return
	}
	w.operator()
	if from := w.cfg.DatesFrom; from > 0 && from < w.cfg.Chaos {
		w.after(from, func() {
			w.stats.Clock.Moved++
			w.logf("the bucket moves to a store that reports the time")
			for _, n := range w.nodes {
				n.kill("killed with the others")
			}
		})
	}
}

// operator checks the clocks at random times. In the calm it sets right clocks and ends every wait.
func (w *simulation) operator() {
	every := min(w.around(w.clockRand, 5*time.Second), time.Duration(begin-w.now)+w.cfg.Chaos+time.Millisecond)
	if w.calm {
		every = 5 * time.Second
	}
	w.after(every, func() {
		for _, n := range w.nodes {
			if r := n.run; r != nil && !r.paused && r.core.Role() == core.RoleLeader && (w.calm || w.clockRand.IntN(2) == 0) {
				w.operate(r)
			}
		}
		w.operator()
	})
}

// operate corrects the clock of a leader whose writes wait, or whose log is in the future, usually
// to the right time. Then it resets log time, or restarts the broker, with or without
// --accept-clock.
func (w *simulation) operate(r *run) {
	future := r.core.State().AppendTime-r.n.moment().truth > time.Hour.Microseconds()
	if _, err := r.time(); err == nil && !future {
		return
	}
	if r.n.setOff(0); !w.calm && w.clockRand.IntN(4) == 0 {
		r.n.setClock(w.clockRand)
	}
	switch what := w.clockRand.IntN(4); {
	case r.clock.dates && !future: // nothing to do
	case what < 2 || future:
		r.deliver(func() { r.resetTime(future) })
	default:
		r.n.accept = what == 2 || w.calm
		if r.n.accept {
			w.stats.Clock.Accepted++
		}
		r.n.kill("restarted for its clock")
	}
}

// resetTime resets log time like package log.
func (r *run) resetTime(future bool) {
	w, c := r.n.w, &r.clock
	at, err := c.Set(r.reading())
	if err != nil {
		w.stats.Clock.Refused++
		return
	}
	c.begun, c.base, c.accepted = true, r.n.moment(), true
	if future {
		w.stats.Clock.Futures++
	}
	w.logf("node %d: log time reset to %d", r.n.id, at)
	r.submit(&op{w: w, id: 1<<56 | uint64(w.now), rec: &state.Record{Kind: state.TimeReset, Time: at}})
}

// frozen checks R15 when a leader fixes the append time of a slot.
//
// If the store reports the time, log time is at most a minute off. The tolerance is the uncertainty
// of the store's answer: half of the request's duration, half a second because Date has whole
// seconds, and the drift of the machine's clocks since then. A changed clock counts immediately, so
// the interval between two checks adds nothing.
//
// In a folder log time is ahead by the error of the clock that was read at the start, or at a
// reset. At a start the log contradicts a clock that is behind it, or more than 400 days ahead.
func (c *checker) frozen(r *run, f *core.Frozen) {
	k, now := &r.clock, r.n.moment()
	if !c.w.cfg.Clocks {
		return
	}
	at, after := f.Head.Time, k.last
	ops := f.Proposal.Ops
	reset := slices.IndexFunc(ops, func(o core.Op) bool { return o.Err == nil && o.Record.Kind == state.TimeReset })
	if reset >= 0 {
		after = ops[reset].Record.Time
	}
	k.last = at
	if f.Proposal.User == nil {
		return // set by the core: just after the previous slot
	}
	c.w.stats.Clock.Slots++
	pushed := reset < 0 && at == after+1
	if pushed {
		c.w.stats.Clock.Pushed++
	}
	off := time.Duration(at-now.truth) * time.Microsecond
	low, high := k.bounds(r.n.rate, now)
	if off > high && !pushed || off < low {
		c.w.fail("R15: node %d appends slot %d %v ahead of true time, allowed %v to %v (reset %v)", r.n.id, f.Head.Slot, off, low, high, reset >= 0)
	}
	if k.first && !k.dates && !k.accepted && after >= countsFrom {
		leap := time.Duration(k.base.wall+(now.mono-k.base.mono)/1000-after) * time.Microsecond
		if waited := time.Duration(now.mono - k.ledAt.mono); leap <= 0 || leap > log.LeapMax+waited {
			c.w.fail("R15: node %d appends slot %d with a clock %v ahead of log time at its start", r.n.id, f.Head.Slot, leap)
		}
	}
	k.first = false
}

// bounds returns how far log time may be ahead of true time.
func (k *clock) bounds(rate int64, now instant) (low, high time.Duration) {
	drift := func(since int64) time.Duration {
		return time.Duration((now.mono-since)*max(rate, -rate)/980_000 + 2000)
	}
	if d := k.date; d != nil {
		most := log.SkewMax + time.Duration(d.at-d.begun) + 500*time.Millisecond + drift(d.begun)
		return -most, most
	}
	off := time.Duration(k.base.wall-k.base.truth) * time.Microsecond
	return off - drift(k.base.mono), off + drift(k.base.mono)
}

// later checks R15: append times grow, except at a reset, which ends a future.
func (c *checker) later(h *record.Head, recs []state.Record) {
	if h.Kind != record.KindData {
		return
	}
	reset := slices.IndexFunc(recs, func(r state.Record) bool { return r.Kind == state.TimeReset })
	switch {
	case reset < 0 && h.Time <= c.newest:
		c.w.fail("R15: slot %d has append time %d after %d", h.Slot, h.Time, c.newest)
	case reset >= 0:
		clear(c.stamps)
		c.w.stats.Clock.Resets++
	}
	c.newest = h.Time
}

// clockAtEnd checks R15: the leader has a right clock, and its writes do not wait.
func (c *checker) clockAtEnd(r *run) {
	if _, err := r.time(); err != nil {
		c.w.fail("R15: writes of node %d wait at the end: %v", r.n.id, err)
	}
}
