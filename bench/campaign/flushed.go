package campaign

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// A campaign of flushed systems: brokers that have the message on the disk when they acknowledge it.
// There are no subscribers.

// flushed are the labels of these systems, in the order of the tables. The others are compared with
// the first.
var flushed = []string{"Seb disk", "Seb disk, Kafka's protocol", "Redis streams AOF", "JetStream file", "RabbitMQ quorum", "Kafka flushed"}

// unflushed is a system whose acknowledgements must not wait for a flush.
const unflushed = "Kafka"

const (
	flushedProducers = 64 // in a closed loop
	flushedSenders   = 10 // at a rate
	flushedRate      = 1000 * workload.PerSecond
	flushedDelay     = 20 * time.Millisecond // of the test of the flush
	flushedTest      = 2 * time.Second       // its duration
)

// flushedBatches are the messages of a producer that are sent together.
var flushedBatches = []int{1, 100}

// flushedSessions are rounds of all works, and the test of the flush in the first round. Every round
// starts with another system.
func flushedSessions(s Settings) (list []session) {
	for n := 1; n <= s.Repeats; n++ {
		round := make([]session, len(flushed))
		for i, label := range flushed {
			one := systems[slices.Index(labels(), label)]
			for _, closed := range []bool{true, false} { // the closed loop warms the broker up
				for _, batch := range flushedBatches {
					round[i].steps = append(round[i].steps, Step{PartFlushed, one, flushedWork(s.Duration, batch, closed), n, 0})
				}
			}
			if n == 1 {
				round[i].steps = append(round[i].steps, flushTest(one)...)
			}
			round[i].peer = one.peer
		}
		first := (n - 1) * len(round) / s.Repeats
		list = append(list, slices.Concat(round[first:], round[:first])...)
	}
	one := systems[slices.Index(labels(), unflushed)]
	return append(list, session{peer: one.peer, steps: flushTest(one)})
}

func flushedWork(d time.Duration, batch int, closed bool) workload.Workload {
	w := work("article-b", d)
	w.Subscribers, w.Batch, w.Publishers, w.Rate = 0, batch, flushedSenders, flushedRate
	w.Name = fmt.Sprintf("rate-%d", batch)
	if closed {
		w.Loop, w.Publishers, w.Rate = workload.Closed, flushedProducers, workload.RateMax
		w.Name = fmt.Sprintf("most-%d", batch)
	}
	return w
}

// flushTest is two runs of one producer that waits for each acknowledgement. In the second, a flush of
// the broker takes longer.
func flushTest(one system) []Step {
	w := flushedWork(flushedTest, 1, true)
	w.Name, w.Publishers = "flush", 1
	slow := one
	slow.label = slowLabel(one.label)
	return []Step{{PartFlush, one, w, 1, time.Microsecond}, {PartFlush, slow, w, 1, flushedDelay}}
}

func slowLabel(label string) string { return label + ", slow flush" }

// flushedFigure is a figure of a run; NaN if there are too few samples.
type flushedFigure struct {
	name string
	of   func(*result.Run) float64
	text func(float64) string
	more bool // more is better
}

func acknowledged(p float64) func(*result.Run) float64 {
	return func(r *result.Run) float64 {
		d, ok := r.Curves.AckIntended.At(p)
		if !ok {
			return math.NaN()
		}
		return float64(d)
	}
}

// ackRate is the records per second that were acknowledged in the measured time, and ackCPU the broker's
// CPU time for each in microseconds. In a closed loop with large batches the numbers of sent records
// are multiples of all batches, so they are too coarse.
func ackRate(r *result.Run) float64 {
	acked, seconds, _ := measuredSeconds(r)
	return acked / seconds
}

func ackCPU(r *result.Run) float64 {
	acked, _, cpu := measuredSeconds(r)
	return cpu / acked * 1e6
}

func measuredSeconds(r *result.Run) (acked, seconds, cpu float64) {
	last := 0.0
	for _, s := range r.Seconds {
		if s.Phase == result.Measure {
			acked += float64(s.Acked)
			seconds += s.At - last
			cpu += s.BrokerCPU * (s.At - last)
		}
		last = s.At
	}
	return acked, seconds, cpu
}

// flushedFigures are the columns for a work. At a rate a run has too few batches for p99.
func flushedFigures(w *workload.Workload) []flushedFigure {
	count := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	micros := func(v float64) string {
		if v >= 100 {
			return count(v) + " µs"
		}
		return fmt.Sprintf("%.3g µs", v)
	}
	closed, tail := w.Loop == workload.Closed, 99.0
	if w.Batch > 1 && !closed {
		tail = 90
	}
	list := []flushedFigure{
		{"p50", acknowledged(50), result.Time, false},
		{fmt.Sprintf("p%v", tail), acknowledged(tail), result.Time, false},
		{"broker's CPU per record", ackCPU, micros, false},
	}
	if closed {
		return append([]flushedFigure{{"records/s", ackRate, count, true}}, list...)
	}
	return list
}

// flushed is the text of a campaign of flushed systems.
func (d *document) flushed() (string, error) {
	works, err := d.works(PartFlushed)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var rates, costs, times []*report.Chart
	sheet := report.Sheet{Columns: 2, Width: 470, Height: 290}
	for _, w := range works {
		r := w.Lines[0].Runs[0]
		sheet.Caption = fmt.Sprintf("last row: medians of %d rounds; %s, %d cores shared with the generator; %s", d.plan.Settings.Repeats, r.Machine.CPU, r.Machine.Cores,
			d.all[PartFlushed].Tool.Version)
		title := flushedTitle(&w.Workload)
		figures := flushedFigures(&w.Workload)
		fmt.Fprintf(&b, "### %s\n\n%s\nSeb disk over HTTP divided by the others, by rounds; **bold** where Seb is worse:\n\n%s\n%s", title,
			report.MarkdownTable(flushedTable(w, figures)), report.MarkdownTable(flushedRatios(w, figures)), d.failures(PartFlushed, w.Workload.Name))
		if w.Workload.Loop == workload.Closed {
			rates = append(rates, flushedRounds(w, title, "acknowledged records/s", ackRate))
			costs = append(costs, flushedRounds(w, title, "broker's CPU per record, µs", ackCPU))
			continue
		}
		c := w.Percentiles(result.AckIntended, "")
		c.Title, c.Note = title, ""
		for i := range c.Lines {
			l := &c.Lines[i]
			l.Name, l.Low, l.High = strings.TrimSuffix(l.Name, " (fsync)"), nil, nil // the ranges would hide each other
		}
		times = append(times, c)
	}
	sheet.Charts = slices.Concat(rates, costs, times)
	test, err := d.flushTests()
	if err != nil {
		return "", err
	}
	b.WriteString(test)
	if len(works) == 0 {
		return d.setup() + "\n" + b.String(), nil
	}
	link, err := d.draw("flushed", "Rates and latencies of flushed brokers", &sheet)
	return d.setup() + "\n" + d.systems() + "\n" + link + b.String(), err
}

func flushedTitle(w *workload.Workload) string {
	batch := "one record at a time"
	if n := w.Together(); n > 1 {
		batch = fmt.Sprintf("batches of %d", n)
	}
	if w.Loop == workload.Closed {
		return fmt.Sprintf("%d producers, %s", w.Publishers, batch)
	}
	return fmt.Sprintf("%v records/s, %s", w.Rate, batch)
}

func flushedTable(w *report.Work, figures []flushedFigure) [][]string {
	rows := [][]string{{"system"}}
	for _, f := range figures {
		rows[0] = append(rows[0], f.name)
	}
	rows[0] = append(rows[0], "what went wrong")
	for _, l := range w.Lines {
		row := []string{l.Label}
		for _, f := range figures {
			row = append(row, spreadText(l.Of(f.of), f.text))
		}
		faults := strings.Join(l.Faults(), ", ")
		if faults == "" {
			faults = "nothing"
		}
		rows = append(rows, append(row, faults))
	}
	return rows
}

// spreadText formats a median and the range, or "–" if a value is not a number.
func spreadText(s report.Spread, text func(float64) string) string {
	switch {
	case math.IsNaN(s.Least): // it sorts before all numbers
		return "–"
	case s.N == 1:
		return text(s.Middle)
	}
	return fmt.Sprintf("%s (%s to %s)", text(s.Middle), text(s.Least), text(s.Most))
}

// ratioText formats a ratio with two digits behind the decimal point, unless that is too few or too many.
func ratioText(v float64) string {
	switch {
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v < 0.1:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// flushedRatios divides the first system's figures by those of the others in the same round.
func flushedRatios(w *report.Work, figures []flushedFigure) [][]string {
	rows := [][]string{{"Seb disk divided by"}}
	for _, f := range figures {
		rows[0] = append(rows[0], f.name)
	}
	for _, l := range w.Lines {
		if l.Label == flushed[0] || w.Lines[0].Label != flushed[0] {
			continue
		}
		row := []string{l.Label}
		for _, f := range figures {
			var ratios []float64
			for _, own := range w.Lines[0].Runs {
				for _, other := range l.Runs {
					if own.Repeat == other.Repeat {
						ratios = append(ratios, f.of(own)/f.of(other))
					}
				}
			}
			s := report.SpreadOf(ratios)
			cell := spreadText(s, ratioText)
			if cell != "–" && (f.more && s.Middle < 1 || !f.more && s.Middle > 1) {
				cell = "**" + cell + "**"
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// flushedRounds draws a figure of all rounds.
func flushedRounds(w *report.Work, title, label string, of func(*result.Run) float64) *report.Chart {
	c := &report.Chart{Title: title, XLabel: "round", YLabel: label, X: report.Linear, Y: report.Log}
	for i, l := range w.Lines {
		t := report.Trace{Name: l.Label, Colour: report.Colour(i)}
		for _, r := range l.Runs {
			t.X, t.Y = append(t.X, float64(r.Repeat)), append(t.Y, of(r))
		}
		c.Lines = append(c.Lines, t)
	}
	return c
}

// flushTests shows that acknowledgements wait for a flush.
func (d *document) flushTests() (string, error) {
	works, err := d.works(PartFlush)
	if err != nil || len(works) == 0 {
		return "", err
	}
	rows := [][]string{{"system", "p50", "p50 with slow flushes", "difference"}}
	for _, l := range works[0].Lines {
		i := slices.IndexFunc(works[0].Lines, func(other *report.Line) bool { return other.Label == slowLabel(l.Label) })
		if i < 0 {
			continue
		}
		plain, slow := l.Of(acknowledged(50)).Middle, works[0].Lines[i].Of(acknowledged(50)).Middle
		rows = append(rows, []string{l.Label + " (" + string(l.Durability()) + ")", result.Time(plain), result.Time(slow), result.Time(max(0, slow-plain))})
	}
	return fmt.Sprintf("### Do acknowledgements wait for the flush?\n\nOne producer waits for each acknowledgement, and strace makes each fsync and fdatasync of the "+
		"broker take %v longer. An acknowledgement that waits for a flush takes at least that much longer:\n\n%s\n%s", flushedDelay, report.MarkdownTable(rows), d.failures(PartFlush, "flush")), nil
}
