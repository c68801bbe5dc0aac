package campaign

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// fixture is the folders and files of a test's campaign.
type fixture struct {
	Options
	Output
	said *bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	root := must.Get(peers.Repository())(t)
	dir := t.TempDir()
	p := &fixture{said: &bytes.Buffer{}}
	results := filepath.Join(dir, "results")
	p.Options = Options{
		Repository: root, Results: results, Data: filepath.Join(dir, "data"), Clock: load.NewMonotonicClock(0), Tool: result.ThisTool("v0"), Out: p.said,
	}
	p.Output = Output{
		Results: results, Document: filepath.Join(dir, "l.md"), Pictures: filepath.Join(dir, "pictures"), Summary: filepath.Join(dir, "summary.json"), Root: root,
	}
	text := "# Latency\n\nprose\n\n"
	for _, name := range []string{sectionSetup, sectionSystems, sectionRuns, sectionWaits, sectionFollower, sectionLoops, sectionLong, sectionFlushed} {
		begin, end := report.Marks(program, name)
		text += begin + "as it was: " + name + "\n" + end + "\nmore prose\n"
	}
	must.NoError(t, os.WriteFile(p.Document, []byte(text), 0o600))
	return p
}

// document returns the written text.
func (p *fixture) document(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(p.Document))(t)
	return string(text)
}

func choose(t *testing.T, p *Plan, only, runs string, parts ...string) *Plan {
	t.Helper()
	chosen := must.Get(p.Choose([]string{only}, strings.Split(runs, ","), parts))(t)
	return chosen
}

// TestContinue performs real runs without a broker.
func TestContinue(t *testing.T) {
	t.Parallel()
	plan, at := newPlan(t, Settings{Duration: 200 * time.Millisecond, Repeats: 2}), newFixture(t)
	chosen := choose(t, plan, "nothing", "a,b")
	check.ErrorIsf(t, plan.Write(at.Output), errNothing, "a document of nothing")
	// Interrupted in the second run.
	ctx, cancel := context.WithCancel(t.Context())
	at.Out = writerFunc(func(text []byte) (int, error) {
		if strings.HasPrefix(string(text), "[1/") {
			cancel()
		}
		return at.said.Write(text)
	})
	must.ErrorIsf(t, chosen.Run(ctx, at.Options), context.Canceled, "cut off")
	first := filepath.Join(at.Options.Results, plan.Name(), "runs", "article-a-nothing-1.json")
	before := must.Get(os.ReadFile(first))(t)
	at.Out = at.said
	must.NoError(t, chosen.Run(t.Context(), at.Options))
	for _, want := range []string{"2 runs of 200ms", "1 of them are already measured", "[1/1, 0s left] nothing, article-b, run 1: e2e_intended"} {
		if !strings.Contains(at.said.String(), want) {
			t.Errorf("output has no %q:\n%s", want, at.said)
		}
	}
	if after, err := os.ReadFile(first); err != nil || !bytes.Equal(before, after) {
		t.Errorf("existing results were measured again, error %v", err)
	}
	f, err := result.Read(filepath.Join(at.Options.Results, plan.Name(), "runs", "article-b-nothing-1.json"))
	if err != nil || len(f.Runs) != 1 || f.Runs[0].Repeat != 1 || f.Runs[0].Counts.Measured != 600 || !f.Runs[0].Counts.Clean() {
		t.Fatalf("%+v, error %v", f, err)
	}
	must.NoError(t, plan.Write(at.Output))
	text := at.document(t)
	for _, want := range []string{
		"### article-a, 3000 messages/s of 256B", "| nothing | none | 1 × 600 |", "](pictures/article-a-memory.svg)", "Not complete", "as it was: long runs",
		"share", "prose\n\n<!-- begin: set-up", "more prose", "Not measured yet.", "| nothing | noop |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "as it was: runs") || strings.Contains(text, at.Repository) || strings.Count(text, "more prose") != 8 {
		t.Errorf("the document is\n%s", text)
	}
	if err := plan.Write(at.Output); err != nil || at.document(t) != text {
		t.Errorf("written again it differs, error %v", err)
	}
	must.NoError(t, chosen.Remove(at.Options.Results))
	if done, err := (store{filepath.Join(at.Options.Results, plan.Name())}).done(&chosen.Steps()[0]); done || err != nil {
		t.Errorf("removed, and there: %v, %v", done, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// TestSebIsMeasured measures a real broker that pauses for a second.
func TestSebIsMeasured(t *testing.T) {
	t.Parallel()
	plan, at := newPlan(t, Settings{Duration: 2 * time.Second, Repeats: 1}), newFixture(t)
	if err := choose(t, plan, "Seb disk", "b", PartLoops).Run(t.Context(), at.Options); err != nil {
		t.Fatalf("%v\n%s", err, at.said)
	}
	left, err := peers.Running(peers.Options{Repository: at.Repository, Data: at.Data})
	if err != nil || len(left) != 0 {
		t.Errorf("left running: %+v, %v", left, err)
	}
	must.NoError(t, plan.Write(at.Output))
	text := at.document(t)
	for _, want := range []string{"| Seb disk (fsync) | open | 6000 | from when it was due |", "| Seb disk (fsync) | closed |", "](pictures/loops.svg)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	f, err := result.Read(filepath.Join(at.Options.Results, plan.Name(), PartLoops, "article-b-seb-disk-1.json"))
	if err != nil || len(f.Runs) != 1 {
		t.Fatalf("%+v, error %v", f, err)
	}
	r := &f.Runs[0]
	if len(r.Faults) != 1 || r.Faults[0].Error != "" || r.Curves.E2EIntended.MaxNs < int64(900*time.Millisecond) {
		t.Errorf("faults %+v, longest %v", r.Faults, time.Duration(r.Curves.E2EIntended.MaxNs))
	}
	if !strings.Contains(r.Target.Start, "serve") || r.System.Settings["pace"] != "0s" || r.Filesystem == "" {
		t.Errorf("target %+v, settings %v, file system %q", r.Target, r.System.Settings, r.Filesystem)
	}
}

// TestFlushedIsMeasured measures a real broker without subscribers.
func TestFlushedIsMeasured(t *testing.T) {
	t.Parallel()
	plan, at := newPlan(t, Settings{Duration: 2 * time.Second, Repeats: 1, Flushed: true}), newFixture(t)
	for _, work := range []string{"most-100", "rate-1"} {
		if err := choose(t, plan, "Seb disk", work, PartFlushed).Run(t.Context(), at.Options); err != nil {
			t.Fatalf("%v\n%s", err, at.said)
		}
	}
	must.NoError(t, plan.Write(at.Output))
	text := at.document(t)
	for _, want := range []string{"### 64 producers, batches of 100", "### 1000 records/s, one record at a time", "| Seb disk | ", "](pictures/flushed.svg)", "as it was: runs"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	f, err := result.Read(filepath.Join(at.Options.Results, plan.Name(), PartFlushed, "most-100-closed-seb-disk-1.json"))
	if err != nil || len(f.Runs) != 1 || f.Runs[0].Counts.Acked%100 != 0 || f.Runs[0].Counts.Acked == 0 || f.Runs[0].Counts.Received != 0 {
		t.Errorf("%+v, error %v", f, err)
	}
}

// TestFlushedRatios: figures of the same round are divided, and those where the first system is worse
// are bold.
func TestFlushedRatios(t *testing.T) {
	run := func(label string, repeat int, acked int64, cpu float64) result.Run {
		w := flushedWork(time.Second, 1, true)
		curves := result.Curves{AckIntended: result.NewHistogram().Curve(), AckSent: result.NewHistogram().Curve()}
		return result.Run{Label: label, Repeat: repeat, Workload: w, Curves: curves, Seconds: []result.Second{{At: 1, Phase: result.Measure, Acked: acked, BrokerCPU: cpu}}}
	}
	works, err := report.Works(&result.File{Runs: []result.Run{
		run(flushed[0], 1, 100, 0.5), run(flushed[0], 2, 400, 0.5), run("other", 2, 200, 1), run("other", 1, 200, 1),
	}})
	must.NoError(t, err)
	rows := flushedRatios(works[0], []flushedFigure{{name: "rate", of: ackRate, more: true}, {name: "CPU", of: ackCPU}})
	want := []string{"other", "1.25 (0.50 to 2.00)", "0.62 (0.25 to 1.00)"}
	if len(rows) != 2 || !slices.Equal(rows[1], want) {
		t.Errorf("%q, want %q", rows, want)
	}
	worse := flushedRatios(works[0], []flushedFigure{{name: "rate", of: ackRate}, {name: "CPU", of: ackCPU, more: true}})
	if len(worse) != 2 || worse[1][1] != "**1.25 (0.50 to 2.00)**" || worse[1][2] != "**0.62 (0.25 to 1.00)**" {
		t.Errorf("%q, want bold figures", worse)
	}
}

// TestFailedInstallation: a broker that cannot be installed is reported at the end and in the
// document, and tried again.
func TestFailedInstallation(t *testing.T) {
	t.Parallel()
	plan, at := newPlan(t, Settings{Duration: 200 * time.Millisecond, Repeats: 1}), newFixture(t)
	at.Repository = t.TempDir() // Seb cannot be built without source
	some := must.Get(plan.Choose([]string{"Seb memory", "nothing"}, []string{"a"}, []string{PartRuns}))(t)
	for range 2 {
		at.said.Reset()
		err := some.Run(t.Context(), at.Options)
		if !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "Seb memory, article-a: seb-memory: install") || !strings.Contains(at.said.String(), "NOT MEASURED") {
			t.Fatalf("error %v\n%s", err, at.said)
		}
	}
	must.NoError(t, plan.Write(at.Output))
	if text := at.document(t); !strings.Contains(text, "Not measured: Seb memory: seb-memory: install") || !strings.Contains(text, "| nothing | none |") {
		t.Errorf("the document is\n%s", text)
	}
}

func TestOneCampaignAtATime(t *testing.T) {
	dir := t.TempDir()
	f := must.Get(lock(dir))(t)
	check.ErrorIsf(t, check.Err(lock(dir)), errBusy, "error")
	must.NoError(t, f.Close())
	f = must.Get(lock(dir))(t)
	defer f.Close()
}

func TestMarks(t *testing.T) {
	begin, end := report.Marks(program, "x")
	text, err := report.Replace([]byte("a\n"+begin+"old\n"+end+"b\n"), program, "x", "new")
	if err != nil || string(text) != "a\n"+begin+"\nnew\n\n"+end+"b\n" {
		t.Errorf("%q, error %v", text, err)
	}
	for _, bad := range []string{"", begin, end + begin, "a" + end} {
		check.ErrorIsf(t, check.Err(report.Replace([]byte(bad), program, "x", "new")), report.ErrMarks, "%q: error", bad)
	}
}

// TestDocumentHasAllSections checks the document in the repository.
func TestDocumentHasAllSections(t *testing.T) {
	root := must.Get(peers.Repository())(t)
	text := must.Get(os.ReadFile(filepath.Join(root, "docs", "reports", "latency-figures.md")))(t)
	for _, name := range []string{sectionSetup, sectionSystems, sectionRuns, sectionWaits, sectionFollower, sectionLoops, sectionLong, sectionFlushed} {
		if _, err := report.Replace(text, program, name, "x"); err != nil {
			t.Error(err)
		}
	}
}
