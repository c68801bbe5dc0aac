package campaign

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/faultproxy"
	"github.com/sebbroker/seb/internal/history"
	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/program"
	"github.com/sebbroker/seb/internal/s3server"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "seed of the first run; 0 draws one, and without -time and -kills one seed is one run")
	timeFlag    = flag.Duration("time", 0, "how long to go on with fresh seeds")
	killsFlag   = flag.Int64("kills", 0, "go on until so many brokers were killed")
	lengthFlag  = flag.Duration("length", 20*time.Second, "how long the chaos of one run lasts")
	historyFlag = flag.String("history", "", "judge this history again")
	keepFlag    = flag.String("keep", "", "folder for what is kept of a faulty run; default: a temporary one")
)

const (
	// shortLength is that of the two runs that are part of every test.
	shortLength = 4 * time.Second
	// exactTime bounds the search for an order of operations, for each partition.
	exactTime = 20 * time.Second
)

// totals are those of all runs.
type totals struct {
	runs, exact int
	undecided   int
	checked     int
	stats       history.Stats
	counts      map[string]int64
	store, wire map[faultproxy.Kind]int64
	leads       []time.Duration
}

func TestTorture(t *testing.T) {
	w := newWorld(t, failing)
	sum := &totals{counts: map[string]int64{}, store: map[faultproxy.Kind]int64{}, wire: map[faultproxy.Kind]int64{}}
	began := time.Now()
	seed, length := *seedFlag, *lengthFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	more := func() bool { return sum.runs == 0 }
	switch {
	case *timeFlag > 0 || *killsFlag > 0:
		more = func() bool {
			return (*timeFlag == 0 || time.Since(began) < *timeFlag) && (*killsFlag == 0 || sum.counts[string(actKill)] < *killsFlag)
		}
	case *seedFlag == 0:
		// One run on the server, one on a folder.
		seed, length = seed/3*3+1, shortLength
		more = func() bool { return sum.runs < 2 }
	}
	for ; more() && !t.Failed(); seed++ {
		w.one(t, newPlan(seed, length), sum, func(kills int64) bool {
			return *killsFlag > 0 && sum.counts[string(actKill)]+kills >= *killsFlag
		})
	}
	sum.print(t, time.Since(began))
}

// The ways in which the program is built.
var (
	delivered = &build{}
	failing   = &build{flags: []string{"-tags", "failpoints"}}
	mistaken  = &build{flags: []string{"-tags", "failpoints,plantedbugs"}}
)

// build is the program, built once for all tests.
type build struct {
	flags []string
	once  sync.Once
	dir   string
	path  string
	err   error
}

func built(t *testing.T, b *build) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "seb-torture-bin-*"); b.err == nil {
			b.path, b.err = program.Build(b.dir, b.flags...)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, b := range []*build{delivered, failing, mistaken} {
		if b.dir != "" {
			_ = os.RemoveAll(b.dir)
		}
	}
	os.Exit(code)
}

// newWorld starts the S3 server. The program is one of the builds.
func newWorld(t *testing.T, of *build) *world {
	t.Helper()
	dir := *keepFlag
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "seb-torture-*"); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		t.Skip("-short: no S3 server")
	}
	w := &world{keep: filepath.Join(dir, "runs"), seb: built(t, of), plain: built(t, delivered)}
	for _, sub := range []string{w.keep, filepath.Join(dir, "s3")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.server, err = s3server.Start(t.Context(), filepath.Join(dir, "s3")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.server.Stop(); err != nil {
			t.Error(err)
		}
		if !t.Failed() && *keepFlag == "" {
			_ = os.RemoveAll(dir)
		}
	})
	return w
}

// one carries out one plan and judges it.
func (w *world) one(t *testing.T, p *plan, sum *totals, enough func(kills int64) bool) {
	t.Helper()
	t.Logf("go test ./internal/torture/campaign -run '^TestTorture$' -v -seed=%d -length=%v\n%v", p.seed, p.length, p)
	r, violations := w.try(t, p, enough)
	sum.add(r)
	if p.exact && len(violations) == 0 && !r.failed.Load() {
		w.exact(t, r, sum)
	}
	t.Logf("%v: %s", time.Since(r.began).Round(time.Millisecond), r.summary())
	if len(violations) > 0 || len(r.faults) > 0 || t.Failed() {
		w.report(t, r, violations)
		return
	}
	r.remove(t)
}

// try carries out one plan.
func (w *world) try(t *testing.T, p *plan, enough func(kills int64) bool) (*run, []history.Violation) {
	t.Helper()
	r, err := newRun(w, p)
	if err != nil {
		t.Fatal(err)
	}
	r.carryOut(t.Context(), func() bool { return enough(r.counts.all()[string(actKill)]) })
	violations, err := r.rec.Finish(!r.failed.Load())
	if err != nil {
		t.Error(err)
	}
	r.close()
	return r, violations
}

// remove removes all that a run has made.
func (r *run) remove(t *testing.T) {
	t.Helper()
	for _, dir := range []string{r.dir, r.objects()} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// exact searches for an order of the operations of a short run.
func (w *world) exact(t *testing.T, r *run, sum *totals) {
	t.Helper()
	f, err := os.Open(r.historyFile())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := history.Linear(f, exactTime)
	if err != nil {
		t.Fatal(err)
	}
	sum.exact++
	sum.checked += l.Checked
	sum.undecided += l.Undecided
	for _, fault := range l.Faults {
		t.Error(fault)
	}
}

// report prints what is wrong and where it is kept.
func (w *world) report(t *testing.T, r *run, violations []history.Violation) {
	t.Helper()
	page := filepath.Join(r.dir, "page.html")
	open := func() (io.ReadCloser, error) { return os.Open(r.historyFile()) }
	if err := history.WritePage(page, fmt.Sprintf("seed %d", r.p.seed), open, violations); err != nil {
		t.Error(err)
	}
	_ = os.WriteFile(filepath.Join(r.dir, "plan.txt"), []byte(r.p.String()+"\n"), 0o600)
	if !r.p.disk {
		if out, err := exec.CommandContext(context.Background(), "cp", "-a", r.objects(), filepath.Join(r.dir, "objects")).CombinedOutput(); err != nil {
			t.Logf("objects not kept: %v %s", err, out)
		}
	}
	for _, v := range violations {
		t.Error(v)
	}
	for _, f := range r.faults {
		t.Error(f)
	}
	t.Errorf("seed %d: history %s, time line %s, logs and objects beside them", r.p.seed, r.historyFile(), page)
}

func (r *run) summary() string {
	s := r.rec.Stats()
	text := fmt.Sprintf("starts %s; %d appends acknowledged with %d records, %d rejected, %d unknown (%d records of them found), %d records read, %d stale answers; %s",
		quantiles(r.leads), s.Acked, s.Records, s.Rejected, s.Unknown, s.Late, s.Read, s.Stale, listed(r.counts.all()))
	if !r.p.disk {
		text += "\n  store: " + listed(r.storeFaults())
	}
	return text + "\n  wire: " + listed(r.wireFaults())
}

func (sum *totals) add(r *run) {
	sum.runs++
	sum.stats.Add(r.rec.Stats())
	sum.leads = append(sum.leads, r.leads...)
	addAll(sum.counts, r.counts.all())
	addAll(sum.store, r.storeFaults())
	addAll(sum.wire, r.wireFaults())
}

// quantiles says how long most of something took.
func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	d = slices.Sorted(slices.Values(d))
	at := func(q int) time.Duration { return d[(len(d)-1)*q/100].Round(time.Millisecond) }
	return fmt.Sprintf("%d (half within %v, 90 %% within %v, all within %v)", len(d), at(50), at(90), at(100))
}

// print gives the figures of the campaign.
func (sum *totals) print(t *testing.T, took time.Duration) {
	t.Helper()
	s := &sum.stats
	kills := sum.counts[string(actKill)]
	points := map[string]int64{}
	others := map[string]int64{}
	for name, n := range sum.counts {
		if point, ok := strings.CutPrefix(name, "at "); ok {
			points[point] = n
		} else {
			others[name] = n
		}
	}
	t.Logf("on %v\n%d runs in %v: %d SIGKILL (%.0f a minute), of them %d while starting; %d SIGSTOP; %d takeovers from a living broker; starts %s\n"+
		"%d appends acknowledged with %d records, %d rejected, %d unknown of which %d records were found; %d records read; %d commits, %d fetches, %d trims; %d answers by deposed brokers\n"+
		"exact: %d runs, %d operations ordered, %d partitions undecided\nfaults at the store: %s\nfaults on the wire: %s\nat failpoints: %s\nall: %s",
		machine.Here(), sum.runs, took.Round(time.Second), kills, float64(kills)/took.Minutes(), sum.counts["SIGKILL while starting"],
		sum.counts[string(actStop)]+sum.counts["failpoint stop"], sum.counts["fenced"], quantiles(sum.leads),
		s.Acked, s.Records, s.Rejected, s.Unknown, s.Late, s.Read, s.Commits, s.Fetches, s.Trims, s.Stale,
		sum.exact, sum.checked, sum.undecided, listed(sum.store), listed(sum.wire), listed(points), listed(others))
}

// TestHistory judges a history that was kept.
func TestHistory(t *testing.T) {
	if *historyFlag == "" {
		t.Skip("-history names none")
	}
	violations, stats, err := history.CheckFile(*historyFlag, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", stats)
	for _, v := range violations {
		t.Error(v)
	}
	f, err := os.Open(*historyFlag)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := history.Linear(f, exactTime)
	t.Logf("%+v, %v", l, err)
}

// TestNoFailpointsInTheProgram: what is delivered has none of their names in it.
func TestNoFailpointsInTheProgram(t *testing.T) {
	for _, c := range []struct {
		b    *build
		want bool
	}{{delivered, false}, {failing, true}} {
		text, err := os.ReadFile(built(t, c.b))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"SEB_FAILPOINTS", "commit.before-answer", "internal/failpoint.Hit"} {
			if bytes.Contains(text, []byte(name)) != c.want {
				t.Errorf("built with %q: has %q: %v", c.b.flags, name, !c.want)
			}
		}
	}
}
