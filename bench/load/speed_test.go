package load_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/load"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/must"
)

// instant is a system that acknowledges a message within the call, and has no subscribers.
type instant struct{}

func (instant) Setup(context.Context) (sut.Info, error) { return sut.Info{}, nil }

func (instant) Publisher(context.Context) (sut.Publisher, error)             { return instant{}, nil }
func (instant) Subscriber(context.Context, bool) (sut.Subscriber, error)     { return nil, nil }
func (instant) Teardown(context.Context) error                               { return nil }
func (instant) Close(context.Context) error                                  { return nil }
func (instant) Publish(_ context.Context, _, _ []byte, done func(err error)) { done(nil) }

// BenchmarkGenerator measures the generator's own cost of a message at full speed: ns/message on
// one core, and allocations.
func BenchmarkGenerator(b *testing.B) {
	w := workload.Default()
	w.Subscribers, w.Warmup, w.Duration = 0, workload.Duration(200*time.Millisecond), workload.Duration(time.Second)
	w.Rate = workload.RateMax / 50 // more than it can send
	w.Timeout = workload.Duration(time.Minute)
	w.Size = workload.FixedSize(256)
	var sent, allocs float64
	var cpu float64
	for b.Loop() {
		res, err := load.Run(b.Context(), load.Options{
			Workload: w, Clock: load.NewMonotonicClock(0),
			Open: func(context.Context, sut.Config) (sut.System, error) { return instant{}, nil },
		})
		must.NoError(b, err)
		sent += float64(res.Counts.Measured)
		allocs += float64(res.Generator.GC.Allocs)
		last := res.Seconds[len(res.Seconds)-1].At
		cpu += last * 1e9 * float64(res.Counts.Measured) / float64(res.Counts.Sent)
	}
	b.ReportMetric(cpu/sent, "ns/message")
	b.ReportMetric(allocs/sent, "allocs/message")
	b.ReportMetric(float64(runtime.GOMAXPROCS(0)), "procs")
}
