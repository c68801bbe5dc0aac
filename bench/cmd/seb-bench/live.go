// The progress of a run: one changing line on a terminal, a line every few seconds otherwise.

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
)

// view writes progress. One goroutine uses it.
type view struct {
	w        io.Writer
	terminal bool
	every    time.Duration
	label    string
	phase    string
	next     time.Duration // of a run: when the next line is due
	drawn    bool          // the terminal's line is ours
}

// newView returns a view on w: on a terminal it draws at each call, otherwise once in every.
func newView(w io.Writer, terminal bool, every time.Duration) *view {
	return &view{w: w, terminal: terminal, every: every}
}

// clearLine moves to the start of a terminal's line and clears it.
const clearLine = "\r\x1b[K"

// Show shows progress. It ignores write errors, because a run must not fail without a reader.
func (v *view) Show(p load.Progress) {
	again := p.Label != v.label || p.At < v.next-v.every // another run has begun
	if v.terminal {
		if again && v.label != "" {
			v.Done()
		}
		v.label, v.next = p.Label, p.At+v.every
		v.drawn = true
		_, _ = fmt.Fprint(v.w, clearLine+progressLine(p))
		return
	}
	if !again && p.Phase == v.phase && p.At < v.next {
		return
	}
	v.label, v.phase, v.next = p.Label, p.Phase, p.At+v.every
	_, _ = fmt.Fprintln(v.w, progressLine(p))
}

// Done keeps the last line and moves to the next.
func (v *view) Done() {
	if v.drawn {
		_, _ = fmt.Fprintln(v.w)
	}
	v.drawn, v.next = false, 0
}

// progressLine formats progress as a line.
func progressLine(p load.Progress) string {
	what := "ack"
	if p.EndToEnd {
		what = "e2e"
	}
	parts := []string{
		fmt.Sprintf("%s: %-8s", p.Label, p.Phase),
		fmt.Sprintf("%.0f/s of %.0f", p.Rate, p.Wanted),
		fmt.Sprintf("in flight %d", p.InFlight),
		"lag " + result.Time(float64(p.Lag)),
	}
	if p.Headline != nil {
		parts = append(parts, fmt.Sprintf("%s p50 %s  p99 %s  p99.9 %s", what, at(p.Headline, 50), at(p.Headline, 99), at(p.Headline, 99.9)))
	}
	if p.Failed > 0 {
		parts = append(parts, fmt.Sprintf("FAILED %d", p.Failed))
	}
	if p.Phase != result.Drain {
		parts = append(parts, fmt.Sprintf("%v left", p.Left.Round(time.Second)))
	}
	return strings.Join(parts, "  ")
}

// at formats a percentile, or a dash if there are too few samples.
func at(h *result.Histogram, p float64) string {
	d, shown := h.Percentile(p)
	if !shown {
		return "-"
	}
	return result.Time(float64(d))
}
