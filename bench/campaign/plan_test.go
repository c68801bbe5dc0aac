package campaign

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"

	_ "github.com/sebbroker/seb/bench/drivers" // registers the drivers
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func newPlan(t *testing.T, s Settings) *Plan {
	t.Helper()
	p := must.Get(NewPlan(s))(t)
	return p
}

func TestPlanFitsItsBudget(t *testing.T) {
	p := newPlan(t, Settings{})
	if p.Estimate() > budgetDefault || p.Settings.Duration < durationLeast || p.Settings.Repeats != repeatsDefault {
		t.Errorf("%v of %v, %d repeats", p.Estimate(), p.Settings.Duration, p.Settings.Repeats)
	}
	for _, step := range p.Steps() {
		if d := time.Duration(step.Workload.Duration); d != p.Settings.Duration && (step.Workload.Name != "article-e" || d != largeLeast) {
			t.Errorf("%s for %v", step.name(), d)
		}
	}
	check.Equalf(t, newPlan(t, Settings{Budget: 2 * time.Hour}).Settings.Duration, durationDefault, "in two hours: runs of")
	check.Equalf(t, newPlan(t, Settings{Budget: time.Minute}).Settings.Duration, durationLeast, "in a minute: runs of")
	if given := newPlan(t, Settings{Duration: 3 * time.Second, Repeats: 1, Budget: time.Second}); given.Settings.Duration != 3*time.Second || given.Name() != "3s-x1" {
		t.Errorf("what is asked for: %+v", given.Settings)
	}
	for _, s := range []Settings{{Repeats: -1}, {Repeats: 1000}, {Duration: -1}, {Budget: -1}, {Long: true, Flushed: true}} {
		check.ErrorIsf(t, check.Err(NewPlan(s)), errSettings, "%+v: error", s)
	}
}

func TestStepsAreValidAndUnique(t *testing.T) {
	kinds := peers.Kinds()
	for _, s := range []Settings{{}, {Long: true}, {Flushed: true}, {Duration: time.Second, Repeats: 2}} {
		names := map[string]bool{}
		for _, step := range newPlan(t, s).Steps() {
			if names[step.name()] {
				t.Errorf("two steps have the file %s", step.name())
			}
			names[step.name()] = true
			if err := step.Workload.Validate(); err != nil {
				t.Errorf("%s: %v", step.name(), err)
			}
			if step.System.peer != "" && !slices.ContainsFunc(kinds, func(k peers.Kind) bool { return k.Name == step.System.peer }) {
				t.Errorf("%s: no peer %s", step.name(), step.System.peer)
			}
			if !slices.ContainsFunc(sut.Drivers(), func(d sut.Driver) bool { return d.Name == step.System.driver }) {
				t.Errorf("%s: no driver %s", step.name(), step.System.driver)
			}
		}
	}
}

// TestRepeatsAlternate: between two repeats of a step are at least half of the other steps.
func TestRepeatsAlternate(t *testing.T) {
	p := newPlan(t, Settings{})
	last, seen := map[string]int{}, map[string]int{}
	for i, step := range p.Steps() {
		if step.Part != PartRuns {
			continue
		}
		key := step.System.label + step.Workload.Name
		if before, ok := last[key]; ok && i-before < len(systems)*len(workload.Presets())/2 {
			t.Errorf("%s again after %d steps", step.name(), i-before)
		}
		last[key] = i
		seen[key]++
	}
	check.Equalf(t, len(seen), len(systems)*len(workload.Presets()), "kinds of runs")
	for key, n := range seen {
		want := repeatsDefault
		if strings.HasPrefix(key, "nothing") {
			want = 1
		}
		if n != want {
			t.Errorf("%s: %d times", key, n)
		}
	}
}

// TestFlushedRounds: each round has each system once, and starts with another one.
func TestFlushedRounds(t *testing.T) {
	p := newPlan(t, Settings{Flushed: true})
	var rounds [][]string
	for i := range p.sessions {
		s := &p.sessions[i]
		n := s.steps[0].Repeat
		if s.steps[0].Part != PartFlushed {
			continue
		}
		if len(rounds) < n {
			rounds = append(rounds, nil)
		}
		rounds[n-1] = append(rounds[n-1], s.steps[0].Label())
	}
	check.Equalf(t, len(rounds), repeatsMore, "rounds")
	starts := map[string]bool{}
	for n, round := range rounds {
		starts[round[0]] = true
		slices.Sort(round)
		if want := slices.Sorted(slices.Values(flushed)); !slices.Equal(round, want) {
			t.Errorf("round %d has %q, want %q", n+1, round, want)
		}
	}
	check.Equalf(t, len(starts), repeatsMore, "systems that start a round")
}

func TestChoosing(t *testing.T) {
	p := newPlan(t, Settings{})
	for _, c := range []struct {
		only, runs, parts []string
		systems, steps    int
	}{
		{[]string{"kafka"}, nil, nil, 2, 2 * 5 * 3},
		{[]string{"Kafka flushed", "redis-memory"}, []string{"a", "article-d"}, []string{PartRuns}, 3, 3 * 2 * 3},
		{[]string{"SEB"}, []string{"b"}, []string{PartWaits}, 10, 10},
		{nil, []string{"b"}, []string{PartLoops}, 2, 4},
		{nil, nil, nil, 16 + 10 + 4, 14*5*3 + 2*5 + 10 + 4 + 4},
	} {
		chosen := must.Get(p.Choose(c.only, c.runs, c.parts))(t)
		found := map[string]bool{}
		for _, step := range chosen.Steps() {
			found[step.Label()] = true
		}
		if len(found) != c.systems || len(chosen.Steps()) != c.steps {
			t.Errorf("%q, %q, %q: %d systems, %d steps, want %d and %d", c.only, c.runs, c.parts, len(found), len(chosen.Steps()), c.systems, c.steps)
		}
	}
	check.ErrorContains(t, check.Err(p.Choose([]string{"abacus"}, nil, nil)), "RabbitMQ quorum")
	long := newPlan(t, Settings{Long: true})
	for _, step := range long.Steps() {
		family, _, _ := strings.Cut(step.System.peer, "-")
		if !slices.Contains(longPeers, family) || time.Duration(step.Workload.Duration) != durationLong || step.Repeat > repeatsMore {
			t.Errorf("a long campaign does %s for %v", step.name(), step.Workload.Duration)
		}
	}
}

// TestRequests: five requests of Seb's driver take a batch wait; without one it has one in flight, and
// subscribers receive small messages as events.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		inflight int
		pace     time.Duration
		follow   string
		bytes    int
		system   system
	}{
		{1, 0, "sse", 1 << 10, system{peer: "seb-fsync"}},
		{1, 0, "poll", 1 << 20, system{peer: "seb-fsync"}},
		{5, 2 * time.Millisecond, "poll", 1 << 10, system{peer: "seb-memory"}},
		{5, 51 * time.Millisecond, "poll", 1 << 10, system{peer: "seb-s3-follower"}},
		{5, 21 * time.Millisecond, "poll", 1 << 10, system{peer: "seb-s3", wait: 100 * time.Millisecond}},
		{5, 2 * time.Millisecond, "poll", 1 << 10, system{peer: "seb-fsync", wait: time.Millisecond}},
	} {
		step := &Step{System: c.system, Workload: workload.Workload{Size: workload.FixedSize(c.bytes)}}
		inflight, pace := requestsOf(step)
		if inflight != c.inflight || pace != c.pace {
			t.Errorf("%+v: %d requests every %v, want %d every %v", c.system, inflight, pace, c.inflight, c.pace)
		}
		check.Equalf(t, followOf(step, pace), c.follow, "%+v, messages of %d bytes: subscribers follow by", c.system, c.bytes)
	}
}
