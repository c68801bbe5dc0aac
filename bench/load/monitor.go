package load

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
)

// Progress is the progress of a run.
type Progress struct {
	Label    string // of the target
	Phase    string // as in result.Second
	At, Left time.Duration
	Rate     float64 // messages sent in the last second
	Wanted   float64 // messages due per second
	InFlight int64
	Failed   int64
	Lag      time.Duration // the largest of the last second
	// Headline is the curve to take percentiles from, measured from the intended time: the
	// end-to-end latency, or the time until the acknowledgement if there are no subscribers. Before
	// the measurement it covers all messages since the start, afterwards those since the
	// measurement began. It is valid only during the call, and nil for a run with several machines.
	Headline *result.Histogram
	EndToEnd bool
}

// monitor records each second until ctx ends.
func (r *run) monitor(ctx context.Context) {
	m := newMonitor(r)
	for n := int64(1); ; n++ {
		// The last second may be shorter, and counts too.
		ended := r.clock.SleepUntil(ctx, r.start+n*int64(time.Second)) != nil
		if now := r.clock.Now(); now > r.start {
			m.second(now)
		}
		if ended {
			return
		}
	}
}

type monitor struct {
	r         *run
	ack, e2e  *result.Histogram // of the current second
	sofar     *result.Histogram // Progress.Headline
	measuring bool
	last      sample
}

// sample holds the counters at one time.
type sample struct {
	at                            int64
	sent, acked, failed, received int64
	broker, generator             machine.Status
}

func newMonitor(r *run) *monitor {
	m := &monitor{r: r, ack: result.NewHistogram(), e2e: result.NewHistogram(), sofar: result.NewHistogram()}
	m.last = m.sample(r.start)
	return m
}

func (m *monitor) sample(now int64) sample {
	r := m.r
	s := sample{at: now, sent: r.sent.Load(), acked: r.acked.Load(), failed: r.failed.Load(), received: r.received.Load()}
	// A process that has ended, and a system without /proc, count as using nothing.
	if pid := r.pid.Load(); pid > 0 {
		s.broker, _ = machine.Process(int(pid))
	}
	s.generator, _ = machine.Process(os.Getpid())
	return s
}

// second completes a second.
func (m *monitor) second(now int64) {
	r := m.r
	m.ack.Reset()
	m.e2e.Reset()
	for _, s := range r.sends {
		s.collect(m.ack)
	}
	for _, s := range r.receives {
		s.collect(m.e2e)
	}
	s := m.sample(now)
	took := time.Duration(now - m.last.at).Seconds()
	row := result.Second{
		At: r.seconds(now), Phase: r.phase(now), Sent: s.sent - m.last.sent, Acked: s.acked - m.last.acked,
		Failed: s.failed - m.last.failed, Received: s.received - m.last.received, InFlight: s.sent - s.acked - s.failed,
		LagMaxNs:  r.lagMax.Swap(0),
		BrokerCPU: cores(s.broker.CPU-m.last.broker.CPU, took), BrokerRSS: s.broker.RSSBytes,
		GeneratorCPU: cores(s.generator.CPU-m.last.generator.CPU, took), GeneratorRSS: s.generator.RSSBytes,
	}
	// Encoding the curves takes too long during a run.
	p := packedSecond{ack: m.ack.Pack(), e2e: m.e2e.Pack()}
	r.packed, r.res.Seconds = append(r.packed, p), append(r.res.Seconds, row)
	m.progress(row, now, took)
	m.last = s
}

// packedSecond holds the curves of a second.
type packedSecond struct{ ack, e2e result.Packed }

// secondCurves adds the curves of all seconds to the result.
func (r *run) secondCurves() {
	for i := range r.packed {
		p, row := &r.packed[i], &r.res.Seconds[i]
		row.Ack = p.ack.Histogram().Curve()
		if len(r.groups) > 0 {
			row.E2E = new(p.e2e.Histogram().Curve())
		}
	}
}

func (m *monitor) progress(row result.Second, now int64, took float64) {
	r := m.r
	if r.o.Others != nil && !r.draining.Load() { // while draining, drainTogether sends the reports
		t := r.totals(now, false)
		t.LagMax = time.Duration(row.LagMaxNs)
		r.o.Others.Report(t)
	}
	if r.o.Progress == nil {
		return
	}
	if !m.measuring && m.last.at >= r.measureFrom {
		m.measuring = true
		m.sofar.Reset()
	}
	endToEnd := len(r.groups) > 0
	if endToEnd {
		m.sofar.Merge(m.e2e)
	} else {
		m.sofar.Merge(m.ack)
	}
	r.o.Progress(Progress{
		Label: r.o.Target.Name(), Phase: row.Phase, At: time.Duration(now - r.start), Left: time.Duration(max(0, r.end-now)),
		Rate: float64(row.Sent) / took, Wanted: r.w.Rate.Float() * float64(r.assigned.Publishers) / float64(r.w.Publishers), InFlight: row.InFlight, Failed: r.failed.Load(),
		Lag: time.Duration(row.LagMaxNs), Headline: m.sofar, EndToEnd: endToEnd,
	})
}

// cores returns the number of cores used. A restarted process has used less CPU time than before,
// which counts as 0.
func cores(cpu time.Duration, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return max(0, cpu.Seconds()) / seconds
}

// jitterSleep is a sleep whose excess duration is measured during the whole run.
const jitterSleep = 5 * time.Millisecond

// jitter measures how much longer than requested the machine lets a sleeping goroutine wait.
func (r *run) jitter(ctx context.Context) {
	if r.clock.SleepUntil(ctx, r.measureFrom) != nil {
		return
	}
	for now := r.clock.Now(); now < r.measureTo; {
		until := now + int64(jitterSleep)
		if r.clock.SleepUntil(ctx, until) != nil {
			return
		}
		now = r.clock.Now()
		r.jitters.Record(now - until)
	}
}

// usage is what the generator used during the measurement.
type usage struct {
	before, after       runtime.MemStats
	cpuBefore, cpuAfter time.Duration
}

// collectUsage records the usage when the measurement begins and when it ends.
func (r *run) collectUsage(ctx context.Context) {
	if r.clock.SleepUntil(ctx, r.measureFrom) != nil {
		return
	}
	runtime.ReadMemStats(&r.use.before)
	own, _ := machine.Process(os.Getpid())
	r.use.cpuBefore = own.CPU
	_ = r.clock.SleepUntil(ctx, r.measureTo) // a cancelled run ends the measurement too
	runtime.ReadMemStats(&r.use.after)
	own, _ = machine.Process(os.Getpid())
	r.use.cpuAfter = own.CPU
}
