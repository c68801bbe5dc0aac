package campaign

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/faultproxy"
	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/packer"
)

var (
	plantedFlag     = flag.String("planted", "", "plant this bug, or one after the other (all; kafka: some, and only clients of Kafka look), and see whether it is found")
	plantedTimeFlag = flag.Duration("planted-time", time.Minute, "how long each is looked for")
)

// TestPlanted plants the bugs of the simulator's list in real brokers, and says which the campaign finds from outside. Some
// it can not: they break a rule whose breach only a rare coincidence turns into a loss, which is what the simulator is for.
// It fails if it finds hardly any.
func TestPlanted(t *testing.T) {
	if *plantedFlag == "" {
		t.Skip("-planted is not given")
	}
	w := newWorld(t, mistaken)
	found := 0
	bugs := []string{*plantedFlag}
	draw, least := newPlan, 3
	switch *plantedFlag {
	case "all":
		bugs = append(logcore.PlantedBugs(), packer.PlantedBugs()...)
	case "kafka":
		bugs, draw, least = kafkaBugs, kafkaPlan, 1
	}
	for _, bug := range bugs {
		w.env = []string{"SEB_PLANTED_BUG=" + bug}
		began := time.Now()
		how, seed := "not found", uint64(1)
		for ; how == "not found" && time.Since(began) < *plantedTimeFlag; seed++ {
			how = w.finds(t, draw(seed, 10*time.Second))
		}
		if how != "not found" {
			found++
		}
		t.Logf("| %s | %s | %d | %v |", bug, how, seed-1, time.Since(began).Round(time.Second))
	}
	t.Logf("%d of %d found", found, len(bugs))
	if found < len(bugs)/least {
		t.Errorf("%d of %d planted bugs found", found, len(bugs))
	}
}

// kafkaBugs show to clients of Kafka alone: a batch that is sent again is there twice, an acknowledged record or offset is lost, a record that
// was refused is there.
var kafkaBugs = []string{
	"no dedup", "ack on timeout", "offset commit acknowledged before it is durable", "fenced answers rejected for what was sent",
}

// kafkaPlan is a plan in which all clients are of Kafka, and some answers are lost.
func kafkaPlan(seed uint64, length time.Duration) *plan {
	p := newPlan(seed, length)
	p.clients = []kind{kafkaClient, kafkaClient, kafkaProducer, kafkaProducer, kafkaReader, kafkaFollower, kafkaGroup, kafkaRegister}
	p.exact, p.disk, p.slots, p.sessions = false, false, max(2, p.slots), 700*time.Millisecond
	p.store.Rates = faultproxy.Rates{faultproxy.Lost: 0.02, faultproxy.Late: 0.01, faultproxy.Stalled: 0.02}
	p.store.StallMax, p.store.LateMax = 2*time.Second, 2*time.Second
	p.wire.Rates = faultproxy.Rates{faultproxy.AnswerLost: 0.1, faultproxy.CutDown: 0.1, faultproxy.CutUp: 0.05}
	return p
}

// finds says by what a run shows that something is wrong.
func (w *world) finds(t *testing.T, p *plan) string {
	r, violations, err := w.try(t.Context(), p, func(*run) {}, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
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
