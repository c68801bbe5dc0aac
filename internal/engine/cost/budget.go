// Package cost counts the requests that a broker's bucket is billed for in a calendar month (UTC),
// and multiplies them by a price list. Commit objects are counted by their slots in the log, so
// neither a restart nor a lost data folder resets their number. Other requests are counted by the
// store and kept in a file. A Budget decides by these numbers when commit objects leave; a Limiter is
// the Budget of a broker. A Meter has no goroutine of its own and makes no request to the store,
// except a few reads when it does not know the position at which the month began.
package cost

import (
	"math"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
)

// Limit is a budget of requests, in PUTs. The zero Limit allows any number: they are free.
type Limit struct {
	Month  float64 // PUTs in a calendar month (UTC)
	Second float64 // PUTs in a second, if Month is 0
	// Careful: objects leave without a wait only while that makes no bill much larger than the fixed
	// wait would.
	Careful bool
	// Share is the part of this leader; 0 means 1. Leaders of one bucket have shares that add up to 1.
	Share float64
	// Wait is the fixed wait that the budget replaces: the time that the first record of an object
	// waits for others.
	Wait time.Duration
}

// The rule of Budget.
const (
	// startShare of a month's budget is there at its begin. The rest comes evenly over the month, so no
	// calendar month spends more than its budget.
	startShare = 0.03
	// lowShare: with less than this part of a month's budget left, objects keep a gap.
	lowShare = startShare / 2
	// gapMost bounds the gap, in gaps that the budget sustains: the debt of a month is paid back.
	gapMost = 2
	// promptShare: if careful, objects leave at once while the last hour has used less than this part
	// of the budget's rate. From waitShare on they have the full wait.
	promptShare, waitShare = 0.1, 0.2
	// extraShare: if careful, this part of the budget are objects that the fixed wait would not have
	// made. extraDays of them can be saved up.
	extraShare, extraDays = 1.0 / 60, 1
	// allowance is the part of a month's budget for other requests than commit objects, if their number
	// is not known. Measured: 0.7 to 1.7 % (docs/reports/costs.md).
	allowance = 0.017
)

// Budget decides when commit objects leave, by the price of those that have left. It is a state
// machine without clock, goroutines and locks: the caller passes the time. Its state has a fixed
// size.
//
//	tokens of a month, in PUTs:  3 % at its begin, the rest evenly; each request takes one
//
//	tokens there                         no wait while no object is being stored
//	tokens below 1.5 % of the month      a gap grows between objects, quadratically, to the gap
//	                                     that the budget sustains when none are left
//	no tokens                            at most twice that gap
//	careful, last hour at 10 to 20 %     the wait grows to Limit.Wait
//	         of the rate
//	careful, extra objects are used up   Limit.Wait
//
// Objects of the largest size leave at once, also without tokens. So do the last objects of a log
// that is closed.
type Budget struct {
	limit  Limit
	now    time.Time // of the newest call; time does not go back
	month  time.Time // begin of the month
	length float64   // of the month, seconds
	spent  float64   // PUTs in the month
	hour   hours
	extra  float64 // objects that may leave although the fixed wait would not have made them
}

// NewBudget returns a budget of which nothing was spent.
func NewBudget(l Limit, now time.Time) *Budget {
	b := &Budget{limit: l, extra: 1}
	if l.Share <= 0 {
		b.limit.Share = 1
	}
	b.now = now.UTC()
	b.enter(monthOf(now))
	return b
}

// enter begins a month.
func (b *Budget) enter(month time.Time) {
	b.month, b.spent = month, 0
	b.length = month.AddDate(0, 1, 0).Sub(month).Seconds()
}

// advance sets the time.
func (b *Budget) advance(now time.Time) {
	now = now.UTC()
	if !now.After(b.now) {
		return
	}
	perSecond := b.total() * extraShare / b.length
	b.extra = min(b.extra+perSecond*now.Sub(b.now).Seconds(), max(1, perSecond*extraDays*24*3600))
	b.now = now
	if month := monthOf(now); month.After(b.month) {
		b.enter(month)
	}
}

func (b *Budget) free() bool { return b.limit.Month <= 0 && b.limit.Second <= 0 }

// total is the budget of the month.
func (b *Budget) total() float64 {
	if b.limit.Month > 0 {
		return b.limit.Month * b.limit.Share
	}
	return b.limit.Second * b.length * b.limit.Share
}

// rate is the PUTs in a second that the budget sustains.
func (b *Budget) rate() float64 { return b.total() * (1 - startShare) / b.length }

// tokens is what the month may have spent up to now and has not. It is negative if the month has
// spent more.
func (b *Budget) tokens() float64 {
	passed := b.now.Sub(b.month).Seconds() / b.length
	return b.total()*(startShare+(1-startShare)*min(passed, 1)) - b.spent
}

// Next returns when the next object may leave.
func (b *Budget) Next(now time.Time) log.Pace {
	b.advance(now)
	if b.free() {
		return log.Pace{Busy: b.limit.Wait}
	}
	gap := 1 / b.rate() // seconds
	busy := min(b.limit.Wait, seconds(gap))
	wait := 0.0
	if b.limit.Careful {
		used := float64(b.hour.sum(b.now)) / (b.rate() * 3600)
		wait = max(ramp(used, promptShare, waitShare), 1-min(max(b.extra, 0), 1))
	}
	low := min(max(1-b.tokens()/(b.total()*lowShare), 0), math.Sqrt(gapMost))
	return log.Pace{Wait: time.Duration(wait * float64(busy)), Busy: busy, Gap: seconds(gap * low * low)}
}

// ramp is 0 up to from, 1 from to on, and linear between them.
func ramp(v, from, to float64) float64 { return min(max((v-from)/(to-from), 0), 1) }

func seconds(s float64) time.Duration {
	return time.Duration(min(s, 3600) * float64(time.Second))
}

// Left counts a commit object that leaves. extra: the fixed wait would have stored its records with
// the object before it.
func (b *Budget) Left(now time.Time, extra bool) {
	b.advance(now)
	b.spent++
	b.hour.add(b.now, 1)
	if extra {
		b.extra--
	}
}

// Spent sets what a month has spent, as it was counted elsewhere. An earlier month than the present
// one is ignored.
func (b *Budget) Spent(now, month time.Time, puts float64) {
	b.advance(now)
	if month.Equal(b.month) {
		b.spent = puts
	}
}

// LastHour adds n commit objects of the hour before a time, evenly.
func (b *Budget) LastHour(before time.Time, n int64) {
	for i := range int64(minutes) {
		part := n*(i+1)/minutes - n*i/minutes
		b.hour.add(before.Add(time.Duration(i-minutes+1)*time.Minute), part)
	}
}

// Short reports whether tokens are so few that work without urgency should wait.
func (b *Budget) Short(now time.Time) bool {
	b.advance(now)
	return !b.free() && b.tokens() < b.total()*lowShare/2
}

// Exceeded is the part of the month's budget that was spent beyond the tokens, 0 if none.
func (b *Budget) Exceeded(now time.Time) float64 {
	b.advance(now)
	if b.free() {
		return 0
	}
	return max(0, -b.tokens()/b.total())
}

const minutes = 60

// hours counts the commit objects of an hour by minute.
type hours struct {
	last  int64 // the newest minute since 1970
	count [minutes]int64
	total int64
}

// pass forgets the minutes that are an hour before a time.
func (h *hours) pass(now time.Time) {
	minute := now.Unix() / 60
	for h.last = max(h.last, minute-minutes); h.last < minute; {
		h.last++
		h.total -= h.count[h.last%minutes]
		h.count[h.last%minutes] = 0
	}
}

// add counts objects at a time. More than an hour before the newest time it does nothing.
func (h *hours) add(at time.Time, n int64) {
	h.pass(at)
	if minute := at.Unix() / 60; minute > h.last-minutes {
		h.count[minute%minutes] += n
		h.total += n
	}
}

// sum is the number of objects in the hour up to now.
func (h *hours) sum(now time.Time) int64 {
	h.pass(now)
	return h.total
}
