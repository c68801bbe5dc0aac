// Package search finds the highest rate at which a system keeps an objective.
package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// Objective is what a percentile of the headline curve must not exceed.
type Objective struct {
	Percentile float64
	Limit      time.Duration
}

// ParseObjective reads an objective, as in p99=50ms.
func ParseObjective(s string) (Objective, error) {
	name, limit, ok := strings.Cut(s, "=")
	number, isP := strings.CutPrefix(name, "p")
	p, err := strconv.ParseFloat(number, 64)
	if !ok || !isP || err != nil || !(p > 0 && p < 100) {
		return Objective{}, fmt.Errorf("objective %q: want as in p99=50ms", s)
	}
	d, err := time.ParseDuration(limit)
	if err != nil || d <= 0 {
		return Objective{}, fmt.Errorf("objective %q: want a duration above 0 after =, such as 50ms", s)
	}
	return Objective{p, d}, nil
}

// String is the objective as ParseObjective reads it.
func (o Objective) String() string { return fmt.Sprintf("p%v=%v", o.Percentile, o.Limit) }

// rateMin is the fraction of the rate that must have been reached.
const rateMin = 0.99

// backlogMax is by what fraction of the messages sent the backlog may have grown.
const backlogMax = 0.01

// Judge returns why a run does not keep the objective, "" if it does: its percentile, the rate reached, messages that went
// wrong, a backlog that grows, and a generator that was too slow to tell.
func (o Objective) Judge(r *result.Run) string {
	name, curve := r.Curves.Headline()
	h, err := curve.Histogram()
	if err != nil {
		return err.Error()
	}
	if d, shown := h.Percentile(o.Percentile); !shown {
		return fmt.Sprintf("%d samples are too few for p%v of %s", h.Count(), o.Percentile, name)
	} else if d > o.Limit {
		return fmt.Sprintf("p%v of %s is %s", o.Percentile, name, result.Time(float64(d)))
	}
	if want := r.Workload.Rate.Float(); r.Counts.SentRate < rateMin*want {
		return fmt.Sprintf("%.0f messages a second were sent", r.Counts.SentRate)
	}
	if !r.Counts.Clean() {
		c := r.Counts
		return fmt.Sprintf("%d failed, %d unanswered, %d unsent, %d lost, %d duplicates, %d corrupt", c.Failed, c.Unanswered, c.Unsent, c.Lost, c.Duplicates,
			c.Corrupt)
	}
	if growth := backlog(r); growth > backlogMax*float64(r.Counts.Measured) {
		return fmt.Sprintf("the backlog grew by %.0f messages", growth)
	}
	if !r.Validity.Valid {
		return "invalid: " + strings.Join(r.Validity.Reasons, "; ")
	}
	return ""
}

// backlog is by how many messages the backlog grew while measuring, by the slope of a line through the seconds.
func backlog(r *result.Run) float64 {
	fan := int64(0)
	if r.Curves.E2EIntended != nil {
		fan = 1
		if !r.Workload.Shared {
			fan = int64(r.Workload.Subscribers)
		}
	}
	var sent, received int64
	var x, y []float64
	for _, s := range r.Seconds {
		sent, received = sent+s.Sent, received+s.Received
		if s.Phase != result.Measure {
			continue
		}
		open := s.InFlight
		if fan > 0 {
			open = max(open, sent-received/fan)
		}
		x, y = append(x, s.At), append(y, float64(open))
	}
	return slope(x, y) * r.Workload.Duration.Seconds()
}

// slope is that of the line with the least squares through the points; 0 for fewer than three.
func slope(x, y []float64) float64 {
	n := float64(len(x))
	if n < 3 {
		return 0
	}
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// Options are what Max needs to know.
type Options struct {
	Objective Objective
	From, To  workload.Rate // the first rate tried, and the highest
	Tolerance float64       // how far apart the last rates that hold and do not may be, as a fraction of the rate
	Confirm   int           // how many long runs must hold at the rate that is found
	// Measure does a run at a rate; a long one to confirm.
	Measure func(ctx context.Context, rate workload.Rate, long bool) (*result.Run, error)
	// Tried is called after every run with its verdict as Judge gives it; nil for none.
	Tried func(rate workload.Rate, why string)
}

// ErrNone says that not even the first rate holds.
var ErrNone = errors.New("the first rate does not keep the objective")

// Validate names what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.From < 1 || o.From > o.To || o.To > workload.RateMax:
		return fmt.Errorf("from, to: want rates that grow, up to %v, have %v and %v", workload.RateMax, o.From, o.To)
	case !(o.Tolerance >= 0.001 && o.Tolerance <= 1):
		return fmt.Errorf("tolerance: want 0.001 to 1, have %v", o.Tolerance)
	case o.Confirm < 0:
		return fmt.Errorf("confirm: want 0 or more runs, have %d", o.Confirm)
	}
	return nil
}

// Max returns the highest rate that keeps the objective: it doubles the rate until one does not, halves the distance until
// the tolerance is reached, and confirms the rate with long runs; one that does not hold then is lowered and confirmed
// again. The error is ErrNone if no rate from the first on does.
func Max(ctx context.Context, o Options) (workload.Rate, error) {
	if err := o.Validate(); err != nil {
		return 0, err
	}
	var holds, fails workload.Rate
	for rate := o.From; fails == 0 && holds < o.To; rate = min(2*rate, o.To) {
		ok, err := o.try(ctx, rate, false)
		if err != nil {
			return 0, err
		}
		if ok {
			holds = rate
		} else {
			fails = rate
		}
	}
	if holds == 0 {
		return 0, fmt.Errorf("%w: %v/s, %v", ErrNone, o.From, o.Objective)
	}
	for fails != 0 && float64(fails-holds) > o.Tolerance*float64(holds) {
		middle := round(holds + (fails-holds)/2)
		if middle <= holds || middle >= fails {
			break
		}
		ok, err := o.try(ctx, middle, false)
		if err != nil {
			return 0, err
		}
		if ok {
			holds = middle
		} else {
			fails = middle
		}
	}
	return o.confirm(ctx, holds)
}

// confirm returns the rate at which all long runs hold, the given one or a little lower.
func (o *Options) confirm(ctx context.Context, rate workload.Rate) (workload.Rate, error) {
	for ; rate >= o.From; rate = round(workload.Rate(float64(rate) * (1 - o.Tolerance))) {
		held := 0
		for held < o.Confirm {
			ok, err := o.try(ctx, rate, true)
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			held++
		}
		if held == o.Confirm {
			return rate, nil
		}
	}
	return 0, fmt.Errorf("%w in long runs: %v/s, %v", ErrNone, o.From, o.Objective)
}

func (o *Options) try(ctx context.Context, rate workload.Rate, long bool) (bool, error) {
	run, err := o.Measure(ctx, rate, long)
	if err != nil {
		return false, fmt.Errorf("measure %v/s: %w", rate, err)
	}
	why := o.Objective.Judge(run)
	if o.Tried != nil {
		o.Tried(rate, why)
	}
	return why == "", nil
}

// round rounds down to three digits.
func round(r workload.Rate) workload.Rate {
	if r < 1000 {
		return r
	}
	unit := workload.Rate(math.Pow10(int(math.Log10(float64(r))) - 2))
	return r / unit * unit
}

// Sweep is the rates and sizes of workloads to be measured one after the other.
type Sweep struct {
	Rates []workload.Rate  // none: the workload's
	Sizes []workload.Sizes // none: the workload's
}

// Workloads are the base in every combination of a rate and a size.
func (s Sweep) Workloads(base workload.Workload) []workload.Workload {
	rates, sizes := s.Rates, s.Sizes
	if len(rates) == 0 {
		rates = []workload.Rate{base.Rate}
	}
	if len(sizes) == 0 {
		sizes = []workload.Sizes{base.Size}
	}
	var all []workload.Workload
	for _, size := range sizes {
		for _, rate := range rates {
			w := base
			w.Rate, w.Size = rate, size
			all = append(all, w)
		}
	}
	return all
}
