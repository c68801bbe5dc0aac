package load_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
)

// served computes from the schedule the run of a system that serves capacity messages per second in
// sequence.
func served(t *testing.T, rate workload.Rate, capacity float64) *result.Run {
	t.Helper()
	w := workload.Default()
	w.Rate, w.Duration = rate, workload.Duration(10*time.Second)
	h := result.NewHistogram()
	service := int64(1e9 / capacity)
	r := &result.Run{Workload: w, Validity: result.Validity{Valid: true}}
	r.Seconds = make([]result.Second, 10)
	for i := range r.Seconds {
		r.Seconds[i].Phase, r.Seconds[i].At = result.Measure, float64(i+1)
	}
	free := int64(0)
	n := 0
	for ; rate.After(uint64(n)) < int64(10*time.Second); n++ {
		due := rate.After(uint64(n))
		free = max(due, free) + service
		h.Record(free - due)
		r.Seconds[due/1e9].Sent++
		if s := free / 1e9; s < 10 {
			r.Seconds[s].Received++
		}
	}
	c := h.Curve()
	r.Curves = result.Curves{AckIntended: c, AckSent: c, E2EIntended: &c, E2ESent: &c}
	r.Counts = result.Counts{Measured: int64(n), SentRate: rate.Float()}
	return r
}

func searchOf(t *testing.T, capacity float64) load.Search {
	return load.Search{
		Objective: load.Objective{Percentile: 99, Limit: 50 * time.Millisecond},
		From:      100 * workload.PerSecond, To: 100_000 * workload.PerSecond, Tolerance: 0.02, Confirm: 3,
		Measure: func(_ context.Context, rate workload.Rate, _ bool) (*result.Run, error) {
			return served(t, rate, capacity), nil
		},
	}
}

func TestMax(t *testing.T) {
	t.Run("finds what a server can do", func(t *testing.T) {
		o := searchOf(t, 5000)
		tried := 0
		o.Tried = func(rate workload.Rate, why string) {
			tried++
			if ok := rate.Float() <= 5000; ok != (why == "") && (rate.Float() < 4990 || rate.Float() > 5030) {
				t.Errorf("%v/s: %q", rate, why)
			}
		}
		rate, err := o.Max(t.Context())
		if err != nil || rate.Float() < 4900 || rate.Float() > 5030 {
			t.Errorf("%v/s, error %v", rate, err)
		}
		if tried > 20 {
			t.Errorf("it took %d runs", tried)
		}
	})
	t.Run("stops at the highest rate that is asked for", func(t *testing.T) {
		o := searchOf(t, 1e6)
		o.To = 3000 * workload.PerSecond
		if rate, err := o.Max(t.Context()); err != nil || rate != o.To {
			t.Errorf("%v/s, error %v", rate, err)
		}
	})
	t.Run("says when nothing holds", func(t *testing.T) {
		check.ErrorIsf(t, check.Err(new(searchOf(t, 50)).Max(t.Context())), load.ErrNoRate, "error")
	})
	t.Run("goes down when long runs do not hold", func(t *testing.T) {
		o := searchOf(t, 5000)
		o.Measure = func(_ context.Context, rate workload.Rate, long bool) (*result.Run, error) {
			if long {
				return served(t, rate, 4000), nil
			}
			return served(t, rate, 5000), nil
		}
		if rate, err := o.Max(t.Context()); err != nil || rate.Float() < 3850 || rate.Float() > 4030 {
			t.Errorf("%v/s, error %v", rate, err)
		}
	})
	t.Run("refuses options that make no sense", func(t *testing.T) {
		for _, change := range []func(*load.Search){
			func(o *load.Search) { o.From = 0 }, func(o *load.Search) { o.To = 1 }, func(o *load.Search) { o.Tolerance = 0 },
			func(o *load.Search) { o.Confirm = -1 },
		} {
			o := searchOf(t, 1)
			change(&o)
			if _, err := o.Max(t.Context()); err == nil || errors.Is(err, load.ErrNoRate) {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestJudge(t *testing.T) {
	o := load.Objective{Percentile: 99, Limit: 50 * time.Millisecond}
	for word, change := range map[string]func(*result.Run){
		"":         func(*result.Run) {},
		"a second": func(r *result.Run) { r.Counts.SentRate = 900 },
		"1 lost":   func(r *result.Run) { r.Counts.Lost = 1 },
		"late":     func(r *result.Run) { r.Validity = result.Validity{Reasons: []string{"late"}} },
		"backlog": func(r *result.Run) {
			r.Seconds[0].Received, r.Seconds[9].Received = 1000, 0
			r.Seconds[5].Received = 500
		},
		"p99.9999 ": func(*result.Run) { o.Percentile = 99.9999 },
	} {
		r := served(t, 1000*workload.PerSecond, 2000)
		o.Percentile = 99
		change(r)
		if why := o.Judge(r); (why == "") != (word == "") || !strings.Contains(why, word) {
			t.Errorf("%q, want %q", why, word)
		}
	}
	check.Contains(t, o.Judge(served(t, 1000*workload.PerSecond, 900)), "p99")
}

func TestParseObjective(t *testing.T) {
	if o, err := load.ParseObjective("p99.9=20ms"); err != nil || o != (load.Objective{Percentile: 99.9, Limit: 20 * time.Millisecond}) || o.String() != "p99.9=20ms" {
		t.Errorf("%v, error %v", o, err)
	}
	for _, s := range []string{"", "p99", "99=1s", "p=1s", "p100=1s", "p0=1s", "p99=x", "p99=-1s", "pNaN=1s"} {
		check.Error(t, check.Err(load.ParseObjective(s)), "%q is taken", s)
	}
}

func TestSweep(t *testing.T) {
	s := load.Sweep{Rates: []workload.Rate{1, 2, 3}, Sizes: []workload.Sizes{workload.FixedSize(100), workload.FixedSize(200)}}
	all := s.Workloads(workload.Default())
	if len(all) != 6 || all[0].Rate != 1 || all[5].Rate != 3 || all[5].Size.Max() != 200 {
		t.Errorf("%d workloads", len(all))
	}
	if all := (load.Sweep{}).Workloads(workload.Default()); len(all) != 1 || all[0].Rate != workload.Default().Rate {
		t.Errorf("%d workloads of nothing", len(all))
	}
}
