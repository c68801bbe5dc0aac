package load_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// simulation is a single-server broker in the virtual time of the test's bubble. It delivers each
// message and then acknowledges it. Its times count from the first message.
type simulation struct {
	service time.Duration
	// The server does nothing for the duration stall, starting at stallAt.
	stallAt, stall time.Duration
	blockAt, block time.Duration // Publish blocks during this time
	queue          chan job
	publishes      func(n int, j *job) []job // replaces the n-th message; nil: unchanged
	refuse         func(n int) error
	// How often the n-th served message is delivered to a subscriber; nil: once.
	deliver     func(n, subscriber int) int
	first       time.Time
	mu          sync.Mutex // guards the following fields
	subscribers []chan []byte
	n           int
	serving     sync.WaitGroup
}

type job struct {
	payload []byte
	done    func(error)
}

// queueMax is large enough for all messages of a test.
const queueMax = 1 << 20

func (s *simulation) open(context.Context, sut.Config) (sut.System, error) {
	s.queue = make(chan job, queueMax)
	s.serving.Go(s.serve)
	return s, nil
}

func (s *simulation) serve() {
	served := 0
	for j := range s.queue {
		s.sleepThrough(s.stallAt, s.stall)
		time.Sleep(s.service)
		s.mu.Lock()
		for i, to := range s.subscribers {
			times := 1
			if s.deliver != nil {
				times = s.deliver(served, i)
			}
			for range times {
				to <- slices.Clone(j.payload)
			}
		}
		served++
		s.mu.Unlock()
		if j.done != nil {
			j.done(nil)
		}
	}
}

// rest waits for the end of a pause if one is active.
func (s *simulation) sleepThrough(at, pause time.Duration) {
	if since := time.Since(s.first); since >= at && since < at+pause {
		time.Sleep(at + pause - since)
	}
}

func (s *simulation) Setup(context.Context) (sut.Info, error) {
	return sut.Info{System: "simulation", Durability: sut.None}, nil
}

func (s *simulation) Publisher(context.Context) (sut.Publisher, error) {
	return (*simPublisher)(s), nil
}

func (s *simulation) Subscriber(context.Context, bool) (sut.Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan []byte, queueMax)
	s.subscribers = append(s.subscribers, c)
	return simSubscriber(c), nil
}

func (s *simulation) Teardown(context.Context) error {
	close(s.queue)
	s.serving.Wait()
	return nil
}

type simPublisher simulation

func (p *simPublisher) Publish(ctx context.Context, _, payload []byte, done func(error)) {
	s := (*simulation)(p)
	s.mu.Lock()
	n := s.n
	s.n++
	s.mu.Unlock()
	if n == 0 {
		s.first = time.Now()
	}
	if s.block > 0 {
		if since := time.Since(s.first); since >= s.blockAt && since < s.blockAt+s.block {
			select {
			case <-time.After(s.blockAt + s.block - since):
			case <-ctx.Done():
				done(ctx.Err())
				return
			}
		}
	}
	if s.refuse != nil {
		if err := s.refuse(n); err != nil {
			done(err)
			return
		}
	}
	j := job{slices.Clone(payload), done}
	if s.publishes == nil {
		s.queue <- j
		return
	}
	for _, j := range s.publishes(n, &j) {
		s.queue <- j
	}
}

func (p *simPublisher) Close(context.Context) error { return nil }

type simSubscriber chan []byte

func (s simSubscriber) Receive(ctx context.Context, f func([]byte)) error {
	for {
		select {
		case p := <-s:
			f(p)
			clear(p) // payload is valid only during the call
		case <-ctx.Done():
			return nil
		}
	}
}

func (s simSubscriber) Close() error { return nil }

// simWorkload is 1000 messages per second for ten seconds, after one second of warm-up.
func simWorkload() workload.Workload {
	w := workload.Default()
	w.Warmup, w.Duration = workload.Duration(time.Second), workload.Duration(10*time.Second)
	w.Rate, w.Size = 1000*workload.PerSecond, workload.FixedSize(100)
	return w
}

// simulate performs a run against a simulation in a bubble.
func simulate(t *testing.T, s *simulation, w workload.Workload, change ...func(*load.Options)) *result.Run {
	t.Helper()
	var res *result.Run
	synctest.Test(t, func(t *testing.T) {
		o := load.Options{Workload: w, Clock: load.NewStandardClock(), Open: s.open, Target: workload.Target{Driver: "simulation"}}
		for _, f := range change {
			f(&o)
		}
		var err error
		if res, err = load.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	})
	return res
}

// expected computes what the simulation does to messages with a fixed schedule, without running it.
func expected(s *simulation, w *workload.Workload) *result.Histogram {
	h := result.NewHistogram()
	free := int64(0)
	for n := uint64(0); w.Rate.After(n) < int64(w.Length()); n++ {
		due := w.Rate.After(n)
		begin := max(due, free)
		if begin >= int64(s.stallAt) && begin < int64(s.stallAt+s.stall) {
			begin = int64(s.stallAt + s.stall)
		}
		free = begin + int64(s.service)
		if due >= int64(w.Warmup) {
			h.Record(free - due)
		}
	}
	return h
}

func histogram(t *testing.T, c *result.Curve) *result.Histogram {
	t.Helper()
	if c == nil {
		t.Fatal("no such curve")
	}
	h := must.Get(c.Histogram())(t)
	return h
}

// above counts the samples that are longer than d.
func above(h *result.Histogram, d time.Duration) (n int64) {
	for _, b := range h.Bars() {
		if b.To > d {
			n += b.Count
		}
	}
	return n
}

func TestStall(t *testing.T) {
	s := &simulation{service: 100 * time.Microsecond, stallAt: 5 * time.Second, stall: time.Second}
	w := simWorkload()
	res := simulate(t, s, w)
	want := expected(s, &w)
	for _, name := range result.Names() {
		if got := histogram(t, res.Curves.Named(name)); !got.Equal(want) {
			t.Errorf("%s: %d samples with max %v, want %d with max %v", name, got.Count(), got.Max(), want.Count(), want.Max())
		}
	}
	t.Run("late samples are spread evenly over the stall", func(t *testing.T) {
		// The k-th message of the stall waits for the rest of the stall and for the messages before
		// it: 1000.1 - 0.9 k ms.
		h := histogram(t, res.Curves.E2EIntended)
		for _, d := range []time.Duration{100, 250, 500, 750, 900} {
			want := (1000.1 - float64(d)) / 0.9
			if got := float64(above(h, d*time.Millisecond)); got < want-2 || got > want+2 {
				t.Errorf("%.0f samples are longer than %d ms, want %.0f", got, d, want)
			}
		}
	})
	t.Run("batches in a closed loop", func(t *testing.T) {
		batches := w
		batches.Loop, batches.Batch, batches.Rate = workload.Closed, 10, workload.RateMax
		res := simulate(t, &simulation{service: s.service}, batches)
		h := histogram(t, &res.Curves.AckIntended)
		// The k-th message of a batch waits for those before it, and the next batch for all.
		if n := h.Count(); n < 99_980 || n > 100_020 || h.Max().Round(10*time.Microsecond) != time.Millisecond {
			t.Errorf("%d messages with max %v, want 100,000 with 1 ms", n, h.Max())
		}
		check.Equalf(t, above(h, 550*time.Microsecond), h.Count()/2, "messages in the second half of a batch")
	})
	t.Run("a closed loop hides it", func(t *testing.T) {
		closed := w
		closed.Loop = workload.Closed
		res := simulate(t, &simulation{service: s.service, stallAt: s.stallAt, stall: s.stall}, closed)
		h := histogram(t, &res.Curves.AckIntended)
		check.Equalf(t, above(h, time.Millisecond), 1, "samples are late")
		if n := h.Count(); n < 8990 || n > 9010 {
			t.Errorf("%d messages, want about 9,000: those of one second were not sent", n)
		}
		if p, _ := res.Curves.AckIntended.At(99.9); p > time.Millisecond {
			t.Errorf("p99.9 is %v; a closed loop should hide the stall", p)
		}
		if p, _ := histogram(t, res.Curves.E2EIntended).Percentile(99); p > time.Millisecond {
			t.Errorf("p99 is %v", p)
		}
	})
	t.Run("the run is valid", func(t *testing.T) {
		c := res.Counts
		if !res.Validity.Valid || !c.Clean() || c.Sent != 11_000 || c.Measured != 10_000 || c.Received != 11_000 || len(res.Errors) != 0 {
			t.Errorf("%+v, %+v, %v", c, res.Validity, res.Errors)
		}
		check.Equalf(t, c.SentRate, 1000, "messages a second")
	})
	t.Run("the seconds add up", func(t *testing.T) {
		var sent, received int64
		all := result.NewHistogram()
		for _, s := range res.Seconds {
			sent, received = sent+s.Sent, received+s.Received
			all.Merge(histogram(t, s.E2E))
		}
		if sent != 11_000 || received != 11_000 || all.Count() != 11_000 || len(res.Seconds) < 11 {
			t.Errorf("%d seconds: %d sent, %d received, %d in the histograms", len(res.Seconds), sent, received, all.Count())
		}
		if row := res.Seconds[5]; row.Received != 0 || row.InFlight < 999 || row.Phase != result.Measure {
			t.Errorf("in the stall: %+v", row)
		}
	})
}

func TestManyConnections(t *testing.T) {
	w := simWorkload()
	w.Publishers, w.Subscribers, w.Arrivals, w.Keys, w.KeySkew = 25, 3, workload.Poisson, 10, 1.2
	s := &simulation{service: time.Microsecond}
	res := simulate(t, s, w)
	c := res.Counts
	if !c.Clean() || c.Expected != 3*c.Sent || c.Received != c.Expected || c.Sent < 10_500 || c.Sent > 11_500 {
		t.Errorf("%+v %v", c, res.Errors)
	}
	check.Equalf(t, res.Curves.E2EIntended.Count, 3*c.Measured, "samples of %d messages to three", c.Measured)
}

// misbehaviour is what a broker does wrong with the n-th message, and the expected result of such a
// run.
type misbehaviour struct {
	does func(n int, j *job) []job
	want result.Counts
}

func misbehaviours() map[string]misbehaviour {
	every := func(n, k int) bool { return n > 0 && n%k == 0 }
	var held []job
	return map[string]misbehaviour{
		"duplicates": {
			func(n int, j *job) []job {
				if every(n, 100) {
					return []job{*j, {payload: slices.Clone(j.payload)}}
				}
				return []job{*j}
			}, result.Counts{Received: 11_000, Duplicates: 109},
		},
		"drops": {
			func(n int, j *job) []job {
				if every(n, 50) {
					j.done(nil)
					return nil
				}
				return []job{*j}
			}, result.Counts{Received: 10_781, Lost: 219},
		},
		"swaps": {
			func(n int, j *job) []job {
				if every(n, 40) {
					held = []job{*j}
					return nil
				}
				out := append([]job{*j}, held...)
				held = nil
				return out
			}, result.Counts{Received: 11_000, Reordered: 274},
		},
		"corrupts": {
			func(n int, j *job) []job {
				if every(n, 1000) {
					j.payload[60] ^= 1
				}
				return []job{*j}
			}, result.Counts{Received: 10_990, Corrupt: 10, Lost: 10},
		},
		"cuts short": {
			func(n int, j *job) []job {
				if every(n, 1000) {
					j.payload = j.payload[:20]
				}
				return []job{*j}
			}, result.Counts{Received: 10_990, Corrupt: 10, Lost: 10},
		},
		"answers twice": {
			func(n int, j *job) []job {
				if every(n, 1000) {
					j.done(nil)
				}
				return []job{*j}
			}, result.Counts{Received: 11_000, DoneTwice: 10},
		},
	}
}

func TestMisbehaviour(t *testing.T) {
	for name, c := range misbehaviours() {
		t.Run(name, func(t *testing.T) {
			res := simulate(t, &simulation{service: time.Microsecond, publishes: c.does}, simWorkload())
			got := res.Counts
			got = result.Counts{
				Received: got.Received, Duplicates: got.Duplicates, Lost: got.Lost, Reordered: got.Reordered, Corrupt: got.Corrupt,
				DoneTwice: got.DoneTwice, Foreign: got.Foreign, Failed: got.Failed, Unanswered: got.Unanswered, Unsent: got.Unsent,
			}
			check.Equalf(t, got, c.want, "counts of the result")
			check.Equalf(t, res.Counts.Clean(), name == "swaps", "clean")
			if n := res.Curves.E2EIntended.Count; n != res.Counts.Measured {
				t.Errorf("%d end-to-end samples of %d messages: lost messages must count", n, res.Counts.Measured)
			}
			if h := histogram(t, res.Curves.E2EIntended); c.want.Lost > 0 && h.Max() < 10*time.Second {
				t.Errorf("lost messages count %v, want at least the timeout", h.Max())
			}
		})
	}
}

func TestForeign(t *testing.T) {
	var other []byte
	simulate(t, &simulation{publishes: func(n int, j *job) []job {
		other = bytes.Clone(j.payload)
		return []job{*j}
	}}, simWorkload())
	s := &simulation{publishes: func(n int, j *job) []job {
		if n == 100 {
			return []job{{payload: other}, *j}
		}
		return []job{*j}
	}}
	res := simulate(t, s, simWorkload())
	if c := res.Counts; c.Foreign != 1 || c.Received != 11_000 || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
}
