package queues

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
)

const (
	program = "bench/cmd/queues"
	section = "figures"
	// kept is the part of the rate that a system must reach, so that it has latencies.
	kept = 0.98

	clientsName = "clients, µs"
	p50         = "p50"
)

// figure is a column.
type figure struct {
	name  string
	batch int
	of    func(r *Run) float64 // NaN: there is none
	text  func(v float64) string
	more  bool // more is better
}

// head is the head of the column.
func (c *figure) head() string { return fmt.Sprintf("%s (%d)", c.name, c.batch) }

func perSecond(r *Run) float64 { return r.PerSecond }

func serverCPU(r *Run) float64 { return r.ServerCPU }

func clientCPU(r *Run) float64 { return r.ClientCPU }

// after returns the time within which a part of the messages was with a worker. A system that is slower than
// the rate has none.
func after(percentile string) func(r *Run) float64 {
	return func(r *Run) float64 {
		d, ok := r.Times[percentile]
		if !ok || r.PerSecond < kept*float64(r.Rate) {
			return math.NaN()
		}
		return float64(d)
	}
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

func micros(v float64) string {
	if v >= 100 {
		return whole(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// most are the columns of the table of rates, and steady those of the table at a rate.
var (
	most   = columns(figure{"messages/s", 0, perSecond, whole, true}, figure{"server, µs", 0, serverCPU, micros, false}, figure{clientsName, 0, clientCPU, micros, false})
	steady = columns(figure{p50, 0, after(p50), result.Time, false}, figure{"p99", 0, after("p99"), result.Time, false}, figure{"server, µs", 0, serverCPU, micros, false})
)

func columns(of ...figure) (list []figure) {
	for _, b := range batches {
		for _, f := range of {
			f.batch = b
			list = append(list, f)
		}
	}
	return list
}

// runs returns the runs of a system without an error, by rounds.
func (f *File) runs(system string, batch, rate int) (list []*Run) {
	for i := range f.Runs {
		if r := &f.Runs[i]; r.System == system && r.Batch == batch && r.Rate == rate && r.Error == "" {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *Run) int { return a.Round - b.Round })
	return list
}

// spread is a figure of the rounds of a system, also divided by that of another one in the same round.
func (f *File) spread(c *figure, system string, rate int, by string) report.Spread {
	var values []float64
	for _, r := range f.runs(system, c.batch, rate) {
		v := c.of(r)
		if by != "" {
			other := math.NaN()
			for _, o := range f.runs(by, c.batch, rate) {
				if o.Round == r.Round {
					other = c.of(o)
				}
			}
			v /= other
		}
		if !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return report.SpreadOf(values)
}

func cell(s report.Spread, text func(float64) string) string {
	if s.N == 0 {
		return "–"
	}
	if least, most := text(s.Least), text(s.Most); least != most {
		return fmt.Sprintf("%s (%s to %s)", text(s.Middle), least, most)
	}
	return text(s.Middle)
}

func ratio(v float64) string {
	if v >= 10 {
		return whole(v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Write writes the section with the figures of a document, and the picture beside it.
func (f *File) Write(document string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	picture := strings.TrimSuffix(document, ".md") + ".svg"
	var b bytes.Buffer
	if err := f.sheet().SVG(&b); err != nil {
		return err
	}
	if text, err = report.Replace(text, program, section, f.text(picture)); err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return errors.Join(os.WriteFile(picture, b.Bytes(), 0o644), os.WriteFile(document, text, 0o644))
}

func (f *File) text(picture string) string {
	var b strings.Builder
	b.WriteString(f.setup())
	fmt.Fprintf(&b, "\n![Rates, CPU time and latencies of work queues](%s)\n\n", picture[strings.LastIndex(picture, "/")+1:])
	b.WriteString("### As fast as possible\n\nThe columns are for batches of 1 and 10. µs are CPU time for each message.\n\n" + report.MarkdownTable(f.table(most, 0)))
	b.WriteString("\nSeb divided by the others, by rounds; **bold** where Seb is worse:\n\n" + report.MarkdownTable(f.ratios(most, 0)))
	fmt.Fprintf(&b, "\n### %d messages/s\n\nFrom the send to the begin of work. A system that is slower has no latencies.\n\n%s", rate, report.MarkdownTable(f.table(steady, rate)))
	b.WriteString("\nSeb divided by the others, by rounds; **bold** where Seb is worse:\n\n" + report.MarkdownTable(f.ratios(steady, rate)))
	b.WriteString("\n### Goals\n\n" + report.MarkdownTable(f.goals()))
	b.WriteString("\n### What an answer means\n\n" + report.MarkdownTable(f.durability()))
	b.WriteString("\n" + f.outcome())
	return b.String()
}

// setup describes the machine and the runs.
func (f *File) setup() string {
	loads, versions := []float64{}, []string{}
	first, last := time.Time{}, time.Time{}
	for i := range f.Runs {
		r := &f.Runs[i]
		loads = append(loads, r.LoadBefore)
		if !slices.Contains(versions, r.Version) {
			versions = append(versions, r.Version)
		}
		if first.IsZero() || r.Began.Before(first) {
			first = r.Began
		}
		if r.Began.After(last) {
			last = r.Began
		}
	}
	s := report.SpreadOf(loads)
	return fmt.Sprintf("%s to %s UTC, commit %s. %s. Load average before the runs: %.1f (%.1f to %.1f). Medians and ranges of the rounds.\n",
		first.Format("2006-01-02 15:04"), last.Format("15:04"), strings.Join(versions, ", "), f.Machine, s.Middle, s.Least, s.Most)
}

func (f *File) table(columns []figure, rate int) [][]string {
	rows := [][]string{{"system"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head())
	}
	for i := range systems {
		row := []string{systems[i].label}
		for _, c := range columns {
			row = append(row, cell(f.spread(&c, systems[i].label, rate, ""), c.text))
		}
		rows = append(rows, row)
	}
	return rows
}

func (f *File) ratios(columns []figure, rate int) [][]string {
	rows := [][]string{{"Seb divided by"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head())
	}
	for i := range systems[1:] {
		label := systems[i+1].label
		row := []string{label}
		for _, c := range columns {
			s := f.spread(&c, systems[0].label, rate, label)
			text := cell(s, ratio)
			if s.N > 0 && c.worse(s.Middle) {
				text = "**" + text + "**"
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return rows
}

// worse reports whether a ratio says that the first system is worse.
func (c *figure) worse(ratio float64) bool { return c.more && ratio < 1 || !c.more && ratio > 1 }

// goals are what Seb was to reach, in each way in which it is used.
func (f *File) goals() [][]string {
	var own []string
	rows := [][]string{{"goal"}}
	for i := range systems {
		if systems[i].peer == systems[0].peer {
			own = append(own, systems[i].label)
			rows[0] = append(rows[0], systems[i].label, "")
		}
	}
	add := func(name string, c *figure, rate int, by string, text func(float64) string, met func(v float64) bool) {
		row := []string{fmt.Sprintf("%s, batches of %d", name, c.batch)}
		for _, label := range own {
			s := f.spread(c, label, rate, by)
			if row = append(row, cell(s, text)); s.N == 0 {
				row = append(row, "")
			} else {
				row = append(row, report.Verdict(met(s.Middle)))
			}
		}
		rows = append(rows, row)
	}
	for i := range systems[len(own):] {
		by := &systems[len(own)+i]
		for j := range most {
			c := &most[j]
			if c.name == clientsName || by.only10 && (c.more || c.batch < 10) {
				continue
			}
			want := "at most 1"
			if c.more {
				want = "at least 1"
			}
			add(fmt.Sprintf("%s, of %s: %s", c.name, by.label, want), c, 0, by.label, ratio, func(v float64) bool { return !c.worse(v) })
		}
	}
	for j := range steady {
		if c := &steady[j]; c.name == p50 {
			add("p50 from send to work: at most 2 ms", c, rate, "", result.Time, func(v float64) bool { return v <= float64(2*time.Millisecond) })
		}
	}
	return rows
}

func (f *File) durability() [][]string {
	rows := [][]string{{"system", "a send is", "an end of work is", "a send takes", "with flushes that take 20 ms longer", "how it is used"}}
	for i := range systems {
		s := &systems[i]
		row := []string{s.label, s.durable, s.settled, "–", "–", s.note}
		for _, x := range f.Flushes {
			if x.System != s.label {
				continue
			}
			row[3], row[4] = result.Time(float64(x.Plain)), result.Time(float64(x.Slow))
			if s.flushes && x.Slow-x.Plain < flushDelay*9/10 {
				row[4] += ", so it does **not** wait"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// outcome says whether messages were lost or came again.
func (f *File) outcome() string {
	var b strings.Builder
	sent, lost, again := 0, 0, 0
	for i := range f.Runs {
		r := &f.Runs[i]
		sent, lost, again = sent+r.Sent, lost+r.Lost, again+r.Again
		if r.Lost > 0 || r.Again > 0 || r.Error != "" {
			fmt.Fprintf(&b, "- %s, batches of %d, %d/s, round %d: %d of %d messages did not come within %v, %d came again. %s\n", r.System, r.Batch, r.Rate, r.Round, r.Lost, r.Sent,
				drainWait, r.Again, strings.ReplaceAll(r.Error, "\n", "; "))
		}
	}
	head := fmt.Sprintf("Of %d messages that were acknowledged, %d did not come, and %d came again.\n", sent, lost, again)
	if b.Len() > 0 {
		head += "\n" + b.String()
	}
	return head
}

// sheet draws rates and CPU time of all rounds, and latencies.
func (f *File) sheet() *report.Sheet {
	sheet := &report.Sheet{Columns: 2, Width: 470, Height: 290, Caption: fmt.Sprintf("16 producers and 16 workers on the machine of the server: %s, %d cores", f.Machine.CPU, f.Machine.Cores)}
	for _, c := range most {
		if c.name == clientsName {
			continue
		}
		chart := &report.Chart{Title: fmt.Sprintf("%s, batches of %d", c.name, c.batch), XLabel: "round", YLabel: c.name, Y: report.Log, X: report.Linear}
		for i := range systems {
			t := report.Trace{Name: systems[i].label, Colour: report.Colour(i)}
			for _, r := range f.runs(systems[i].label, c.batch, 0) {
				t.X, t.Y = append(t.X, float64(r.Round)), append(t.Y, c.of(r))
			}
			chart.Lines = append(chart.Lines, t)
		}
		sheet.Charts = append(sheet.Charts, chart)
	}
	// The columns are batches.
	sheet.Charts[1], sheet.Charts[2] = sheet.Charts[2], sheet.Charts[1]
	for _, b := range batches {
		chart := &report.Chart{Title: fmt.Sprintf("%d messages/s, batches of %d", rate, b), XLabel: "percentile", YLabel: "from send to work", Y: report.Log, X: report.Nines, YTime: true}
		for i := range systems {
			t := report.Trace{Name: systems[i].label, Colour: report.Colour(i)}
			for _, p := range percentiles {
				c := figure{batch: b, of: after(percentName(p))}
				if s := f.spread(&c, systems[i].label, rate, ""); s.N > 0 {
					t.X, t.Y = append(t.X, -math.Log10(1-p/100)), append(t.Y, s.Middle)
				}
			}
			chart.Lines = append(chart.Lines, t)
		}
		sheet.Charts = append(sheet.Charts, chart)
	}
	return sheet
}
