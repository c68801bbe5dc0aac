package campaign

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// setup describes the machine and the method.
func (d *document) setup() string {
	var runs []*result.Run
	for _, f := range d.all {
		for i := range f.Runs {
			runs = append(runs, &f.Runs[i])
		}
	}
	slices.SortFunc(runs, func(a, b *result.Run) int { return a.Started.Compare(b.Started) })
	first, last := runs[0], runs[len(runs)-1]
	machines, tools, generators := set{}, set{}, set{}
	invalid, floors, apart, averages := 0, 0, 0, []float64{}
	for _, r := range runs {
		machines.add(r.Machine.String())
		g := &r.Generator
		sleeps := "sleeps in the kernel until a send"
		if g.Spin > 0 {
			sleeps = fmt.Sprintf("polls the time for %v before a send", g.Spin)
		}
		generators.add(fmt.Sprintf("scheduled as %s, GOMAXPROCS %d, %s", cmp.Or(g.Scheduling, "unknown"), g.GOMAXPROCS, sleeps))
		switch {
		case r.Target.Driver == load.FloorDriver || r.Target.Driver == tcpFloor:
			floors++
		case !r.Validity.Valid:
			invalid++
		}
		if !r.Colocated {
			apart++
		}
		averages = append(averages, r.Machine.Load[0])
	}
	for _, f := range d.all {
		if t := f.Tool; t.Go != "" {
			changes := ""
			if t.Dirty {
				changes = " with changes"
			}
			tools.add(fmt.Sprintf("%s, commit %s%s, %s", t.Version, t.Commit, changes, t.Go))
		}
	}
	w := &first.Workload
	place := "Every broker ran on the machine of the generator and shared its cores; the network is loopback."
	if apart > len(runs)/2 {
		place = "Brokers ran on another machine than the generator."
	}
	large := fmt.Sprintf(" (1 MiB: %v)", d.longest())
	if d.plan.Settings.Flushed {
		large = ""
	}
	loads := report.SpreadOf(averages)
	lines := []string{
		fmt.Sprintf("Runs: %d, %s to %s.", len(runs), first.Started.UTC().Format("2006-01-02 15:04"), last.Started.UTC().Format("2006-01-02 15:04 MST")),
		"Machine: " + machines.String() + ". " + place,
		"seb-bench " + tools.String() + ". Generator: " + generators.String() + ".",
		fmt.Sprintf("Each run: %v measured%s after %v of warm-up, %v for what is late at the end; %s arrivals; %s in turns. A broker is started, "+
			"put under load for %v that is not looked at, measured, and stopped before the next.",
			w.Duration, large, w.Warmup, w.Timeout, w.Arrivals, repeats(d.plan.Settings.Repeats), primeFor),
		fmt.Sprintf("Load average before the runs: %.2g (%.2g to %.2g). Invalid, because the generator was late: %d of %d runs of brokers.",
			loads.Middle, loads.Least, loads.Most, invalid, len(runs)-floors),
	}
	if d.missing > 0 {
		lines = append(lines, fmt.Sprintf("**Not complete: %d runs of the plan are missing.**", d.missing))
	}
	return "- " + strings.Join(lines, "\n- ") + "\n"
}

// repeats formats a number of repeats.
func repeats(n int) string {
	if n == 1 {
		return "one repeat, not"
	}
	return fmt.Sprintf("%d repeats", n)
}

// longest returns the duration of the runs with large messages.
func (d *document) longest() workload.Duration {
	longest := workload.Duration(0)
	for _, step := range d.plan.Steps() {
		longest = max(longest, step.Workload.Duration)
	}
	return longest
}

// set is a set of texts.
type set map[string]bool

func (s set) add(text string) { s[text] = true }

func (s set) String() string { return strings.Join(slices.Sorted(maps.Keys(s)), "; ") }

// hidden are settings of single runs, or with long paths and addresses.
var hidden = []string{"broker bucket", "broker data-dir", "broker http-port", "broker http-api-key-file", "broker kafka-listen"}

// systems is a table of the measured systems.
func (d *document) systems() string {
	rows := [][]string{{"name here", "system", "client", "durability", "an acknowledgement means", "settings"}}
	files := []*result.File{d.all[PartRuns], d.all[PartFollower], d.all[PartFlushed]}
	for _, label := range append(labels(), "Seb disk, received from a follower", "Seb S3, received from a follower") {
		var runs []*result.Run
		for _, f := range files {
			for i := range f.Runs {
				if r := &f.Runs[i]; r.Label == label {
					runs = append(runs, r)
				}
			}
		}
		if len(runs) > 0 {
			rows = append(rows, d.systemRow(runs))
		}
	}
	return report.MarkdownTable(rows)
}

// systemRow describes the runs of a system; different values are all listed.
func (d *document) systemRow(runs []*result.Run) []string {
	first := runs[0]
	versions, settings, systems := set{}, map[string]set{}, set{}
	for _, r := range runs {
		versions.add(strings.TrimSpace(r.System.System + " " + d.short(r.System.Version)))
		if r.Filesystem != "" {
			systems.add("data on " + r.Filesystem)
		}
		for name, value := range r.System.Settings {
			if slices.Contains(hidden, name) {
				continue
			}
			if settings[name] == nil {
				settings[name] = set{}
			}
			settings[name].add(d.short(value))
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, name+"="+strings.Join(slices.Sorted(maps.Keys(settings[name])), " or "))
	}
	if len(systems) > 0 {
		list = append(list, systems.String())
	}
	return []string{
		first.Label, versions.String(), d.short(first.System.Client), string(first.System.Durability), first.System.Ack, strings.Join(list, ", "),
	}
}

var (
	anyPort   = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	revision  = regexp.MustCompile(`\S+ vcs\.revision=([0-9a-f]{12})[0-9a-f]*`)
	unrelated = strings.NewReplacer(" vcs.modified=true", " with changes", " v0.0.0-00010101000000-000000000000", ", of this source")
)

// short removes details of single runs or machines from a text.
func (d *document) short(text string) string {
	if d.root != "" {
		text = strings.ReplaceAll(text, d.root+"/", "")
	}
	text = anyPort.ReplaceAllString(text, "127.0.0.1")
	return unrelated.Replace(revision.ReplaceAllString(text, "commit $1"))
}

// works returns the runs of a part by work, with the systems in the order of the plan.
func (d *document) works(part string) ([]*report.Work, error) {
	works, err := report.Works(d.all[part])
	if err != nil {
		return nil, err
	}
	order := labels()
	for _, w := range works {
		slices.SortStableFunc(w.Lines, func(a, b *report.Line) int {
			return slices.Index(order, a.Label) - slices.Index(order, b.Label)
		})
	}
	slices.SortStableFunc(works, func(a, b *report.Work) int { return strings.Compare(a.Workload.Name, b.Workload.Name) })
	return works, nil
}

// durable are the durabilities that survive the end of the broker's process.
var durable = []sut.Durability{sut.PageCache, sut.FsyncInterval, sut.Fsync, sut.ObjectStore}

// split separates systems that keep messages beyond their process from the others.
func split(w *report.Work) (kept, lost *report.Work) {
	kept, lost = &report.Work{Workload: w.Workload}, &report.Work{Workload: w.Workload}
	for _, l := range w.Lines {
		if slices.Contains(durable, l.Durability()) {
			kept.Lines = append(kept.Lines, l)
		} else {
			lost.Lines = append(lost.Lines, l)
		}
	}
	return kept, lost
}

// runs returns a table and two pictures for each of the article's runs.
func (d *document) runs(prefix string) (string, error) {
	works, err := d.works(PartRuns)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, w := range works {
		fmt.Fprintf(&b, "### %s\n\n%s", w.Title(), report.MarkdownTable(w.Table(w.Headline())))
		b.WriteString("\n" + d.failures(PartRuns, w.Workload.Name))
		kept, lost := split(w)
		for _, x := range []struct {
			name, title string
			work        *report.Work
		}{{"kept", "kept on disk or in a bucket", kept}, {"memory", "in memory or nowhere", lost}} {
			if len(x.work.Lines) == 0 {
				continue
			}
			c := x.work.Percentiles(w.Headline(), "")
			c.Title += ", " + x.title
			link, err := d.picture(prefix+w.Workload.Name+"-"+x.name, c)
			if err != nil {
				return "", err
			}
			b.WriteString(link)
		}
	}
	return b.String(), nil
}

// failures lists failed runs.
func (d *document) failures(part, work string) string {
	var list []string
	for _, f := range d.all[part].Failures {
		if f.Workload.Name == work {
			list = append(list, fmt.Sprintf("Not measured: %s: %s", f.Label, d.short(f.Error)))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\\\n") + "\n\n"
}

// part is the text of a part with one work.
func (d *document) part(part string, w *report.Work, rows [][]string, links string) string {
	return "### " + w.Title() + "\n\n" + report.MarkdownTable(rows) + "\n" + d.failures(part, w.Workload.Name) + links
}

// waits shows the effect of Seb's batch wait.
func (d *document) waits() (string, error) {
	works, err := d.works(PartWaits)
	if err != nil || len(works) == 0 {
		return d.none(PartWaits), err
	}
	w := works[0]
	c := &report.Chart{
		Title: w.Title() + ", over Seb's batch wait", XLabel: "batch wait, ms", YLabel: "end to end, from when the message was due", X: report.Log, Y: report.Log,
		YTime: true, Note: "broker and generator share the machine",
	}
	for _, base := range systems[1:3] {
		for _, p := range []float64{50, 99} {
			t := report.Trace{Colour: report.Colour(len(c.Lines)), Dashed: p == 99}
			for _, wait := range waits {
				i := slices.IndexFunc(w.Lines, func(l *report.Line) bool { return l.Label == fmt.Sprintf("%s, %v", base.label, wait) })
				if i < 0 {
					continue
				}
				if s, ok := w.Lines[i].Percentile(w.Headline(), p); ok {
					t.Name = fmt.Sprintf("%s (%s), p%v", base.label, w.Lines[i].Durability(), p)
					t.X, t.Y = append(t.X, float64(wait)/float64(time.Millisecond)), append(t.Y, s.Middle)
				}
			}
			if len(t.X) > 0 {
				c.Lines = append(c.Lines, t)
			}
		}
	}
	slices.SortStableFunc(w.Lines, func(a, b *report.Line) int { return waitOrder(a.Label) - waitOrder(b.Label) })
	link, err := d.picture("batch-wait", c)
	return d.part(PartWaits, w, w.Table(w.Headline()), link), err
}

// waitOrder returns the position of a label in the table of batch waits.
func waitOrder(label string) int {
	for i, base := range systems[1:3] {
		for k, wait := range waits {
			if label == fmt.Sprintf("%s, %v", base.label, wait) {
				return i*len(waits) + k
			}
		}
	}
	return -1
}

// none is the text of a part without results.
func (d *document) none(part string) string {
	if f := d.all[part].Failures; len(f) > 0 {
		return d.failures(part, f[0].Workload.Name)
	}
	return "Not measured yet.\n"
}

// follower shows the latency through a second broker.
func (d *document) follower() (string, error) {
	works, err := d.works(PartFollower)
	if err != nil || len(works) == 0 {
		return d.none(PartFollower), err
	}
	w := works[0]
	slices.SortStableFunc(w.Lines, func(a, b *report.Line) int { return strings.Compare(b.Label, a.Label) })
	c := w.Percentiles(w.Headline(), "")
	c.Title += ", of one and of two brokers"
	link, err := d.picture("follower", c)
	return d.part(PartFollower, w, w.Table(w.Headline()), link), err
}

// loops shows what a closed loop hides.
func (d *document) loops() (string, error) {
	works, err := d.works(PartLoops)
	if err != nil || len(works) == 0 {
		return d.none(PartLoops), err
	}
	rows := [][]string{{"system", "loop", "messages", "curve", "p50", "p99", "p99.9", "max"}}
	for _, w := range works {
		curve := result.E2EIntended
		if w.Workload.Loop == workload.Closed {
			curve = result.E2ESent
		}
		for _, l := range w.Lines {
			rows = append(rows, loopRow(w, l, curve))
		}
	}
	var links strings.Builder
	for _, c := range report.Omissions(works) {
		link, err := d.picture("loops", c)
		if err != nil {
			return "", err
		}
		links.WriteString(link)
	}
	return d.part(PartLoops, works[0], rows, links.String()), nil
}

func loopRow(w *report.Work, l *report.Line, curve string) []string {
	from := "from when it was due"
	if curve == result.E2ESent {
		from = "from when it was sent"
	}
	sent := l.Of(func(r *result.Run) float64 { return float64(r.Counts.Measured) })
	row := []string{l.Name(), w.Workload.Loop, fmt.Sprintf("%.0f", sent.Middle), from}
	for _, p := range []float64{50, 99, 99.9} {
		s, ok := l.Percentile(curve, p)
		row = append(row, s.Text(ok))
	}
	s, ok := l.Max(curve)
	return append(row, s.Text(ok))
}
