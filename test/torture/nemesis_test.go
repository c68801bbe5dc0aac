package torture

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// nemesis injects faults into brokers until ctx ends.
func (r *run) nemesis(ctx context.Context) {
	rng := stream(r.p.seed, streamNemesis)
	for ctx.Err() == nil {
		r.progress(ctx, rng)
		s := r.slots[rng.IntN(len(r.slots))]
		what := r.draw(rng)
		length := span(rng, time.Millisecond, r.p.stopMax)
		if b := s.current(); b != nil && ctx.Err() == nil {
			s.do(b, what, length)
		}
		// And the next one during its start.
		for what == actKill && rng.IntN(6) == 0 && ctx.Err() == nil {
			sleep(ctx, time.Duration(rng.IntN(int(80*time.Millisecond))))
			if b := s.current(); b != nil {
				s.do(b, actKill, 0)
			}
		}
	}
}

// draw picks an act by its weight.
func (r *run) draw(rng *rand.Rand) act {
	total := 0.0
	for _, a := range []act{actKill, actStop, actTerm, actBlock} {
		total += r.p.acts[a]
	}
	u := rng.Float64() * total
	for _, a := range []act{actKill, actStop, actTerm, actBlock} {
		if u -= r.p.acts[a]; u < 0 {
			return a
		}
	}
	return actKill
}

const (
	shortProgress = 300 * time.Millisecond
	longProgress  = 1500 * time.Millisecond // the time of packs, snapshots and collections
)

// leadMax bounds the wait for a broker that leads.
const leadMax = 1500 * time.Millisecond

// progress waits until clients got acknowledgements, and then for a random time.
func (r *run) progress(ctx context.Context, rng *rand.Rand) {
	if rng.IntN(8) > 0 {
		until := time.Now().Add(leadMax)
		for !r.somebodyLeads() && time.Now().Before(until) && ctx.Err() == nil {
			sleep(ctx, time.Millisecond)
		}
	}
	want := r.acks.Load() + int64(rng.ExpFloat64()*r.p.acksMean)
	moment := time.Duration(rng.IntN(int(20 * time.Millisecond)))
	until := time.Now().Add(r.p.progressMax)
	for r.acks.Load() < want && time.Now().Before(until) && ctx.Err() == nil {
		sleep(ctx, time.Millisecond)
	}
	sleep(ctx, moment)
}

func (r *run) somebodyLeads() bool {
	return slices.ContainsFunc(r.slots, func(s *slot) bool { return !s.leads().IsZero() })
}

// do performs one act on a broker.
func (s *slot) do(b *testenv.Broker, what act, length time.Duration) {
	switch what {
	case actKill:
		s.r.rec.Note(s.name(), "SIGKILL pid %d", b.Pid())
		b.Signal(os.Kill)
		<-b.Done()
	case actTerm:
		s.mu.Lock()
		s.terminated = true
		s.mu.Unlock()
		s.r.rec.Note(s.name(), "SIGTERM pid %d", b.Pid())
		b.Signal(syscall.SIGTERM)
	case actStop:
		s.r.counts.add("SIGSTOP", 1)
		s.r.rec.Note(s.name(), "SIGSTOP pid %d for %v", b.Pid(), length.Round(time.Millisecond))
		b.Signal(syscall.SIGSTOP)
		s.resumeLater(b, length)
	case actBlock:
		if s.store != nil {
			s.r.rec.Note(s.name(), "store unreachable for %v", length.Round(time.Millisecond))
			s.store.Block(length)
		}
	}
}

// resumeLater resumes a stopped broker.
func (s *slot) resumeLater(b *testenv.Broker, after time.Duration) {
	s.timers.Go(func() {
		select {
		case <-time.After(after):
		case <-b.Done():
		}
		b.Signal(syscall.SIGCONT)
		s.r.rec.Note(s.name(), "SIGCONT pid %d", b.Pid())
	})
}

// pauseTime returns how long a failpoint pauses a broker.
func (s *slot) pauseTime() time.Duration {
	return span(stream(uint64(time.Now().UnixNano()), 1), time.Millisecond, s.r.p.stopMax)
}

// sleep waits, and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
