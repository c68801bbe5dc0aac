package torture

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/mutants"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	mutantFlag     = flag.String("mutant", "", "run brokers with this mutant of test/mutants, or with each of them (all), or with some and only Kafka clients (kafka)")
	mutantTimeFlag = flag.Duration("mutant-time", time.Minute, "how long each is looked for")
)

// TestMutants runs real brokers with mutants of the core and the packer, and reports which the
// campaign detects. It cannot detect all: some break a rule that causes a loss only in a rare
// coincidence, which the simulator covers. The test fails if the campaign detects hardly any.
func TestMutants(t *testing.T) {
	if *mutantFlag == "" {
		t.Skip("-mutant is not given")
	}
	w := newShared(t, failing...)
	found := 0
	names := []string{*mutantFlag}
	draw, least := newPlan, 3
	switch *mutantFlag {
	case "all":
		names = mutantsOfTheCore(t)
	case "kafka":
		names, draw, least = kafkaMutants, kafkaPlan, 1
	}
	for _, name := range names {
		w.seb = mutated(t, name)
		began := time.Now()
		how, seed := "not found", uint64(1)
		for ; how == "not found" && time.Since(began) < *mutantTimeFlag; seed++ {
			how = w.finds(t, draw(seed, 10*time.Second))
		}
		if how != "not found" {
			found++
		}
		t.Logf("| %s | %s | %d | %v |", name, how, seed-1, time.Since(began).Round(time.Second))
	}
	t.Logf("%d of %d found", found, len(names))
	if found < len(names)/least {
		t.Errorf("%d of %d mutants found", found, len(names))
	}
}

// mutantsOfTheCore are those that need neither wrong clocks nor triggers.
func mutantsOfTheCore(t *testing.T) []string {
	t.Helper()
	all := must.Get(mutants.All())(t)
	var names []string
	for _, m := range all {
		if slices.ContainsFunc(m.Seeds, func(s mutants.Seeds) bool { return s.Kind == "default" || s.Kind == "losses" }) {
			names = append(names, m.Name)
		}
	}
	return names
}

// mutated builds the program with a mutant.
func mutated(t *testing.T, name string) string {
	t.Helper()
	m := must.Get(mutants.Named(name))(t)
	root := must.Get(testenv.Root())(t)
	dir := t.TempDir()
	overlay := must.Get(m.Overlay(root, dir))(t)
	path := must.Get(testenv.Build(dir, "-tags", "failpoints", "-overlay", overlay))(t)
	return path
}

// kafkaMutants are those that Kafka clients alone can detect: a retried batch is stored twice, an
// acknowledged record or offset is lost, a rejected record is stored.
var kafkaMutants = []string{"no-dedup", "ack-on-timeout", "offset-commit-acknowledged-early", "fenced-rejects-what-was-sent"}

// kafkaPlan returns a plan with only Kafka clients, in which some answers are lost.
func kafkaPlan(seed uint64, length time.Duration) *plan {
	p := newPlan(seed, length)
	p.clients = []kind{kafkaClient, kafkaClient, kafkaProducer, kafkaProducer, kafkaReader, kafkaFollower, kafkaGroup, kafkaRegister}
	p.exact, p.disk, p.slots, p.sessions = false, false, max(2, p.slots), 700*time.Millisecond
	p.store.Rates = faultproxy.Rates{faultproxy.Lost: 0.02, faultproxy.Late: 0.01, faultproxy.Stalled: 0.02}
	p.store.StallMax, p.store.LateMax = 2*time.Second, 2*time.Second
	p.wire.Rates = faultproxy.Rates{faultproxy.AnswerLost: 0.1, faultproxy.CutDown: 0.1, faultproxy.CutUp: 0.05}
	return p
}

// finds returns the violation that a run detects.
func (w *shared) finds(t *testing.T, p *plan) string {
	r, violations := must.Get2(w.try(t.Context(), p, func(*run) {}, func() bool { return false }))(t)
	defer r.remove(t)
	switch {
	case len(violations) > 0:
		return violations[0].Rule
	case len(r.faults) > 0:
		line, _, _ := strings.Cut(r.faults[0], "\n")
		return fmt.Sprintf("%.80s", line)
	}
	return "not found"
}
