package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// scatter posts events of random entities, some milliseconds apart.
func scatter(b *fakeBroker, r *rand.Rand, events, entities int) {
	for range events {
		e := ev(fmt.Sprint("user", r.IntN(entities)), string("abc"[r.IntN(3)]))
		if r.IntN(4) == 0 {
			e.ID = fmt.Sprint(r.IntN(events))
		}
		b.post(e)
		b.advance(time.Duration(r.IntN(4)) * time.Millisecond)
	}
}

// TestDryRunCountsARange compares the counts in random ranges with the firings of the brute force.
func TestDryRunCountsARange(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	b := newLog().broker(true)
	s := stepBy(t, b, "", nil)
	_ = s.definition("x", "a", nil) // creates the topic
	scatter(b, r, 800, 12)
	end := b.wall / 1000
	for _, expr := range []string{"a", "a THEN b", "a THEN (NOT b WITHIN 40 ms)", "count(a) >= 3", "a AND NOT c"} {
		for _, fire := range []rule.Fire{rule.Once, rule.OnEdge, rule.OnReset} {
			d := s.definition("x", expr, func(d *rule.Definition) { d.Fire, d.Backfill = fire, rule.Replay })
			d.At, d.From = math.MinInt64, nil
			for range sebtest.Runs(4, 1) {
				since, until := start+r.Int64N(end-start), start+1+r.Int64N(end-start)
				if r.IntN(4) == 0 {
					since = 0
				}
				if r.IntN(4) == 0 {
					until = 0
				}
				compareRange(t, s, d, since, until)
			}
		}
	}
}

// compareRange compares a dry run of a range with the brute force.
func compareRange(t *testing.T, s *stepped, d rule.Definition, since, until int64) {
	t.Helper()
	run := must.Get((&Engine{opt: s.opt}).DryRun(t.Context(), d, DryRunOptions{TrialOptions: rule.TrialOptions{Limit: 1 << 20, Since: since, Until: until}}))(t)
	p, _ := s.b.Position(topicID(t, s.b, "events"))
	last := p.Complete()
	if until != 0 {
		last = min(last, until-1)
	}
	firings, days := int64(0), int64(0)
	fired := map[string]bool{}
	var at []int64
	for _, x := range s.b.expect(t, d, last) {
		if x.state != rule.Suppressed && x.at >= since && (x.at < until || until == 0) {
			firings++
			fired[x.entity] = true
			at = append(at, x.at)
		}
	}
	for _, n := range run.Days {
		days += n
	}
	events := int64(0)
	for part := range uint32(2) {
		for _, list := range s.b.histories(t, part) {
			for i := range list {
				events += one(until == 0 || list[i].at < until)
			}
		}
	}
	check.Equalf(t, run.Events, events, "until %d: events", until)
	slices.Sort(at)
	at = at[max(0, len(at)-20):]
	var got []int64
	for _, x := range run.Samples {
		got = append(got, x.At)
	}
	if run.Firings != firings || days != firings || run.Fired != len(fired) || !slices.Equal(got, at) || run.Complete != last {
		t.Errorf("%s, fire %s, since %d until %d: %d firings (%d in days) of %d entities until %d, the last at %v; want %d of %d until %d, the last at %v",
			d.Text, d.Fire, since, until, run.Firings, days, run.Fired, run.Complete, got, firings, len(fired), last, at)
	}
	if e := run.Estimate(); e.Firings != (rule.Estimate{Value: firings, Low: firings, High: firings}) {
		t.Errorf("without a sample: %+v, want %d exactly", e.Firings, firings)
	}
	if want := min(5, run.Entities-run.Fired); len(run.Silent) != want {
		t.Errorf("%d entities that do not fire, want %d of %d", len(run.Silent), want, run.Entities-run.Fired)
	}
	for _, x := range run.Silent {
		if fired[x.Entity] {
			t.Errorf("%s fires", x.Entity)
		}
	}
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// skipped is a log in which a recovery has skipped the first offsets of each partition.
type skipped struct {
	Log
	first int64
}

func (l skipped) Read(ctx context.Context, topic record.ID, part uint32, offset int64, bytesMax int) (views.Batches, error) {
	b, err := l.Log.Read(ctx, topic, part, max(offset, l.first), bytesMax)
	b.From = max(offset, l.first)
	return b, err
}

// TestDryRunOfASample: the samples with their complement are the whole, and each is the same again.
func TestDryRunOfASample(t *testing.T) {
	b := newLog().broker(true)
	s := stepBy(t, b, "", nil)
	d := s.definition("x", "a", func(d *rule.Definition) { d.Fire = rule.OnEdge })
	for i := range 400 {
		b.post(ev(fmt.Sprint("user", i), "a"), ev(fmt.Sprint("user", i), "b"))
	}
	run := func(sample int) *DryRun {
		run := must.Get((&Engine{opt: s.opt}).DryRun(t.Context(), d, DryRunOptions{TrialOptions: rule.TrialOptions{Limit: 1 << 20, Sample: sample}}))(t)
		check.Equalf(t, run.Seen(), 400, "sample %d: entities seen", sample)
		return run
	}
	for _, sample := range []int{2, 16} {
		x, again := run(sample), run(sample)
		e := x.Estimate()
		if x.Firings != again.Firings || x.Entities != again.Entities || x.Firings == 0 || x.Events != 2*x.Firings || e.Firings.Value != x.Firings*int64(sample) ||
			e.Firings.Low > 400 || e.Firings.High < 400 || e.Fired != e.Firings || e.Entities != e.Firings {
			t.Errorf("sample %d: %d firings, %d entities, %d events, again %d: %+v", sample, x.Firings, x.Entities, x.Events, again.Firings, e)
		}
	}
}

func TestDryRunTellsWhatIsMissing(t *testing.T) {
	b := newLog().broker(true)
	s := stepBy(t, b, "", nil)
	d := s.definition("x", "a", nil)
	dry := func(o DryRunOptions) *DryRun {
		t.Helper()
		o.Limit = 1 << 20
		run := must.Get((&Engine{opt: s.opt}).DryRun(t.Context(), d, o))(t)
		return run
	}
	for i := range 1000 {
		b.post(ev(fmt.Sprint("user", i), "a"))
		b.advance(time.Millisecond)
	}
	s.append("events", record.Record{Key: []byte("k"), Value: []byte("no event")})
	if run := dry(DryRunOptions{}); run.Known != 0 || run.Skipped != 1 || run.Events != 1000 || run.Firings != 1000 {
		t.Errorf("known from %d, %d skipped, %d events", run.Known, run.Skipped, run.Events)
	}
	o := s.opt
	o.Log = skipped{o.Log, 10}
	if run, err := (&Engine{opt: o}).DryRun(t.Context(), d, DryRunOptions{TrialOptions: rule.TrialOptions{Limit: 1 << 20}}); err != nil || run.Events != 980 || run.Known == 0 {
		t.Errorf("after a recovery: %+v, %v", run, err)
	}
	b.trim("events", 1, 100)
	first := func() int64 { return s.b.topicLocked(topicID(t, b, "events")).parts[1].batches[100].MaxTimestamp() }
	if run := dry(DryRunOptions{}); run.Known != first() || run.Events != 900 || run.History[1] != 100 {
		t.Errorf("known from %d, want %d; %d events, history %v", run.Known, first(), run.Events, run.History)
	}
	// A trim while the dry run reads the other partition.
	trim := func(p DryRunProgress) error {
		if p.Read > 0 {
			b.trim("events", 1, 300)
		}
		return nil
	}
	if run := dry(DryRunOptions{Progress: trim}); run.Events != 700 || run.Known == 0 || run.History[1] != 100 {
		t.Errorf("known from %d; %d events, history %v", run.Known, run.Events, run.History)
	}
	p, _ := b.Position(topicID(t, b, "events"))
	b.trim("events", 1, p.Topics[0][1].Next)
	if run := dry(DryRunOptions{}); run.Known != p.Complete() {
		t.Errorf("known from %d, want %d: a partition has no events", run.Known, p.Complete())
	}
}

func TestDryRunProgressAndCancel(t *testing.T) {
	b := newLog().broker(true)
	s := stepBy(t, b, "", nil)
	d := s.definition("x", "a", nil)
	fill(t, s, 20_000, 500, 3)
	run := func(ctx context.Context, progress func(DryRunProgress) error) error {
		o := DryRunOptions{TrialOptions: rule.TrialOptions{Limit: 1 << 20}, Progress: progress}
		_, err := (&Engine{opt: s.opt}).DryRun(ctx, d, o)
		return err
	}
	var list []DryRunProgress
	must.NoError(t, run(t.Context(), func(p DryRunProgress) error { list = append(list, p); return nil }))
	if n := len(list); n < 300 || list[0] != (DryRunProgress{0, 20_000}) || list[n-1] != (DryRunProgress{20_000, 20_000}) {
		t.Errorf("%d reports from %+v to %+v", n, list[0], list[n-1])
	}
	if !slices.IsSortedFunc(list, func(a, b DryRunProgress) int { return int(a.Read - b.Read) }) {
		t.Error("the progress goes back")
	}
	ctx, cancel := context.WithCancel(t.Context())
	last := int64(0)
	err := run(ctx, func(p DryRunProgress) error {
		if last = p.Read; p.Read > 1000 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || last > 1000+2*dryPoll {
		t.Errorf("canceled after 1,000 events, ended after %d: %v", last, err)
	}
	check.ErrorIs(t, run(t.Context(), func(DryRunProgress) error { return errFault }), errFault)
}

// TestDryRunPauses: after the first 100 ms of work a dry run pauses as long as it works, and the time
// in which it waits for the log does not count.
func TestDryRunPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{began: time.Now()}
		work := func(d time.Duration) (paused time.Duration) {
			time.Sleep(d)
			before := time.Now()
			p.pace()
			return time.Since(before)
		}
		for range 20 {
			if d := work(5 * time.Millisecond); d != 0 {
				t.Fatalf("paused for %s in the first 100 ms", d)
			}
		}
		asked := time.Now()
		time.Sleep(time.Second)
		p.waited(time.Since(asked))
		for work1, want := range map[time.Duration]time.Duration{6: 6, 20: 20, 900: 50} {
			if d := work(work1 * time.Millisecond); d != want*time.Millisecond {
				t.Errorf("paused for %s after %s of work, want %s", d, work1*time.Millisecond, want*time.Millisecond)
			}
		}
		if d := work(4 * time.Millisecond); d != 0 {
			t.Errorf("paused for %s after 4 ms of work", d)
		}
	})
}
