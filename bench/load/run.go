package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"

	"github.com/sebbroker/seb/bench/sut"
)

// run is the state of a run. What is not atomic and has no lock is written before the goroutines start, or after they have
// ended.
type run struct {
	o     Options
	w     *workload.Workload // of all parts
	deal  Deal               // of this one
	apart bool               // parts have systems of their own inside them
	// sequencesMax bounds what is kept of the numbers of messages.
	sequencesMax uint64
	clock        Clock
	res          *result.Run

	systems     []sut.System // by topic
	publishers  []*publisher
	groups      []*group // who is promised every message of a topic, as far as they are here
	subscribers []*subscriber
	sends       []*sendShard
	receives    []*receiveShard

	start, measureFrom, measureTo, end, deadline int64 // of the clock
	over                                         int64 // when nothing more was waited for

	stopReceiving context.CancelFunc
	receiving     sync.WaitGroup // Receive of every subscriber
	sending       sync.WaitGroup // the loop of every publisher
	background    sync.WaitGroup

	sent, acked, failed, measured, waited, doneTwice atomic.Int64
	received, measuredReceived                       atomic.Int64
	duplicates, reordered, corrupt, foreign, others  atomic.Int64
	came                                             atomic.Int64 // when the last measured message did
	lagMax                                           atomic.Int64 // since the monitor last looked
	draining                                         atomic.Bool  // all was sent
	pid                                              atomic.Int64 // of the broker
	delay                                            atomic.Int64 // nanoseconds that a subscriber takes for each message
	holdUntil                                        atomic.Int64 // of the clock: subscribers take nothing before

	packed []packedSecond // of the monitor, until the run is over

	elsewhere map[sightingOf][]*workload.SequenceSet // what other parts have seen of this one's messages

	mu       sync.Mutex // guards what follows
	problems map[string]int64
	faults   []result.Fault
	jitters  *result.Histogram
	use      usage
}

// shardsMax bounds the memory for histograms, 1 MB each, and the time that it takes to collect them every second. Connections
// share them, because so many goroutines as there are cores are ever at it at once.
func shardsMax() int { return min(16, runtime.GOMAXPROCS(0)) }

func newRun(o Options, deal Deal) *run {
	r := &run{
		o: o, w: &o.Workload, deal: deal, clock: o.Clock, problems: map[string]int64{}, jitters: result.NewHistogram(), res: &result.Run{Repeat: 1},
		sequencesMax: sequencesMax(&o.Workload),
		apart:        o.Parts > 0 && o.Open == nil && sut.Inside(o.Target.Driver),
	}
	if r.o.Run == 0 {
		r.o.Run = drawRun()
	}
	for range min(shardsMax(), deal.Publishers) {
		r.sends = append(r.sends, newSendShard())
	}
	for range min(shardsMax(), len(deal.Subscribers)) {
		r.receives = append(r.receives, newReceiveShard())
	}
	for i := range deal.Publishers {
		r.publishers = append(r.publishers, newPublisher(r, deal.PublisherFirst+i))
	}
	r.newSubscribers()
	return r
}

func (r *run) newSubscribers() {
	known := map[Group]*group{}
	for n, one := range r.deal.Subscribers {
		of := one
		if r.w.Shared {
			of.Member = 0
		}
		g := known[of]
		if g == nil {
			g = newGroup(r, of)
			known[of] = g
			r.groups = append(r.groups, g)
		}
		r.subscribers = append(r.subscribers, &subscriber{r: r, index: one.Member, group: g, shard: r.receives[n%len(r.receives)]})
	}
}

// schedule is that of a publisher, from the beginning.
func (r *run) schedule(number int) *workload.Schedule {
	return workload.NewSchedule(workload.ScheduleOptions{
		Start: r.start, Length: r.w.Length(), Rate: r.w.Rate, Part: number, Parts: r.w.Publishers,
		Poisson: r.w.Arrivals == workload.Poisson, Seed: r.w.Seed,
	})
}

// measures says whether a message due at that time is measured.
func (r *run) measures(due int64) bool { return due >= r.measureFrom && due < r.measureTo }

// measuresAfter is measures for a time from the start.
func (r *run) measuresAfter(d int64) bool {
	return d >= int64(r.w.Warmup) && d < int64(r.w.Warmup)+int64(r.w.Duration)
}

func (r *run) phase(now int64) string {
	switch {
	case now <= r.measureFrom:
		return result.Warmup
	case now <= r.measureTo:
		return result.Measure
	case now <= r.end:
		return result.Cooldown
	}
	return result.Drain
}

// complete says whether every message was answered, and as many have arrived everywhere as were acknowledged. It counts;
// outcome looks at each.
func (r *run) complete() bool {
	if r.acked.Load()+r.failed.Load() < r.sent.Load() {
		return false
	}
	acked := r.ackedByTopic()
	for _, g := range r.groups {
		if g.received.Load() < acked[g.Topic] {
			return false
		}
	}
	return true
}

// ackedByTopic counts the acknowledged messages of this part.
func (r *run) ackedByTopic() []int64 {
	acked := make([]int64, r.w.Topics)
	for _, p := range r.publishers {
		p.mu.Lock()
		acked[p.topic] += int64(p.acked.Len())
		p.mu.Unlock()
	}
	return acked
}

// problemsMax is how many different errors a result names.
const problemsMax = 20

// problemLength is how much of an error it says, in bytes.
const problemLength = 300

func (r *run) problem(text string) {
	if len(text) > problemLength {
		text = text[:problemLength] + "..."
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.problems[text]; !known && len(r.problems) >= problemsMax {
		text = "others"
	}
	r.problems[text]++
}

// seal lets nothing into the histograms any more.
func (r *run) seal() {
	for _, s := range r.sends {
		s.mu.Lock()
		s.sealed = true
		s.mu.Unlock()
	}
	for _, s := range r.receives {
		s.mu.Lock()
		s.sealed = true
		s.mu.Unlock()
	}
}

// seconds is a time of the clock in seconds from the first message due.
func (r *run) seconds(now int64) float64 { return time.Duration(now - r.start).Seconds() }
