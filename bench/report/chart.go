package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// Axis is how values stand along a side of a chart.
type Axis string

// The axes.
const (
	Linear Axis = "linear"
	Log    Axis = "log"
	Nines  Axis = "nines" // of a fraction p: log10(1/(1-p)), so that each nine of a percentile takes the same room
)

// Chart is a picture of some lines, before it is drawn: as SVG, or by the page.
type Chart struct {
	Title  string  `json:"title"`
	Note   string  `json:"note,omitempty"`
	XLabel string  `json:"xLabel"`
	YLabel string  `json:"yLabel"`
	X      Axis    `json:"x"`
	Y      Axis    `json:"y"`
	YTime  bool    `json:"yTime"` // its values are nanoseconds
	Lines  []Trace `json:"lines"`
}

// Trace is one line. Points are by X; Low and High are nil, or the range around each.
type Trace struct {
	Name   string    `json:"name"`
	Colour string    `json:"colour"`
	Dashed bool      `json:"dashed"`
	X      []float64 `json:"x"`
	Y      []float64 `json:"y"`
	Low    []float64 `json:"low,omitempty"`
	High   []float64 `json:"high,omitempty"`
}

// colours tell lines apart, also for people who see fewer of them (Okabe and Ito's, without the yellow; more behind them for large charts).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444", "#7a5195", "#8c564b", "#17becf", "#bcbd22", "#a6004f", "#3f7f3f", "#9aa0a6"}

// Colour is that of the i-th line.
func Colour(i int) string { return colours[i%len(colours)] }

// The resolution and the end of the axis of percentiles, in nines.
const (
	ninesStep = 0.02
	ninesMax  = 7.0
)

// curveNames are the curves as people read them.
var curveNames = map[string]string{
	result.E2EIntended: "end to end, from when the message was due",
	result.E2ESent:     "end to end, from when the message was sent",
	result.AckIntended: "until acknowledged, from when the message was due",
	result.AckSent:     "until acknowledged, from when the message was sent",
}

// Percentiles draws the whole distribution of a curve, a line for each system, with the range of its repeats. sent is the
// curve that is drawn dashed beside it, or "".
func (w *Work) Percentiles(curve, sent string) *Chart {
	c := &Chart{
		Title: w.Title(), XLabel: "percentile", YLabel: curveNames[curve], X: Nines, Y: Log, YTime: true, Note: w.note(),
	}
	for i, l := range w.Lines {
		for _, name := range []string{curve, sent} {
			if t, ok := l.trace(name); ok {
				t.Colour, t.Dashed = Colour(i), name == sent
				if t.Dashed {
					t.Name += ", from the send"
				}
				c.Lines = append(c.Lines, t)
			}
		}
	}
	return c
}

// note says what must be known to read a chart of the work.
func (w *Work) note() string {
	var notes []string
	if n := len(w.Lines[0].Runs); n > 1 {
		notes = append(notes, fmt.Sprintf("median and range of %d runs", n))
	}
	if w.Unlike() {
		notes = append(notes, "durabilities differ")
	}
	for _, l := range w.Lines {
		if l.Runs[0].Colocated {
			notes = append(notes, "broker and generator share the machine")
			break
		}
	}
	return strings.Join(notes, "; ")
}

// trace is a curve over percentiles, as far as enough samples stand behind them.
func (l *Line) trace(curve string) (t Trace, ok bool) {
	t.Name = l.Name()
	for x := 0.0; x < ninesMax; x += ninesStep {
		s, shown := l.Percentile(curve, 100*(1-math.Pow(10, -x)))
		if !shown {
			break
		}
		if s.Middle <= 0 { // an empty run
			continue
		}
		t.X, t.Y = append(t.X, x), append(t.Y, s.Middle)
		if len(l.Runs) > 1 {
			t.Low, t.High = append(t.Low, s.Least), append(t.High, s.Most)
		}
	}
	return t, len(t.X) > 0
}

// Seconds draws a percentile of every second of each system's first run: what happened when.
func (w *Work) Seconds(p float64) *Chart {
	c := &Chart{
		Title: w.Title(), XLabel: "seconds from the first message", X: Linear, Y: Log, YTime: true,
		YLabel: fmt.Sprintf("%s of each second", percentName(p)), Note: "first run of each",
	}
	for i, l := range w.Lines {
		t := Trace{Name: l.Name(), Colour: Colour(i)}
		for _, s := range l.Runs[0].Seconds {
			of := &s.Ack
			if w.Headline() == result.E2EIntended && s.E2E != nil {
				of = s.E2E
			}
			if of.Count == 0 {
				continue
			}
			d, shown := of.At(p)
			if !shown { // of few samples the longest stands for it
				d = time.Duration(of.MaxNs)
			}
			t.X, t.Y = append(t.X, s.At), append(t.Y, float64(max(d, time.Microsecond)))
		}
		if len(t.X) > 0 {
			c.Lines = append(c.Lines, t)
		}
	}
	return c
}

// percentName is as in p99.9.
func percentName(p float64) string { return fmt.Sprintf("p%v", p) }
