package torture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

// point is a failpoint in a plan.
type point struct {
	name string
	// It fails at a random one of this many hits, because frequent points should fail late.
	hits  int
	short bool // it needs short intervals and brokers that live long enough
}

var points = []point{
	{"start.listening", 1, false},
	{"start.folder", 1, false},
	{"start.store", 1, false},
	{"start.checked", 1, false},
	{"start.led", 1, false},
	{"start.announced", 1, false},
	{"put.meta.before", 1, false},
	{"put.meta.after", 1, false},
	{"put.seal.before", 2, false},
	{"put.seal.after", 2, false},
	{"put.data.before", 12, false},
	{"put.data.after", 12, false},
	{"put.snapshot.before", 1, true},
	{"put.snapshot.after", 1, true},
	{"get.before", 10, false},
	{"get.after", 10, false},
	{"list.before", 3, false},
	{"list.after", 3, false},
	{"delete.before", 1, true},
	{"delete.after", 1, true},
	{"role", 1, false},
	{"commit.before-answer", 12, false},
	{"commit.after-answer", 12, false},
	{"fenced.before-answer", 1, false},
	{"pack.built", 3, true},
	{"put.pack.before", 3, true},
	{"put.pack.after", 3, true},
	{"install.before", 3, true},
	{"install.after", 3, true},
	{"compacted.before", 1, true},
	{"compacted.after", 1, true},
	{"cache.write.before", 8, false},
	{"cache.write.after", 8, false},
	{"cache.rename.after", 8, false},
	{"disk.created", 12, false},
	{"disk.written", 12, false},
	{"disk.synced", 12, false},
	{"disk.moved", 12, false},
	{"disk.put", 12, false},
	{"disk.folder", 3, false},
	{"disk.deleted", 3, true},
	{"disk.stage.created", 3, true},
	{"disk.stage.written", 3, true},
	{"disk.stage.synced", 3, true},
	{"journal.claimed", 1, false},
	{"journal.folder", 1, false},
	{"journal.prepared", 3, false},
	{"journal.written", 12, false},
	{"journal.synced", 12, false},
	{"journal.looked", 12, false},
	{"journal.recorded", 12, false},
	{"journal.decided", 12, false},
	{"journal.left", 2, true},
	{"journal.next", 2, true},
	{"journal.marked", 1, false},
	{"journal.ended", 1, false},
	{"journal.gone", 2, true},
	{"journal.removed", 2, true},
	{"stop.begun", 1, false},
	{"stop.flushed", 1, false},
}

// reachable reports whether a run can reach a failpoint.
func (p *plan) reachable(where point) bool {
	switch part, _, _ := strings.Cut(where.name, "."); part {
	case "cache":
		return !p.disk
	case "disk":
		return p.disk
	case "journal":
		return p.journal
	}
	return true
}

// aim gives most runs one failpoint at which brokers are killed repeatedly, in turn, so that a
// campaign of some hundred runs covers all. Runs on a folder use those of the folder, runs on S3
// the others.
func (p *plan) aim(seed uint64) {
	var mine []point
	for _, where := range points {
		folder := strings.HasPrefix(where.name, "disk.") || strings.HasPrefix(where.name, "journal.")
		if p.disk == folder && (folder || p.reachable(where)) {
			mine = append(mine, where)
		}
	}
	turn := seed / 3
	if !p.disk {
		turn = seed/3*2 + seed%3
	}
	turn += turn / uint64(len(mine)) // other properties of a plan repeat with the seed too
	p.focus = mine[turn%uint64(len(mine))]
}

// The share of starts that end at the plan's own failpoint: higher if few starts reach it.
const (
	focusShare      = 0.3
	focusShareShort = 0.7
)

// failpoints draws the failpoints of the next process: one to end or pause at, and possibly one
// that delays a goroutine.
func (s *slot) failpoints(first bool) string {
	share := focusShare
	if s.r.p.focus.short {
		share = focusShareShort
	}
	if s.r.p.focus.name != "" && (first || s.rng.Float64() < share) {
		action := "kill"
		// Another process takes over while the owner of a journal is stopped on the way.
		if strings.HasPrefix(s.r.p.focus.name, "journal.") && s.r.p.slots > 1 && s.rng.IntN(3) == 0 {
			action = "stop"
		}
		return fmt.Sprintf("%s=%s:%d", s.r.p.focus.name, action, 1+s.rng.IntN(s.r.p.focus.hits))
	}
	if s.rng.Float64() >= s.r.p.failpoints {
		return ""
	}
	var text string
	draw := func(action string) {
		where := points[s.rng.IntN(len(points))]
		for !s.r.p.reachable(where) {
			where = points[s.rng.IntN(len(points))]
		}
		text += fmt.Sprintf("%s=%s", where.name, fmt.Sprintf(action, 1+s.rng.IntN(where.hits)))
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
	if s.rng.IntN(3) == 0 { // an effect without its notification, or the reverse
		text += fmt.Sprintf(",%s=slow:%d:%v", pick(s.rng, "put.data.after", "put.data.before", "put.seal.after", "get.after", "commit.before-answer"),
			1+s.rng.IntN(4), span(s.rng, time.Millisecond, 100*time.Millisecond))
	}
	return text
}

// missed lists failpoints that were never hit.
func missed(at map[string]int64) string {
	var none []string
	for _, name := range failpoint.Names {
		if at[name] == 0 {
			none = append(none, name)
		}
	}
	if len(none) == 0 {
		return fmt.Sprintf("at every one of %d", len(failpoint.Names))
	}
	return fmt.Sprintf("never at %d of %d: %s", len(none), len(failpoint.Names), strings.Join(none, ", "))
}

// TestPlans checks that a plan can reach every failpoint, and that 400 consecutive plans aim at
// each at least twice.
func TestPlans(t *testing.T) {
	var names []string
	for _, where := range points {
		names = append(names, where.name)
	}
	want := slices.Sorted(slices.Values(failpoint.Names))
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("plans have %q\nthere are  %q", names, want)
	}
	const runs = 400
	at := map[string]int64{}
	for seed := range uint64(runs) {
		at[newPlan(1000+seed, time.Second).focus.name]++
	}
	for _, name := range want {
		if at[name] < 2 {
			t.Errorf("of %d plans %d aim at %s", runs, at[name], name)
		}
	}
}
