package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sebbroker/seb/bench/result"
)

// tablePercentiles are the percentiles with a column in tables, if any line has them.
var tablePercentiles = []float64{50, 99, 99.9, 99.99, 99.999, 99.9999}

// Table returns a work's figures as rows of text: the first row names the columns.
func (w *Work) Table(curve string) (rows [][]string) {
	var percentiles []float64
	for _, p := range tablePercentiles {
		for _, l := range w.Lines {
			if _, ok := l.Percentile(curve, p); ok {
				percentiles = append(percentiles, p)
				break
			}
		}
	}
	head := []string{"system", "durability", "samples", "rate/s"}
	for _, p := range percentiles {
		head = append(head, percentName(p))
	}
	if curve == result.E2EIntended {
		head = append(head, "max", "acknowledged p50", "acknowledged p99")
	} else {
		head = append(head, "max")
	}
	rows = append(rows, append(head, "broker µs/message", "broker MB", "what went wrong"))
	for _, l := range w.Lines {
		rows = append(rows, l.row(curve, percentiles))
	}
	return rows
}

func (l *Line) row(curve string, percentiles []float64) []string {
	samples := l.Of(func(r *result.Run) float64 {
		if c := r.Curves.Named(curve); c != nil {
			return float64(c.Count)
		}
		return 0
	})
	row := []string{
		l.Label, string(l.Durability()), fmt.Sprintf("%d × %s", len(l.Runs), number(samples.Middle)),
		number(l.Of(func(r *result.Run) float64 { return r.Counts.SentRate }).Middle),
	}
	for _, p := range percentiles {
		s, ok := l.Percentile(curve, p)
		row = append(row, s.Text(ok))
	}
	most, ok := l.Max(curve)
	row = append(row, most.Text(ok))
	if curve == result.E2EIntended {
		for _, p := range []float64{50, 99} {
			s, ok := l.Percentile(result.AckIntended, p)
			row = append(row, s.Text(ok))
		}
	}
	if cpu, rss := l.Of(brokerCPU), l.Of(brokerRSS); rss.Middle > 0 {
		row = append(row, threeDigits(cpu.Middle), fmt.Sprintf("%.0f", rss.Middle/1e6))
	} else { // not a separate process on this machine
		row = append(row, "–", "–")
	}
	faults := strings.Join(l.Faults(), ", ")
	faults = cmp.Or(faults, "nothing")
	return append(row, faults)
}

// Text formats the median of durations in nanoseconds, and the range if there are several; "–" if
// there are too few samples.
func (s Spread) Text(ok bool) string {
	switch {
	case !ok:
		return "–"
	case s.N == 1:
		return duration(s.Middle)
	}
	return fmt.Sprintf("%s (%s to %s)", duration(s.Middle), duration(s.Least), duration(s.Most))
}

// threeDigits formats a figure with three digits, or with all digits before the decimal point.
func threeDigits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// brokerCPU returns the broker's CPU time per message sent in the measured seconds, in µs.
func brokerCPU(r *result.Run) float64 {
	var cpu float64
	var sent int64
	last := 0.0
	for _, s := range r.Seconds {
		if s.Phase == result.Measure {
			cpu += s.BrokerCPU * (s.At - last)
			sent += s.Sent
		}
		last = s.At
	}
	if sent == 0 {
		return 0
	}
	return cpu / float64(sent) * 1e6
}

// brokerRSS returns the broker's highest resident memory at the end of any second, in bytes.
func brokerRSS(r *result.Run) float64 {
	most := int64(0)
	for _, s := range r.Seconds {
		most = max(most, s.BrokerRSS)
	}
	return float64(most)
}

// MarkdownTable formats rows as a Markdown table; the first row is the header.
func MarkdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		cells := make([]string, len(row))
		for j, cell := range row {
			cells[j] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(cell)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return b.String()
}

// AlignedTable writes rows as a Markdown table with aligned columns; the first row is the header.
func AlignedTable(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	for i, row := range rows {
		fmt.Fprintln(w, "| "+strings.Join(row, "\t| ")+"\t|")
		if i == 0 {
			fmt.Fprintln(w, strings.Repeat("| ---\t", len(row))+"|")
		}
	}
	return w.Flush()
}

// Verdict is the cell of a table that says whether a target is met.
func Verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

// Markdown writes the tables of works, one after the other.
func Markdown(out io.Writer, works []*Work) error {
	var b strings.Builder
	for _, w := range works {
		fmt.Fprintf(&b, "### %s\n\n%s.\n\n", w.Title(), join(curveNames[w.Headline()], w.note()))
		b.WriteString(MarkdownTable(w.Table(w.Headline())) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// join concatenates the texts that are not empty.
func join(texts ...string) string {
	var list []string
	for _, s := range texts {
		if s != "" {
			list = append(list, s)
		}
	}
	return strings.Join(list, "; ")
}
