package workload_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func all(o workload.ScheduleOptions) []int64 {
	var times []int64
	s := workload.NewSchedule(o)
	for t, ok := s.Next(); ok; t, ok = s.Next() {
		times = append(times, t)
	}
	return times
}

func TestFixed(t *testing.T) {
	t.Run("rates that do not divide a second stay exact for hours", func(t *testing.T) {
		for _, rate := range []workload.Rate{3 * workload.PerSecond, 7_000 * workload.PerSecond, 2_333_333, 99_991 * workload.PerSecond, 1} {
			for _, n := range []uint64{0, 1, 2, 3, 1_000_003, 99_991 * 3600 * 24} {
				want := new(big.Int).Mul(new(big.Int).SetUint64(n), big.NewInt(1e15))
				want.Div(want, new(big.Int).SetUint64(uint64(rate)))
				if !want.IsInt64() {
					want.SetInt64(math.MaxInt64)
				}
				if got := rate.After(n); got != want.Int64() {
					t.Errorf("message %d at %v/s: %d, want %v", n, rate, got, want)
				}
			}
		}
	})
	t.Run("six hours at 7/s hold what they should", func(t *testing.T) {
		times := all(workload.ScheduleOptions{Start: 42, Length: 6 * time.Hour, Rate: 7 * workload.PerSecond, Parts: 1})
		must.Equalf(t, len(times), 7*6*3600, "messages")
		for n, at := range times {
			must.Equalf(t, at, 42+int64(n)*1_000_000_000/7, "message %d at", n)
		}
	})
	t.Run("batches are due together, at the same rate", func(t *testing.T) {
		o := workload.ScheduleOptions{Start: 42, Length: time.Second, Rate: 1000 * workload.PerSecond, Parts: 2, Batch: 100}
		for o.Part = range o.Parts {
			times := all(o)
			must.Equalf(t, len(times), 500, "messages of part %d", o.Part)
			for i, at := range times {
				must.Equalf(t, at, 42+int64(i/100*2+o.Part)*100_000_000, "message %d of part %d at", i, o.Part)
			}
		}
	})
	t.Run("parts take turns", func(t *testing.T) {
		o := workload.ScheduleOptions{Length: time.Second, Rate: 1000 * workload.PerSecond, Parts: 3}
		whole := all(workload.ScheduleOptions{Length: time.Second, Rate: o.Rate, Parts: 1})
		found := 0
		for o.Part = range o.Parts {
			for i, at := range all(o) {
				must.Equalf(t, at, whole[i*o.Parts+o.Part], "message %d of part %d at", i, o.Part)
				found++
			}
		}
		if found != len(whole) {
			t.Errorf("the parts hold %d messages, want %d", found, len(whole))
		}
	})
}

func TestPoisson(t *testing.T) {
	o := workload.ScheduleOptions{Start: 7, Length: 100 * time.Second, Rate: 2000 * workload.PerSecond, Parts: 2, Poisson: true, Seed: 1}
	first := all(o)
	t.Run("has the mean and the spread of an exponential distribution", func(t *testing.T) {
		n := float64(len(first))
		if math.Abs(n-100_000) > 5*math.Sqrt(100_000) {
			t.Errorf("%v messages, want about 100,000", n)
		}
		var sum, squares float64
		for i := 1; i < len(first); i++ {
			gap := float64(first[i] - first[i-1])
			sum, squares = sum+gap, squares+gap*gap
		}
		mean := sum / (n - 1)
		deviation := math.Sqrt(squares/(n-1) - mean*mean)
		if math.Abs(mean-1e6) > 2e4 || math.Abs(deviation-1e6) > 3e4 {
			t.Errorf("gaps have mean %.0f and deviation %.0f, want 1,000,000 for both", mean, deviation)
		}
	})
	t.Run("a seed repeats it", func(t *testing.T) {
		again := all(o)
		for i := range first {
			if first[i] != again[i] {
				t.Fatalf("message %d at %d, then at %d", i, first[i], again[i])
			}
		}
	})
	t.Run("another seed or part differs", func(t *testing.T) {
		seed, part := o, o
		seed.Seed, part.Part = 2, 1
		if all(seed)[0] == first[0] || all(part)[0] == first[0] {
			t.Error("the first message is due at the same time")
		}
	})
	t.Run("never goes back", func(t *testing.T) {
		last := o.Start
		for i, at := range first {
			if at < last {
				t.Fatalf("message %d at %d, after one at %d", i, at, last)
			}
			last = at
		}
	})
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]workload.Rate{"3000": 3000 * workload.PerSecond, "0.25": 250_000, "1e5": 100_000 * workload.PerSecond, "0.000001": 1} {
		if got, err := workload.ParseRate(text); err != nil || got != want {
			t.Errorf("%s: %d, error %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "0", "-1", "NaN", "Inf", "1e12", "0.0000001", "1.00000015"} {
		if got, err := workload.ParseRate(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
	check.Equalf(t, workload.Rate(2_500_000).String(), "2.5", "2.5/s is written")
}
