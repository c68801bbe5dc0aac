package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// Axis is the scale of a chart's axis.
type Axis string

// The axes.
const (
	Linear Axis = "linear"
	Log    Axis = "log"
	Nines  Axis = "nines" // of a fraction p: log10(1/(1-p)), so that the nines of a percentile are equally wide
)

// Chart is the data of a line chart. SVG or the script of the HTML page draws it.
type Chart struct {
	Title  string  `json:"title"`
	Note   string  `json:"note,omitempty"`
	XLabel string  `json:"xLabel"`
	YLabel string  `json:"yLabel"`
	X      Axis    `json:"x"`
	Y      Axis    `json:"y"`
	YTime  bool    `json:"yTime"` // the values are nanoseconds
	Lines  []Trace `json:"lines"`
}

// Trace is one line. Points are sorted by X; Low and High are nil, or the range around each point.
type Trace struct {
	Name   string    `json:"name"`
	Colour string    `json:"colour"`
	Dashed bool      `json:"dashed"`
	X      []float64 `json:"x"`
	Y      []float64 `json:"y"`
	Low    []float64 `json:"low,omitempty"`
	High   []float64 `json:"high,omitempty"`
}

// colours starts with Okabe and Ito's colours for colour-blind readers, without the yellow.
// The others are for large charts.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444", "#7a5195", "#8c564b", "#17becf", "#bcbd22", "#a6004f", "#3f7f3f", "#9aa0a6"}

// Colour returns the colour of the i-th line.
func Colour(i int) string { return colours[i%len(colours)] }

// The resolution and the end of the percentile axis, in nines.
const (
	ninesStep = 0.02
	ninesMax  = 7.0
)

// curveNames are the display names of the curves.
var curveNames = map[string]string{
	result.E2EIntended: "end to end, from when the message was due",
	result.E2ESent:     "end to end, from when the message was sent",
	result.AckIntended: "until acknowledged, from when the message was due",
	result.AckSent:     "until acknowledged, from when the message was sent",
}

// Percentiles draws the whole distribution of a curve, a line for each system, with the range of
// its repeats. The curve sent is drawn dashed as well, unless it is "".
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

// note returns the remarks that a reader needs for a chart of the work.
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

// trace returns a curve over the percentiles that have enough samples.
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

// Seconds draws a percentile of every second of each system's first run.
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
			if !shown { // too few samples: the longest one replaces the percentile
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

// percentName formats a percentile, as in p99.9.
func percentName(p float64) string { return fmt.Sprintf("p%v", p) }
