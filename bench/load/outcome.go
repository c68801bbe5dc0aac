package load

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// describe records in the result what is measured, where and with what, before the run.
func (r *run) describe() {
	r.res.ID = runID(r.o.Run)
	r.res.Label = r.o.Target.Name()
	r.res.Target = r.o.Target.Public()
	r.res.Workload = *r.w
	r.res.Machine = machine.HereInDetail()
	if r.o.Target.Data != "" {
		fs, err := machine.Filesystem(r.o.Target.Data)
		if err != nil {
			r.problem(err.Error())
		}
		r.res.Filesystem = fs
	}
}

// outcome counts what happened to every message, and makes the result.
func (r *run) outcome() *result.Run {
	c := &r.res.Counts
	for _, p := range r.publishers {
		c.Unanswered += p.abandon()
	}
	c.Unsent = r.unsent()
	here := map[Group]*group{}
	for _, g := range r.groups {
		here[g.Group] = g
	}
	for _, p := range r.publishers {
		for _, of := range groupsOf(r.w, p.topic) {
			if g := here[of]; g != nil || !r.ownSystems {
				r.settle(p, of, g)
			}
		}
	}
	r.seal()
	r.count()
	r.curves()
	r.secondCurves()
	for text, n := range r.problems {
		r.res.Errors = append(r.res.Errors, result.Problem{Text: text, Count: n})
	}
	slices.SortFunc(r.res.Errors, func(a, b result.Problem) int { return strings.Compare(a.Text, b.Text) })
	slices.SortFunc(r.faults, func(a, b result.Fault) int { return int(a.Fault.At - b.Fault.At) })
	r.res.Faults = r.faults
	r.res.Colocated = r.pid.Load() > 0 || local(r.o.Target.Address)
	r.judge()
	return r.res
}

// abandon gives up the publishes without a response, and returns their number.
func (p *publisher) abandon() (n int64) {
	for _, s := range p.slots {
		if s.state.CompareAndSwap(slotInFlight, slotAbandoned) {
			n++
			p.shard.record(p.r.timedOut(s.due), p.r.timedOut(s.sent), p.r.measures(s.due))
		}
	}
	return n
}

// timedOut is the latency recorded for a message without a result: the time that was waited for it,
// at least the workload's timeout.
func (r *run) timedOut(since int64) int64 { return max(r.finished-since, int64(r.w.Timeout)) }

// unsent counts the messages that were due and could not be sent, and records them as unanswered.
func (r *run) unsent() (n int64) {
	if r.w.Loop == workload.Closed {
		return 0 // a closed loop sends fewer messages by design
	}
	for _, p := range r.publishers {
		sent := p.next.Load()
		times := r.schedule(p.number)
		for seq := uint64(0); ; seq++ {
			due, ok := times.Next()
			if !ok {
				break
			}
			if seq >= sent {
				n++
				p.shard.record(r.timedOut(due), r.timedOut(due), r.measures(due))
			}
		}
	}
	return n
}

// settle counts which messages of a publisher a group of subscribers received, and records the lost
// ones. g is the part of the group in this process; if it is nil, the group is elsewhere and
// nothing is measured here.
func (r *run) settle(p *publisher, of Group, g *group) {
	c := &r.res.Counts
	seen := &workload.SequenceSet{}
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		seen = g.tracker(p.number).Seen()
	}
	for _, other := range r.receipts[receiptsKey{of, p.number}] {
		// A message that reached several of the processes that share a group was new to each of
		// them.
		common := int64(seen.Join(other))
		r.duplicates.Add(common)
		r.received.Add(-common)
	}
	p.mu.Lock()
	c.Expected += int64(p.acked.Len())
	c.Lost += int64(p.acked.Without(seen))
	c.Unexpected += int64(seen.Without(&p.acked))
	p.mu.Unlock()
	if g != nil && (seen.Len() < p.next.Load() || c.Unsent > 0) {
		r.missing(p, seen)
	}
}

// missing records the messages of a publisher that are not in seen. For lost messages the schedule
// gives the due time; a closed loop follows no schedule, so its messages count with the timeout.
func (r *run) missing(p *publisher, seen *workload.SequenceSet) {
	shard := r.receives[0]
	if r.w.Loop == workload.Closed {
		for range p.next.Load() - seen.Len() {
			shard.missing(int64(r.w.Timeout))
		}
		return
	}
	times := r.schedule(p.number)
	for seq := uint64(0); ; seq++ {
		due, ok := times.Next()
		if !ok {
			return
		}
		if !seen.Has(seq) && r.measures(due) {
			shard.missing(r.timedOut(due))
		}
	}
}

// count copies the counters into the result.
func (r *run) count() {
	c := &r.res.Counts
	c.Sent, c.Acked, c.Failed = r.sent.Load(), r.acked.Load(), r.failed.Load()
	c.Measured, c.Waited, c.DoneTwice = r.measured.Load(), r.waited.Load(), r.doneTwice.Load()
	c.Received, c.Duplicates, c.Reordered = r.received.Load(), r.duplicates.Load(), r.reordered.Load()
	c.Corrupt, c.Foreign, c.Others = r.corrupt.Load(), r.foreign.Load(), r.others.Load()
	var sent int64
	for _, p := range r.publishers {
		sent = max(sent, p.last)
	}
	c.SentRate = r.rate(c.Measured, sent)
	c.ReceivedRate = r.rate(r.measuredReceived.Load(), r.lastReceived.Load())
}

// rate returns messages per second of the measured time, which is longer if the last of them came
// later.
func (r *run) rate(n, last int64) float64 {
	return float64(n) / time.Duration(max(r.measureTo, last)-r.measureFrom).Seconds()
}

// curves merges the shards.
func (r *run) curves() {
	g, c := &r.res.Generator, &r.res.Curves
	send := func(of func(*sendShard) *result.Histogram) result.Curve { return mergeShards(r.sends, of) }
	c.AckIntended = send(func(s *sendShard) *result.Histogram { return s.intended })
	c.AckSent = send(func(s *sendShard) *result.Histogram { return s.sent })
	g.Lag = send(func(s *sendShard) *result.Histogram { return s.lag })
	g.OwnLag = send(func(s *sendShard) *result.Histogram { return s.own })
	g.Inside = send(func(s *sendShard) *result.Histogram { return s.inside })
	if len(r.groups) > 0 {
		c.E2EIntended = new(mergeShards(r.receives, func(s *shard) *result.Histogram { return s.intended }))
		c.E2ESent = new(mergeShards(r.receives, func(s *shard) *result.Histogram { return s.sent }))
	}
	g.Jitter = r.jitters.Curve()
	g.Spin = workload.Duration(r.o.Spin)
	g.Scheduling = machine.Scheduling()
	g.GOMAXPROCS = runtime.GOMAXPROCS(0)
	g.CPUSeconds = (r.use.cpuAfter - r.use.cpuBefore).Seconds()
	g.GC = r.use.gc()
}

// mergeShards returns the curve of a histogram of all shards.
func mergeShards[T any](shards []T, of func(T) *result.Histogram) result.Curve {
	sum := result.NewHistogram()
	for _, s := range shards {
		sum.Merge(of(s))
	}
	return sum.Curve()
}

// gc returns the work of the garbage collector.
func (u *usage) gc() result.GC {
	before, after := &u.before, &u.after
	gc := result.GC{
		Count: after.NumGC - before.NumGC, PauseNs: int64(after.PauseTotalNs - before.PauseTotalNs), HeapBytes: after.HeapAlloc,
		AllocBytes: after.TotalAlloc - before.TotalAlloc, Allocs: after.Mallocs - before.Mallocs,
	}
	for i := range min(gc.Count, uint32(len(after.PauseNs))) {
		gc.PauseMaxNs = max(gc.PauseMaxNs, int64(after.PauseNs[(after.NumGC-1-i)%uint32(len(after.PauseNs))]))
	}
	return gc
}

// local reports whether an address is on this machine; so are the defaults of the drivers.
func local(address string) bool {
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		if strings.Contains(address, host) {
			return true
		}
	}
	return address == ""
}

// shard holds the latencies of some publishers' acknowledgements, or of some subscribers'
// deliveries.
type shard struct {
	mu     sync.Mutex // guards all fields, and those of sendShard
	sealed bool       // accepts no more samples
	// Samples of measured messages.
	intended, sent *result.Histogram
	// Samples of all messages, from the intended time, since the last call of collect; spare is
	// empty.
	second, spare *result.Histogram
}

func newShard() *shard {
	return &shard{intended: result.NewHistogram(), sent: result.NewHistogram(), second: result.NewHistogram(), spare: result.NewHistogram()}
}

// record records how long an acknowledgement or a delivery took.
func (s *shard) record(intended, sent int64, measured bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.second.Record(intended)
	if measured {
		s.intended.Record(intended)
		s.sent.Record(sent)
	}
}

// missing records a measured message that has not arrived after this time.
func (s *shard) missing(ns int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intended.Record(ns)
	s.sent.Record(ns)
}

// collect adds the samples since the last call to into. It is called by one goroutine.
func (s *shard) collect(into *result.Histogram) {
	s.mu.Lock()
	s.second, s.spare = s.spare, s.second
	taken := s.spare
	s.mu.Unlock()
	into.Merge(taken)
	taken.Reset()
}

// seal makes the shard accept no more samples.
func (s *shard) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

// sendShard is the shard of some publishers, with the timing of measured messages.
type sendShard struct {
	*shard
	lag, own, inside *result.Histogram
}

func newSendShard() *sendShard {
	return &sendShard{newShard(), result.NewHistogram(), result.NewHistogram(), result.NewHistogram()}
}

// handed records how late a measured message was handed to the driver, how much of that the
// generator caused, and how long the driver took.
func (s *sendShard) handed(lag, own, inside int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.lag.Record(lag)
	s.own.Record(own)
	s.inside.Record(inside)
}
