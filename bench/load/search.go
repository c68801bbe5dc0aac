package load

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

// Objective is an upper limit of a percentile of the headline curve.
type Objective struct {
	Percentile float64
	Limit      time.Duration
}

// ParseObjective parses an objective, as in p99=50ms.
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

// String returns the objective in the form of ParseObjective.
func (o Objective) String() string { return fmt.Sprintf("p%v=%v", o.Percentile, o.Limit) }

// rateMin is the fraction of the rate that a run must reach.
const rateMin = 0.99

// backlogMax is the largest growth of the backlog, as a fraction of the sent messages.
const backlogMax = 0.01

// Judge returns the reason why a run does not meet the objective; "" if it does. It checks the
// percentile, the reached rate, failed messages, a growing backlog and the lag of the generator.
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

// backlog returns the growth of the backlog in the measured time in messages, from the slope of a
// line through the seconds.
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

// slope returns the slope of the least-squares line through the points; 0 for fewer than three.
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

// Search is the search for the highest rate at which a system meets an objective.
type Search struct {
	Objective Objective
	From, To  workload.Rate // the first rate tried, and the highest
	Tolerance float64       // largest distance between the last good and the last bad rate, as a fraction of the rate
	Confirm   int           // number of long runs that must meet the objective at the found rate
	// Measure does a run at a rate; a long run confirms a rate.
	Measure func(ctx context.Context, rate workload.Rate, long bool) (*result.Run, error)
	// Tried, unless nil, is called after every run with the verdict of Judge.
	Tried func(rate workload.Rate, why string)
}

// ErrNoRate means that even the first rate does not meet the objective.
var ErrNoRate = errors.New("the first rate does not keep the objective")

// Validate returns an error that names the first invalid option.
func (o *Search) Validate() error {
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

// Max returns the highest rate that meets the objective. It doubles the rate until a run misses the
// objective, then bisects down to the tolerance. Long runs confirm the rate; Max lowers a rate that
// they do not confirm, and tries again. The error is ErrNoRate if no rate from the first one up
// meets the objective.
func (o *Search) Max(ctx context.Context) (workload.Rate, error) {
	if err := o.Validate(); err != nil {
		return 0, err
	}
	var holds, fails workload.Rate
	try := func(rate workload.Rate) error {
		ok, err := o.try(ctx, rate, false)
		if ok {
			holds = rate
		} else {
			fails = rate
		}
		return err
	}
	for rate := o.From; fails == 0 && holds < o.To; rate = min(2*rate, o.To) {
		if err := try(rate); err != nil {
			return 0, err
		}
	}
	if holds == 0 {
		return 0, fmt.Errorf("%w: %v/s, %v", ErrNoRate, o.From, o.Objective)
	}
	for fails != 0 && float64(fails-holds) > o.Tolerance*float64(holds) {
		middle := round(holds + (fails-holds)/2)
		if middle <= holds || middle >= fails {
			break
		}
		if err := try(middle); err != nil {
			return 0, err
		}
	}
	return o.confirm(ctx, holds)
}

// confirm returns the rate at which all long runs meet the objective: the given one or slightly
// lower.
func (o *Search) confirm(ctx context.Context, rate workload.Rate) (workload.Rate, error) {
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
	return 0, fmt.Errorf("%w in long runs: %v/s, %v", ErrNoRate, o.From, o.Objective)
}

func (o *Search) try(ctx context.Context, rate workload.Rate, long bool) (bool, error) {
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

// Sweep is the rates and sizes of workloads that are measured in sequence.
type Sweep struct {
	Rates []workload.Rate  // none: the workload's
	Sizes []workload.Sizes // none: the workload's
}

// Workloads returns the base with every combination of a rate and a size.
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
