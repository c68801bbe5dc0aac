package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/report"
	histograms "github.com/sebbroker/seb/bench/result"
)

// floodHeading is the section of the report.
const floodHeading = "## Other clients during a flood of datagrams\n"

// slowest is the largest ratio of p99 with a flood and without.
const slowest = 2

// percentile returns a percentile of a turn's latencies in ms.
func percentile(of func(*floodTurn) *histograms.Histogram, p float64) func(floodTurn) float64 {
	return func(t floodTurn) float64 {
		d, _ := of(&t).Percentile(p)
		return float64(d) / float64(time.Millisecond)
	}
}

func httpOf(t *floodTurn) *histograms.Histogram  { return t.http }
func kafkaOf(t *floodTurn) *histograms.Histogram { return t.kafka }

// write writes the section of the flood.
func (r *flooded) write(out io.Writer) error {
	loads := func(l [3]float64) string { return fmt.Sprintf("%.2f, %.2f, %.2f", l[0], l[1], l[2]) }
	fmt.Fprintf(out, `%s
Commit %s, %s. %s.
Bucket on %s. Load average (1, 5 and 15 minutes) %s before the run,
%s after it.

%s

The broker has a memory limit of %s. %d clients append records of %d bytes over HTTP, and %d over
Kafka's protocol; each begins the next append after the answer to the last one. Meanwhile this process
sends %d datagrams per second with one event each: none; to a socket that is not read, which costs
what the sender and the kernel take; to Seb. The kinds take turns of %v and share the machine. Median
and range of %d turns.

`, floodHeading, r.version, r.started.UTC().Format(time.DateOnly), r.before, r.filesystem, loads(r.before.Load), loads(r.after.Load),
		"```sh\ngo run -C bench ./cmd/riemann -flood -report docs/reports/riemann.md    # two minutes\n```",
		floodMemory, (r.connections+1)/2, floodRecord, r.connections/2, r.rate, r.time, r.rounds)
	rows := [][]string{{"datagrams", "HTTP p50, ms", "HTTP p99, ms", "Kafka p50, ms", "Kafka p99, ms", "appends/s", "Seb's CPU, cores", "load's CPU, cores"}}
	for kind, turns := range r.turns {
		row := []string{kindNames[kind]}
		for _, of := range []func(*floodTurn) *histograms.Histogram{httpOf, kafkaOf} {
			for _, p := range []float64{50, 99} {
				row = append(row, report.SpreadBy(turns, percentile(of, p)).Format("%.1f"))
			}
		}
		rows = append(rows, append(row,
			report.SpreadBy(turns, func(t floodTurn) float64 { return float64(t.http.Count()+t.kafka.Count()) / t.took.Seconds() }).Format("%.0f"),
			report.SpreadBy(turns, func(t floodTurn) float64 { return t.server.Seconds() / t.took.Seconds() }).Format("%.2f"),
			report.SpreadBy(turns, func(t floodTurn) float64 { return t.load.Seconds() / t.took.Seconds() }).Format("%.2f")))
	}
	if err := report.AlignedTable(out, rows); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return report.AlignedTable(out, r.verdicts())
}

// ratio compares a percentile of turns of the same round.
func (r *flooded) ratio(of func(*floodTurn) *histograms.Histogram, than int) report.Spread {
	var list []float64
	for i := range r.turns[flood] {
		figure := percentile(of, 99)
		list = append(list, figure(r.turns[flood][i])/figure(r.turns[than][i]))
	}
	return report.SpreadOf(list)
}

func (r *flooded) verdicts() [][]string {
	rows := [][]string{{"flood to Seb", "measured", "target", ""}}
	for _, c := range []struct {
		name string
		of   func(*floodTurn) *histograms.Histogram
	}{{"HTTP", httpOf}, {"Kafka", kafkaOf}} {
		all, own := r.ratio(c.of, quiet), r.ratio(c.of, unread)
		rows = append(rows,
			[]string{c.name + " p99, of that without datagrams", all.Format("%.2f"), fmt.Sprintf("≤ %d", slowest), report.Verdict(all.Middle <= slowest)},
			[]string{c.name + " p99, of that with unread datagrams", own.Format("%.2f"), "", ""})
	}
	var sent, stored, dropped uint64
	for _, t := range r.turns[flood] {
		sent, stored, dropped = sent+t.sent, stored+t.stored, dropped+t.dropped
	}
	rate := func(of func(floodTurn) uint64) string {
		return report.SpreadBy(r.turns[flood], func(t floodTurn) float64 { return float64(of(t)) / t.took.Seconds() }).Format("%.0f")
	}
	mib := func(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
	return append(rows,
		[]string{"datagrams/s sent", rate(func(t floodTurn) uint64 { return t.sent }), fmt.Sprint(r.rate), ""},
		[]string{"datagrams/s stored", rate(func(t floodTurn) uint64 { return t.stored }), "", ""},
		[]string{"stored and dropped", fmt.Sprintf("%d and %d (%.1f %%)", stored, dropped, 100*float64(dropped)/float64(stored+dropped)), "all that were sent", report.Verdict(stored+dropped >= sent)},
		[]string{"events stored / counted", fmt.Sprintf("%d / %d", r.records, r.stored), "equal", report.Verdict(uint64(r.records) == r.stored)},
		[]string{"peak memory without and with floods", mib(r.peak[0]) + ", " + mib(r.peak[1]), floodMemory, report.Verdict(r.peak[1] <= 64<<20)})
}

// replaceSection replaces a section of a Markdown text, or adds it.
func replaceSection(text, heading, section string) string {
	before, after, _ := strings.Cut(text, heading)
	if i := strings.Index(after, "\n## "); i >= 0 {
		return before + section + after[i:]
	}
	return strings.TrimRight(before, "\n") + "\n\n" + section
}
