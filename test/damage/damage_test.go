package damage_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	all   = flag.Bool("all", false, "every case, not a sample")
	pairs = flag.Int("pairs", 0, "pairs of damages for each bucket")
	only  = flag.String("only", "", "only cases whose name matches a regular expression")
)

// table counts outcomes, and keeps examples of failures.
type table struct {
	mu       sync.Mutex // guards the fields below
	counts   map[string]int
	failures map[string][]string // details by class
	done     int
}

func newTable() *table { return &table{counts: map[string]int{}, failures: map[string][]string{}} }

func (tb *table) add(c *damageCase, role string, v verdict) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.counts[fmt.Sprintf("%-28s %-20s %-14s %s", role, c.kind, c.damage, cmp.Or(v.wrong, v.outcome))]++
	tb.counts[v.outcome]++
	if v.wrong != "" {
		class := fmt.Sprintf("%s: %s", role, v.wrong)
		tb.failures[class] = append(tb.failures[class], c.title()+": "+v.detail)
	}
}

// TestDamagedFolders damages every file and folder of buckets with journals, and starts every role on
// each.
func TestDamagedFolders(t *testing.T) {
	t.Parallel()
	var cases []*damageCase
	for _, b := range newBuckets(t) {
		singles := b.cases()
		cases = append(cases, &damageCase{b, "none", "none", "undamaged", func(*image) {}})
		cases = append(cases, singles...)
		cases = append(cases, b.pairs(singles, *pairs)...)
	}
	total := len(cases)
	cases = sample(t, cases)
	t.Logf("%d of %d cases", len(cases), total)
	tb := newTable()
	tb.run(t, cases)
	tb.report(t)
	if *only != "" {
		return
	}
	for outcome, sentence := range exceptions {
		if tb.counts[outcome] == 0 {
			t.Errorf("the exception %q never applies", sentence)
		}
	}
}

// run tries cases concurrently.
func (tb *table) run(t *testing.T, cases []*damageCase) {
	work := make(chan *damageCase)
	var workers sync.WaitGroup
	for range 32 { // a start mostly waits
		workers.Go(func() {
			for c := range work {
				c.try(t, tb)
				tb.progress(t, len(cases))
			}
		})
	}
	for _, c := range cases {
		work <- c
	}
	close(work)
	workers.Wait()
}

// TestUndamagedFolders: a bucket whose broker was killed at any moment, or that was copied while no
// request was under way, is served whole, and fsck finds nothing.
func TestUndamagedFolders(t *testing.T) {
	t.Parallel()
	var cases []*damageCase
	newBuilder(t, func(w *builder) {
		b := &bucket{name: fmt.Sprintf("moment %d", len(cases)), image: readImage(t, w.dir), truth: w.now(), newest: newestEpoch}
		cases = append(cases, &damageCase{b, "none", "none", "undamaged", func(*image) {}})
	})
	if every := sebtest.Runs(3, 9); !*all {
		n := 0
		cases = slices.DeleteFunc(cases, func(*damageCase) bool { n++; return n%every != 0 })
	}
	tb := newTable()
	tb.run(t, cases)
	tb.report(t)
	if tb.counts[whole] != len(cases)*len(roles) {
		t.Errorf("%d moments: served whole %d times, want by each of %d roles", len(cases), tb.counts[whole], len(roles))
	}
}

// sample selects the cases of this run: a part of each kind of damage of each kind of file.
func sample(t *testing.T, cases []*damageCase) []*damageCase {
	if *only != "" {
		name := must.Get(regexp.Compile(*only))(t)
		return slices.DeleteFunc(cases, func(c *damageCase) bool { return !name.MatchString(c.title()) })
	}
	if *all {
		return cases
	}
	slices.SortStableFunc(cases, func(a, b *damageCase) int { return cmp.Compare(a.hash(), b.hash()) })
	taken := map[string]int{}
	return slices.DeleteFunc(cases, func(c *damageCase) bool {
		group := c.kind + c.damage
		taken[group]++
		return taken[group] > sebtest.Runs(2, 1) && c.damage != removed
	})
}

func (tb *table) progress(t *testing.T, total int) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.done++; tb.done%250 == 0 {
		t.Logf("%d of %d cases, %d classes of failures", tb.done, total, len(tb.failures))
	}
}

// try starts every role on a damaged bucket.
func (c *damageCase) try(t testing.TB, tb *table) {
	img := c.damaged()
	intact := img.equal(c.bucket.image)
	dir := folder(t)
	img.write(t, dir)
	damages, err := check(t, dir)
	tb.add(c, "fsck", judgeCheck(damages, err, intact))
	for i, as := range roles {
		if i > 0 { // fsck has written nothing
			must.NoError(t, os.RemoveAll(dir))
			img.write(t, dir)
		}
		r := c.bucket.start(t, dir, as)
		v := c.judge(img, as, r)
		switch {
		case intact && v.outcome != whole && v.wrong == "":
			v = fault("an undamaged bucket is not served whole", "%s: %v", v.outcome, r.err)
		case v.wrong == "" && v.outcome != whole && v.outcome != lastEnd && !as.seen && err == nil && len(damages) == 0:
			tb.add(c, "fsck", fault("a "+as.name+" names damage, and fsck finds none", "%s: %v", v.outcome, r.err))
		case v.wrong != "" && err == nil && len(damages) == 0:
			v.detail += "; fsck finds nothing"
		}
		tb.add(c, as.name, v)
		if v.outcome == refused && as.name != follower {
			tb.add(c, as.name+", command", c.recovered(t, dir, img, as, r.err))
		}
	}
	must.NoError(t, os.RemoveAll(filepath.Dir(dir)))
}

func judgeCheck(damages []fsck.Finding, err error, intact bool) verdict {
	switch {
	case errors.Is(err, errStuck):
		return fault("damage is taken for a store that does not answer", "%v", err)
	case err != nil && len(damages) == 0 && !isCorrupt(err):
		return fault("ends without the name of the damage", "%v", err)
	case intact && (err != nil || len(damages) > 0):
		return fault("finds damage in an undamaged bucket", "%v %v", damages, err)
	case err != nil || len(damages) > 0:
		return verdict{outcome: "finds damage"}
	}
	return verdict{outcome: "finds nothing"}
}

// folder makes an empty folder, in memory if possible. The caller removes it.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "seb-damage-")
	if err != nil {
		dir = must.Get(os.MkdirTemp("", "seb-damage-"))(t)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "bucket")
}

// report prints the table, and fails once for each class of failures.
func (tb *table) report(t *testing.T) {
	for _, row := range slices.Sorted(maps.Keys(tb.counts)) {
		t.Logf("%6d %s", tb.counts[row], row)
	}
	const shown = 4
	for _, class := range slices.Sorted(maps.Keys(tb.failures)) {
		list := tb.failures[class]
		slices.Sort(list)
		t.Errorf("%d times %s:\n  %s", len(list), class, strings.Join(list[:min(shown, len(list))], "\n  "))
	}
}

// TestExceptionsAreDocumented: each exception is a sentence of the protocol page.
func TestExceptionsAreDocumented(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/reference/protocol.md"))(t))
	_, page, _ = strings.Cut(page, "Seb does not survive")
	page = strings.Join(strings.Fields(page), " ")
	for _, sentence := range exceptions {
		if !strings.Contains(page, sentence) {
			t.Errorf("docs/reference/protocol.md does not say after \"Seb does not survive\": %q", sentence)
		}
	}
}
