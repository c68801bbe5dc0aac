package torture

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/history"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "seed of the first run; 0 draws one, and without -time and -kills one seed is one run")
	timeFlag    = flag.Duration("time", 0, "time to run fresh seeds")
	killsFlag   = flag.Int64("kills", 0, "number of brokers to kill")
	lengthFlag  = flag.Duration("length", 20*time.Second, "how long the chaos of one run lasts")
	onlyFlag    = flag.String("only", "", "with -time or -kills, only runs on this kind of bucket: s3, folder or journal (a folder with journals)")
	historyFlag = flag.String("history", "", "judge this history again")
	atOnceFlag  = flag.Int("at-once", 2, "number of concurrent runs with -time or -kills; otherwise one")
	lifeFlag    = flag.Duration("life", 0, "how long TestBackup kills (0: 4s), or TestSoak with -long keeps up its load (0: 25m)")
	keepFlag    = flag.String("keep", "", "folder for the files of a failed run (default: a temporary one)")
)

const (
	// shortLength is the length of the two runs in every test.
	shortLength = 4 * time.Second
	// exactTime bounds the search for an order of operations, per partition.
	exactTime = 20 * time.Second
)

func TestTorture(t *testing.T) {
	t.Parallel()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := newCampaign(t, newShared(t, failing...))
	var wg sync.WaitGroup
	for range c.atOnce {
		wg.Go(func() {
			for p := c.take(ctx); p != nil; p = c.take(ctx) {
				c.one(ctx, p)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Error("stopped by a signal")
	}
	c.print()
}

// failing are the build flags of a program with failpoints.
var failing = []string{"-tags", "failpoints"}

// Most of these tests wait for processes.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // unless given
	os.Exit(testenv.Main(m))
}

// newShared starts the S3 server. flags are those of the program's build.
func newShared(t *testing.T, flags ...string) *shared {
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
	w := &shared{keep: filepath.Join(dir, "runs"), seb: testenv.Program(t, flags...), plain: testenv.Program(t)}
	for _, sub := range []string{w.keep, filepath.Join(dir, "s3")} {
		must.NoError(t, os.MkdirAll(sub, 0o700))
	}
	var err error
	if w.server, err = testenv.StartS3(t.Context(), filepath.Join(dir, "s3")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		check.NoError(t, w.server.Stop())
		if !t.Failed() && *keepFlag == "" {
			_ = os.RemoveAll(dir)
		}
	})
	return w
}

// try executes one plan. If ctx ends earlier, only the history until then is checked. started is
// called with the run at its beginning.
func (w *shared) try(ctx context.Context, p *plan, started func(*run), enough func() bool) (*run, []history.Violation, error) {
	r, err := newRun(w, p)
	if err != nil {
		return nil, nil, err
	}
	started(r)
	r.execute(ctx, enough)
	violations, err := r.rec.Finish(!r.failed.Load() && ctx.Err() == nil)
	r.close()
	return r, violations, err
}

// remove removes all files of a run.
func (r *run) remove(t *testing.T) {
	t.Helper()
	for _, dir := range []string{r.dir, r.objects()} {
		check.NoError(t, os.RemoveAll(dir))
	}
}

// exact searches for an order of the operations of a short run.
func (r *run) exact() (*history.Linearity, error) {
	f, err := os.Open(r.historyFile())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Linear(f, exactTime)
}

// report prints the faults and the paths of the kept files.
func (w *shared) report(t *testing.T, r *run, violations []history.Violation) {
	t.Helper()
	excerpt := filepath.Join(r.dir, "excerpt.jsonl")
	if len(violations) > 0 {
		check.NoError(t, history.WriteExcerpt(excerpt, r.historyFile(), violations[0]))
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
	t.Errorf("seed %d: history %s, the operations around the first violation in %s, logs and objects in the same folder", r.p.seed, r.historyFile(), excerpt)
}

// TestHistory checks a kept history.
func TestHistory(t *testing.T) {
	if *historyFlag == "" {
		t.Skip("-history is not given")
	}
	violations, stats := must.Get2(history.CheckFile(*historyFlag, true))(t)
	t.Logf("%+v", stats)
	for _, v := range violations {
		t.Error(v)
	}
	f := must.Get(os.Open(*historyFlag))(t)
	defer f.Close()
	l, err := history.Linear(f, exactTime)
	t.Logf("%+v, %v", l, err)
}

// TestNoFailpointsInTheProgram checks that the released program contains no name of a failpoint.
func TestNoFailpointsInTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the broker twice")
	}
	for _, c := range []struct {
		flags []string
		want  bool
	}{{nil, false}, {failing, true}} {
		text := must.Get(os.ReadFile(testenv.Program(t, c.flags...)))(t)
		for _, name := range []string{"SEB_FAILPOINTS", "SEB_HURRY", "commit.before-answer", "internal/engine/base/failpoint.Hit"} {
			check.Equalf(t, bytes.Contains(text, []byte(name)), c.want, "built with %q: has %q: %v", c.flags, name, !c.want)
		}
	}
}
