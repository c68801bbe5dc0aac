package model_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/model"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestInvariantsHold(t *testing.T) {
	for mode, seeds := range map[model.Mode]int{model.Calm: 48, model.Sleepy: 48, model.Chaos: 32, model.Loopback: 48} {
		seeds = sebtest.Runs(seeds, seeds/8)
		t.Run(string(mode), func(t *testing.T) {
			var total model.Stat
			for n := range seeds {
				cfg := model.Config{Mode: mode, Seed: uint64(n + 1)}
				r := model.Run(cfg)
				total.Add(r.Stat)
				check.Equalf(t, r.Violation, "", "repeat: go run ./test/cmd/model -mode %s -seed %d", mode, cfg.Seed)
			}
			if total.Leads < seeds || total.Acked < seeds {
				t.Errorf("%d runs: %d takeovers and %d acknowledged calls, want at least one of each in a run", seeds, total.Leads, total.Acked)
			}
		})
	}
}

func TestInvariantsHoldWithDefectiveProcesses(t *testing.T) {
	for n := range sebtest.Runs(30, 10) {
		cfg := model.Config{Mode: model.Sleepy, Seed: uint64(n + 1), Bugs: 1 << model.FeedEarly}
		check.Equalf(t, model.Run(cfg).Violation, "", "a leader that feeds early, seed %d", cfg.Seed)
	}
}

func TestInvariantsHoldInDirectedSchedules(t *testing.T) {
	for _, i := range model.All {
		for _, c := range i.Trials {
			if c.Schedule == "" {
				continue
			}
			c.Seed = 1
			check.Equalf(t, model.Run(c).Violation, "", "repeat: go run ./test/cmd/model -schedule %s -seed 1", c.Schedule)
		}
	}
}

// TestEachRuleIsNeeded repeats the runs of RULES.md.
func TestEachRuleIsNeeded(t *testing.T) {
	text := must.Get(os.ReadFile("RULES.md"))(t)
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) >= 4 {
			rows[cells[1]] = cells
		}
	}
	for _, i := range model.All {
		row := rows[i.Name]
		if row == nil || row[2] != i.Text {
			t.Errorf("rule %s is not in RULES.md: run go run ./test/cmd/model -mode rules", i.Name)
			continue
		}
		seed, err := strconv.ParseUint(strings.TrimSuffix(row[len(row)-1], " |"), 10, 64)
		if err != nil {
			t.Errorf("rule %s breaks nothing in RULES.md: %v", i.Name, err)
			continue
		}
		broken := ""
		for _, c := range i.Trials {
			if model.Where(c) == row[4] {
				c.Seed, c.Without = seed, model.Without(i.Rule)
				broken = model.Run(c).Violation
			}
		}
		if broken != row[3] {
			t.Errorf("without rule %s, %s, seed %d: got %q, RULES.md says %q", i.Name, row[4], seed, broken, row[3])
		}
	}
}
