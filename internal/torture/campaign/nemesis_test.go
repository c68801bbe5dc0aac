package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/internal/program"
)

// nemesis does things to brokers until ctx ends.
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
		for what == actKill && rng.IntN(6) == 0 && ctx.Err() == nil { // and the next one while it starts
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

// progressMax bounds the wait for acknowledgements: if there are none, because all brokers stand still, it goes on all the
// same.
const progressMax = 300 * time.Millisecond

// leadMax bounds the wait for a broker that leads.
const leadMax = 1500 * time.Millisecond

// progress waits until clients were acknowledged something, and then for a random moment.
func (r *run) progress(ctx context.Context, rng *rand.Rand) {
	if rng.IntN(8) > 0 {
		until := time.Now().Add(leadMax)
		for !r.somebodyLeads() && time.Now().Before(until) && ctx.Err() == nil {
			sleep(ctx, time.Millisecond)
		}
	}
	want := r.acks.Load() + int64(rng.ExpFloat64()*r.p.acksMean)
	moment := time.Duration(rng.IntN(int(20 * time.Millisecond)))
	until := time.Now().Add(progressMax)
	for r.acks.Load() < want && time.Now().Before(until) && ctx.Err() == nil {
		sleep(ctx, time.Millisecond)
	}
	sleep(ctx, moment)
}

func (r *run) somebodyLeads() bool {
	return slices.ContainsFunc(r.slots, func(s *slot) bool { return !s.leads().IsZero() })
}

// do does one thing to a broker.
func (s *slot) do(b *program.Broker, what act, length time.Duration) {
	switch what {
	case actKill:
		s.r.rec.Note(s.lane(), "SIGKILL pid %d", b.Pid())
		b.Signal(os.Kill)
		<-b.Done()
	case actTerm:
		s.mu.Lock()
		s.told = true
		s.mu.Unlock()
		s.r.rec.Note(s.lane(), "SIGTERM pid %d", b.Pid())
		b.Signal(syscall.SIGTERM)
	case actStop:
		s.r.counts.add("SIGSTOP", 1)
		s.r.rec.Note(s.lane(), "SIGSTOP pid %d for %v", b.Pid(), length.Round(time.Millisecond))
		b.Signal(syscall.SIGSTOP)
		s.resumeLater(b, length)
	case actBlock:
		if s.store != nil {
			s.r.rec.Note(s.lane(), "store out of reach for %v", length.Round(time.Millisecond))
			s.store.Block(length)
		}
	}
}

// resumeLater lets a broker that stands still go on.
func (s *slot) resumeLater(b *program.Broker, after time.Duration) {
	s.timers.Go(func() {
		select {
		case <-time.After(after):
		case <-b.Done():
		}
		b.Signal(syscall.SIGCONT)
		s.r.rec.Note(s.lane(), "SIGCONT pid %d", b.Pid())
	})
}

// pauseTime is how long a failpoint lets a broker stand still.
func (s *slot) pauseTime() time.Duration {
	return span(stream(uint64(time.Now().UnixNano()), 1), time.Millisecond, s.r.p.stopMax)
}

// pointsByChance are the failpoints with how likely each is: those that are hit all the time are hit late.
var pointsByChance = []struct {
	name string
	hits int // up to so many
}{
	{"start.listening", 1},
	{"start.folder", 1},
	{"start.store", 1},
	{"start.checked", 1},
	{"start.led", 1},
	{"start.announced", 1},
	{"put.meta.before", 1},
	{"put.meta.after", 1},
	{"put.seal.before", 2},
	{"put.seal.after", 2},
	{"put.data.before", 12},
	{"put.data.after", 12},
	{"put.snapshot.before", 2},
	{"put.snapshot.after", 2},
	{"get.before", 10},
	{"get.after", 10},
	{"list.before", 3},
	{"list.after", 3},
	{"delete.before", 2},
	{"delete.after", 2},
	{"role", 1},
	{"commit.before-answer", 12},
	{"commit.after-answer", 12},
	{"fenced.before-answer", 1},
	{"pack.built", 3},
	{"put.pack.before", 3},
	{"put.pack.after", 3},
	{"install.before", 3},
	{"install.after", 3},
	{"cache.write.before", 8},
	{"cache.write.after", 8},
	{"cache.rename.after", 8},
	{"disk.created", 12},
	{"disk.written", 12},
	{"disk.synced", 12},
	{"disk.moved", 12},
	{"disk.put", 12},
	{"disk.folder", 3},
	{"disk.deleted", 10},
	{"stop.begun", 1},
	{"stop.flushed", 1},
}

// failpoints draws what the next process is to meet: one place to die or stand still at, and perhaps one that holds a
// goroutine up.
func (s *slot) failpoints() string {
	if s.rng.Float64() >= s.r.p.failpoints {
		return ""
	}
	var text string
	draw := func(action string) {
		p := pointsByChance[s.rng.IntN(len(pointsByChance))]
		absent := "disk."
		if s.r.p.disk {
			absent = "cache."
		}
		for strings.HasPrefix(p.name, absent) {
			p = pointsByChance[s.rng.IntN(len(pointsByChance))]
		}
		text += fmt.Sprintf("%s=%s", p.name, fmt.Sprintf(action, 1+s.rng.IntN(p.hits)))
	}
	switch s.rng.IntN(4) {
	case 0:
		draw("stop:%d")
	case 1:
		draw("sleep:%d:" + span(s.rng, time.Millisecond, 300*time.Millisecond).String())
		text += ","
		draw("kill:%d")
	default:
		draw("kill:%d")
	}
	if s.rng.IntN(3) == 0 { // what has happened and is not known yet, or is known and has not happened
		text += fmt.Sprintf(",%s=slow:%d:%v", pick(s.rng, "put.data.after", "put.data.before", "put.seal.after", "get.after", "commit.before-answer"),
			1+s.rng.IntN(4), span(s.rng, time.Millisecond, 100*time.Millisecond))
	}
	return text
}

// sleep lets time pass, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
