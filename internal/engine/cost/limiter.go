package cost

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
)

// Limiter is the Budget of a broker. Until a Meter has told what the month and the last hour have
// spent, objects have the fixed wait. Its methods may be called concurrently.
type Limiter struct {
	o LimiterOptions

	mu     sync.Mutex // guards the fields below
	budget *Budget
	begun  bool
	// floor is added to the counted requests of the month: those that may be missing in the count.
	floor      float64
	floorMonth time.Time
	warned     time.Time
	ahead      int64 // objects that have left and were not counted yet
}

// LimiterOptions configure a Limiter. Prices and Logger are required.
type LimiterOptions struct {
	Setting Setting
	Prices  Prices
	// Wait is the fixed wait that the budget replaces.
	Wait time.Duration
	// Share is the part of this leader in the bucket's budget; 0 means 1.
	Share  float64
	Logger *slog.Logger
	Now    func() time.Time // default time.Now
}

// warnEvery is the minimum interval between two warnings that the budget is exceeded, which they
// report from exceededMin of the month's budget on.
const (
	warnEvery   = time.Hour
	exceededMin = 0.01
)

// NewLimiter returns a Limiter. Error: the budget is too small.
func NewLimiter(o LimiterOptions) (*Limiter, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	limit, err := o.Setting.Limit(&o.Prices, o.Wait)
	if err != nil {
		return nil, err
	}
	limit.Share = o.Share
	return &Limiter{o: o, budget: NewBudget(limit, o.Now())}, nil
}

// Next returns when the next object may leave.
func (l *Limiter) Next() (p log.Pace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next()
}

func (l *Limiter) next() log.Pace {
	if !l.begun {
		return log.Pace{Wait: l.o.Wait, Busy: l.o.Wait}
	}
	return l.budget.Next(l.o.Now())
}

// Left counts a commit object that leaves (Budget.Left).
func (l *Limiter) Left(extra bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead++
	l.budget.Left(l.o.Now(), extra)
}

// Short reports whether maintenance without urgency should wait (Budget.Short).
func (l *Limiter) Short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun && l.budget.Short(l.o.Now())
}

// spending is what a Meter has counted.
type spending struct {
	month time.Time
	puts  float64 // with the LISTs, by their price
	// whole: all commit objects of the month are counted, othersWhole: all other requests
	whole, othersWhole bool
}

// hourCount is the commit objects of an hour before a time, and of the time since.
type hourCount struct {
	n      int64
	before time.Time
	recent int64
}

// lastHour is the number of commit objects in the last hour.
func (l *Limiter) lastHour() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget.hour.sum(l.o.Now())
}

// begin tells the limiter the first count, and the commit objects of the last hour. Commit objects
// that may be missing in the count are charged as if they had used up all tokens, and other requests
// by the allowance of the month.
func (l *Limiter) begin(s spending, h hourCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, now := l.budget, l.o.Now()
	b.advance(now)
	b.hour = hours{} // objects that have left meanwhile are in the count of the log
	b.LastHour(h.before, h.n)
	b.hour.add(now, h.recent)
	l.ahead = 0
	if l.begun = true; b.free() {
		return
	}
	b.Spent(now, s.month, s.puts)
	l.floorMonth = s.month
	if !s.othersWhole {
		l.floor = b.total() * allowance
	}
	if !s.whole {
		l.floor = max(l.floor, b.tokens())
	}
	l.set(now, s)
}

// spent tells the limiter a later count, with n more commit objects. Those that it has not seen leave
// are of other leaders, or the log's own.
func (l *Limiter) spent(s spending, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.o.Now()
	if l.ahead -= n; l.ahead < 0 {
		l.budget.hour.add(now, -l.ahead)
		l.ahead = 0
	}
	l.set(now, s)
	exceeded := l.budget.Exceeded(now)
	if exceeded < exceededMin || now.Sub(l.warned).Abs() < warnEvery {
		return
	}
	l.warned = now
	l.o.Logger.Warn("PUT budget exceeded: records arrive faster than it allows in objects of the largest size; writes continue",
		"budget", l.o.Setting.name(&l.o.Prices), "exceeded_by", fmt.Sprintf("%.1f%%", 100*exceeded),
		"dollars", math.Round(exceeded*l.budget.total()*l.o.Prices.Put/1e4)/100)
}

func (l *Limiter) set(now time.Time, s spending) {
	if !s.month.Equal(l.floorMonth) {
		l.floor, l.floorMonth = 0, s.month
	}
	l.budget.Spent(now, s.month, s.puts+l.floor)
}

// Figures are a Limiter's values for metrics.
type Figures struct {
	Used, Exceeded float64 // parts of the month's budget
	Interval       time.Duration
}

// Figures returns the present values.
func (l *Limiter) Figures() (f Figures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.next()
	f.Interval = max(p.Wait, p.Gap)
	if b := l.budget; !b.free() {
		f.Used, f.Exceeded = b.spent/b.total(), b.Exceeded(l.o.Now())
	}
	return f
}

// Report describes the budget of the month.
func (l *Limiter) Report() *Spending {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, p := l.budget, l.next()
	if b.free() {
		return nil
	}
	price := l.o.Prices.Put / 1e6
	exceeded := b.Exceeded(l.o.Now())
	return &Spending{
		Budget: l.o.Setting.name(&l.o.Prices), Puts: int64(b.total()), UsedPuts: int64(b.spent), Dollars: b.total() * price, UsedDollars: b.spent * price,
		IntervalMillis: max(p.Wait, p.Gap).Milliseconds(), Exceeded: exceeded, ExceededDollars: exceeded * b.total() * price,
	}
}
