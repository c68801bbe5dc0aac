package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// latencyAt returns a Latency that has started, and its class.
func latencyAt(t *testing.T, now time.Time) (*Latency, *budget.Class) {
	t.Helper()
	class := budget.New(256 << 20).Class(budget.Tail)
	l := new(Latency)
	must.NoError(t, l.Start(class, now))
	return l, class
}

// TestPercentilesAreExact: percentiles of a known series differ from the exact ones by at most
// 0.1 %, or a microsecond, up to the largest value.
func TestPercentilesAreExact(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	for name, sample := range map[string]func(r *rand.Rand) time.Duration{
		"of a disk": func(r *rand.Rand) time.Duration { return time.Duration(math.Exp(r.NormFloat64()*0.8+8) * 1e3) },
		"of a store": func(r *rand.Rand) time.Duration {
			return 80*time.Millisecond + time.Duration(r.ExpFloat64()*float64(30*time.Millisecond))
		},
		"with stalls": func(r *rand.Rand) time.Duration {
			if r.IntN(1000) == 0 {
				return time.Duration(1e8 + r.Float64()*2e9)
			}
			return time.Duration(3e6 + r.ExpFloat64()*1e6)
		},
		"all equal": func(*rand.Rand) time.Duration { return 123456 * time.Microsecond },
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := latencyAt(t, began)
			r := rand.New(rand.NewPCG(1, 2))
			exact := make([]time.Duration, sebtest.Runs(200_000, 50_000))
			for i := range exact {
				exact[i] = sample(r)
				l.record(Acks, exact[i], began.Add(time.Duration(i)*time.Millisecond))
			}
			slices.Sort(exact)
			for _, hour := range []bool{true, false} {
				curves, since, ok := l.curves(hour, began.Add(time.Minute))
				c := &curves[Acks]
				if !ok || !since.Equal(began) || c.Count != int64(len(exact)) || curves[Puts].Count != 0 || len(c.At) != len(Percentiles) {
					t.Fatalf("%d values since %s, %v", c.Count, since, ok)
				}
				for i, p := range append(slices.Clone(Percentiles), 100) {
					want := exact[Rank(p, int64(len(exact)))-1]
					got := c.Max
					if i < len(c.At) {
						got = c.At[i]
					}
					if (got - want).Abs() > max(time.Microsecond, want/1000) {
						t.Errorf("percentile %v: %s, exactly %s", p, got, want)
					}
				}
			}
		})
	}
}

func TestPercentilesAscend(t *testing.T) {
	if !slices.IsSorted(Percentiles) || len(slices.Compact(slices.Clone(Percentiles))) != len(Percentiles) || Percentiles[0] != 0 {
		t.Errorf("%v", Percentiles)
	}
	for _, p := range []float64{50, 75, 90, 99, 99.9, 99.99, 99.999} {
		if !slices.Contains(Percentiles, p) {
			t.Errorf("no %v", p)
		}
	}
}

// TestLastHour: values leave the window after 60 to 80 minutes, also while nothing is recorded.
func TestLastHour(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	l, _ := latencyAt(t, began)
	count := func(now time.Time) int64 {
		curves, since, _ := l.curves(true, now)
		if age := now.Sub(since); age > 80*time.Minute {
			t.Errorf("the window is %s long", age)
		}
		return curves[Puts].Count
	}
	for minute := range 100 {
		l.record(Puts, time.Millisecond, began.Add(time.Duration(minute)*time.Minute))
		if got := count(began.Add(time.Duration(minute) * time.Minute)); got < int64(min(minute+1, 61)) || got > 80 {
			t.Errorf("after %d minutes: %d values", minute, got)
		}
	}
	last := began.Add(99 * time.Minute)
	if got := count(last.Add(59 * time.Minute)); got == 0 {
		t.Error("an idle hour forgets the values before it")
	}
	check.Equalf(t, count(last.Add(81*time.Minute)), 0, "after 81 idle minutes: values")
	if curves, since, _ := l.curves(false, last); curves[Puts].Count != 100 || !since.Equal(began) {
		t.Errorf("since the start: %d values since %s", curves[Puts].Count, since)
	}
	// Values out of range count as the bounds.
	l.record(Acks, -time.Second, last)
	l.record(Acks, time.Hour, last)
	curves, _, _ := l.curves(false, last)
	if c := curves[Acks]; c.Count != 2 || c.At[0] != 0 || c.Max < latencyMax || c.Max > latencyMax+latencyMax/1000 {
		t.Errorf("values out of range: %+v", c)
	}
}

// TestLatencyMemory: with any distribution the histograms take at most the memory that is reserved,
// and with 64 MiB times differ from the recorded ones by less than 1/32 + 0.1 %.
func TestLatencyMemory(t *testing.T) {
	if n := newHistogram().ByteSize(); n > CurvesBytes {
		t.Errorf("a histogram has %d bytes, %d are reserved", n, CurvesBytes)
	}
	began := time.Unix(1_800_000_000, 0)
	for _, limit := range []int64{64 << 20, 256 << 20} {
		class := budget.New(limit).Class(budget.Tail)
		l := new(Latency)
		must.NoError(t, l.Start(class, began))
		r := rand.New(rand.NewPCG(3, 4))
		var exact []time.Duration
		n := sebtest.Runs(300_000, 60_000)
		for i := range n { // over five slices
			took := time.Duration(math.Exp(r.Float64()*math.Log(latencyMax.Seconds()*1e6))) * time.Microsecond
			exact = append(exact, took)
			for m := range Measure(measures) {
				l.record(m, took, began.Add(time.Duration(i)*6000*time.Second/time.Duration(n)))
			}
		}
		slices.Sort(exact)
		curves, _, _ := l.curves(false, began)
		for i, p := range Percentiles {
			want := exact[Rank(p, int64(len(exact)))-1]
			if got := curves[Acks].At[i]; got < want-want/1000 || got > want+want/32+want/500+time.Microsecond {
				t.Errorf("%d MiB, percentile %v: %s, exactly %s", limit>>20, p, got, want)
			}
		}
		size := 0
		for m := range measures {
			size += l.all[m].GetMemorySize()
			for _, h := range l.ring[m] {
				size += h.GetMemorySize()
			}
		}
		if reserved := class.Used(); int64(size) > reserved+histograms*512 || reserved > latencyBytesMax || reserved > class.Limit()/classShare-Bytes {
			t.Errorf("%d MiB: histograms of %d bytes, reserved are %d", limit>>20, size, reserved)
		}
		l.Close()
		l.Close()
		check.Equalf(t, class.Used(), 0, "bytes are still reserved")
		if _, _, ok := l.Curves(true); ok {
			t.Error("a closed Latency has curves")
		}
	}
	check.Error(t, new(Latency).Start(budget.New(32<<20).Class(budget.Tail), began), "a small class has room for histograms")
}

// TestLatencyConcurrent: values of several goroutines are all counted. A Latency that has not
// started, or is nil, records nothing.
func TestLatencyConcurrent(t *testing.T) {
	l, _ := latencyAt(t, time.Now())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				l.Record(Acks, time.Millisecond)
			}
		})
		all.Go(func() { l.Curves(true) })
	}
	all.Wait()
	if curves, _, _ := l.Curves(false); curves[Acks].Count != 4000 {
		t.Errorf("%d of 4000 values", curves[Acks].Count)
	}
	for _, off := range []*Latency{nil, {}} {
		off.Record(Puts, time.Second)
		if _, _, ok := off.Curves(true); ok {
			t.Error("a latency that has not started has curves")
		}
	}
}
