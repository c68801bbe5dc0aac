package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// The layout of a picture.
const (
	marginLeft   = 70.0
	marginRight  = 20.0
	marginTop    = 48.0
	marginBottom = 56.0
	legendLine   = 17.0
)

// tick is a labelled position on an axis.
type tick struct {
	at    float64
	label string
}

// frame maps values to coordinates.
type frame struct {
	x0, x1, y0, y1 float64 // ranges of the axes, after the logarithm of logarithmic axes
	logX, logY     bool
	width, height  float64 // of the picture, without the legend
}

func (f *frame) px(v float64) float64 {
	if f.logX {
		v = max(math.Log10(v), f.x0) // zero is drawn at the edge
	}
	return marginLeft + (v-f.x0)/(f.x1-f.x0)*(f.width-marginLeft-marginRight)
}

func (f *frame) py(v float64) float64 {
	if f.logY {
		v = max(math.Log10(v), f.y0)
	}
	return f.height - marginBottom - (v-f.y0)/(f.y1-f.y0)*(f.height-marginTop-marginBottom)
}

// fit computes the ranges of a chart's values; ok is false if there are none.
func (c *Chart) fit() (frame, bool) {
	f := frame{x0: math.Inf(1), x1: math.Inf(-1), y0: math.Inf(1), y1: math.Inf(-1), logX: c.X == Log, logY: c.Y == Log}
	within := func(from, to *float64, log bool, v float64) {
		if log && v <= 0 {
			return // a logarithmic axis cannot show it
		}
		if log {
			v = math.Log10(v)
		}
		*from, *to = min(*from, v), max(*to, v)
	}
	for _, t := range c.Lines {
		for i := range t.X {
			within(&f.x0, &f.x1, f.logX, t.X[i])
			within(&f.y0, &f.y1, f.logY, t.Y[i])
			if t.Low != nil {
				within(&f.y0, &f.y1, f.logY, t.Low[i])
				within(&f.y0, &f.y1, f.logY, t.High[i])
			}
		}
	}
	if f.x0 > f.x1 || f.y0 > f.y1 {
		return f, false
	}
	if c.X == Nines {
		f.x0, f.x1 = 0, math.Ceil(f.x1*10)/10
	}
	if f.logY { // whole thirds of a decade
		f.y0, f.y1 = math.Floor(f.y0*3)/3, math.Ceil(f.y1*3)/3
	} else {
		f.y0 = min(f.y0, 0)
	}
	f.x0, f.x1 = widen(f.x0, f.x1)
	f.y0, f.y1 = widen(f.y0, f.y1)
	return f, true
}

// widen widens a range that is too narrow to be divided.
func widen(from, to float64) (float64, float64) {
	if to-from <= 1e-9*max(math.Abs(from), math.Abs(to)) {
		return from - 0.5, to + 0.5
	}
	return from, to
}

// Sheet is a picture of charts, row by row.
type Sheet struct {
	Columns       int
	Width, Height float64 // of each chart, without its legend
	Charts        []*Chart
	Caption       string // below them
}

// SVG draws the chart as a self-contained picture.
func (c *Chart) SVG(w io.Writer) error {
	s := Sheet{Columns: 1, Width: 760, Height: 430, Charts: []*Chart{c}}
	return s.SVG(w)
}

// SVG draws the charts as a self-contained picture.
func (s *Sheet) SVG(w io.Writer) error {
	row := 0.0 // the height of each
	for _, c := range s.Charts {
		row = max(row, s.Height+c.legendHeight())
	}
	rows := (len(s.Charts) + s.Columns - 1) / s.Columns
	width, height := float64(s.Columns)*s.Width, float64(rows)*row
	if s.Caption != "" {
		height += legendLine
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	b.WriteString(`<style>text{fill:#333}.title{font-size:14px;font-weight:bold}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.8}</style>` +
		`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, c := range s.Charts {
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n", float64(i%s.Columns)*s.Width, float64(i/s.Columns)*row)
		c.draw(&b, s.Width, s.Height)
		b.WriteString("</g>\n")
	}
	if s.Caption != "" {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">%s</text>`+"\n", marginLeft, height-5, html.EscapeString(s.Caption))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Chart) draw(b *strings.Builder, width, height float64) {
	fmt.Fprintf(b, `<text class="title" x="%.0f" y="20">%s</text><text x="%.0f" y="38">%s</text>`+"\n",
		marginLeft, html.EscapeString(c.Title), marginLeft, html.EscapeString(c.YLabel))
	if f, ok := c.fit(); ok {
		f.width, f.height = width, height
		c.axes(b, &f)
		for _, t := range c.Lines {
			t.draw(b, &f)
		}
	} else {
		fmt.Fprintf(b, `<text x="%.0f" y="%.0f">no figures</text>`+"\n", marginLeft, height/2)
	}
	c.legend(b, height)
}

func (c *Chart) axes(b *strings.Builder, f *frame) {
	bottom := f.height - marginBottom
	for _, t := range c.xTicks(f) {
		x := f.px(t.at)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/><text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n",
			x, x, marginTop, bottom, x, bottom+17, t.label)
	}
	for _, t := range c.yTicks(f) {
		y := f.py(t.at)
		fmt.Fprintf(b, `<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			marginLeft, f.width-marginRight, y, y, marginLeft-7, y+4, t.label)
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n",
		(marginLeft+f.width-marginRight)/2, bottom+38, html.EscapeString(c.XLabel))
}

func (t *Trace) draw(b *strings.Builder, f *frame) {
	place := func(x, y float64) string { return fmt.Sprintf("%.1f,%.1f", f.px(x), f.py(y)) }
	if t.Low != nil {
		var band []string
		for i := range t.X {
			band = append(band, place(t.X[i], t.High[i]))
		}
		for i := len(t.X) - 1; i >= 0; i-- {
			band = append(band, place(t.X[i], t.Low[i]))
		}
		fmt.Fprintf(b, `<polygon fill="%s" fill-opacity="0.12" points="%s"/>`+"\n", t.Colour, strings.Join(band, " "))
	}
	path := make([]string, len(t.X))
	for i := range t.X {
		path[i] = place(t.X[i], t.Y[i])
	}
	fmt.Fprintf(b, `<polyline class="line" stroke="%s"%s points="%s"/>`+"\n", t.Colour, t.dash(), strings.Join(path, " "))
	if len(path) < 20 { // few points also get markers
		for i := range t.X {
			fmt.Fprintf(b, `<circle fill="%s" cx="%.1f" cy="%.1f" r="3"/>`+"\n", t.Colour, f.px(t.X[i]), f.py(t.Y[i]))
		}
	}
}

func (t *Trace) dash() string {
	if t.Dashed {
		return ` stroke-dasharray="5 4"`
	}
	return ""
}

func (c *Chart) legendHeight() float64 {
	height := legendLine*float64(len(c.Lines)) + 8
	if c.Note != "" {
		height += legendLine
	}
	return height
}

// legend draws the names of the lines below a chart of this height.
func (c *Chart) legend(b *strings.Builder, height float64) {
	y := height + 4
	for _, t := range c.Lines {
		fmt.Fprintf(b, `<line stroke="%s" stroke-width="2.5"%s x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text x="%.0f" y="%.1f">%s</text>`+"\n",
			t.Colour, t.dash(), marginLeft, marginLeft+26, y-4, y-4, marginLeft+34, y, html.EscapeString(t.Name))
		y += legendLine
	}
	if c.Note != "" {
		fmt.Fprintf(b, `<text x="%.0f" y="%.1f" font-style="italic">%s</text>`+"\n", marginLeft, y, html.EscapeString(c.Note))
	}
}

// xTicks returns the ticks of the x axis.
func (c *Chart) xTicks(f *frame) (ticks []tick) {
	switch {
	case c.X == Nines:
		ticks = append(ticks, tick{0, "0"}, tick{-math.Log10(0.5), "50 %"})
		for n := 1; float64(n) <= f.x1+1e-9; n++ {
			ticks = append(ticks, tick{float64(n), nines(n)})
		}
		return ticks
	case f.logX:
		return decades(f.x0, f.x1, number)
	}
	return steps(f.x0, f.x1, number)
}

// yTicks returns the ticks of the y axis.
func (c *Chart) yTicks(f *frame) []tick {
	text := number
	if c.YTime {
		text = duration
	}
	if f.logY {
		return decades(f.y0, f.y1, text)
	}
	return steps(f.y0, f.y1, text)
}

// nines formats the percentile with n nines: 90 %, 99 %, 99.9 %.
func nines(n int) string {
	switch n {
	case 1:
		return "90 %"
	case 2:
		return "99 %"
	}
	return "99." + strings.Repeat("9", n-2) + " %"
}

// decades returns ticks at 1, 2 and 5 times each power of ten between two logarithms.
func decades(from, to float64, text func(float64) string) (ticks []tick) {
	for e := math.Floor(from); e <= to; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if l := math.Log10(v); l < from-1e-9 || l > to+1e-9 || (m != 1 && to-from > 5) {
				continue
			}
			ticks = append(ticks, tick{v, text(v)})
		}
	}
	return ticks
}

// steps returns ticks at round distances.
func steps(from, to float64, text func(float64) string) (ticks []tick) {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for _, m := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if (to-from)/(step*m) <= 8 {
			step *= m
			break
		}
	}
	for n := math.Ceil(from / step); n*step <= to+step*1e-6; n++ {
		ticks = append(ticks, tick{n * step, text(n * step)})
	}
	return ticks
}

// number formats a count for display.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 1e6:
		return fmt.Sprintf("%.4g M", v/1e6)
	case math.Abs(v) >= 1e4:
		return fmt.Sprintf("%.4g k", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}

// duration formats nanoseconds with three digits and a unit.
func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.3g s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	}
	return fmt.Sprintf("%.3g µs", ns/1e3)
}

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
