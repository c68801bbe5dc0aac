package perf

import (
	"fmt"
	"math"
	"strings"

	"github.com/sebbroker/seb/bench/report"
)

// Line is what a chart shows of one server: a range and a middle for each point.
type Line struct {
	Name   string
	Points []report.Spread
}

const (
	chartWidth, chartHeight = 420.0, 260.0
	left, right, top, below = 56.0, 12.0, 30.0, 44.0
)

var colours = []string{"#0b6e4f", "#b0413e"}

// chart draws lines over points of a category, from 0 on, as a group at a place.
func chart(b *strings.Builder, x0, y0 float64, title, label string, points []string, lines []Line) {
	most := 0.0
	for _, l := range lines {
		for _, p := range l.Points {
			most = max(most, p.Most)
		}
	}
	step := niceStep(most)
	most = math.Ceil(most/step) * step
	px := func(i int) float64 {
		return left + (chartWidth-left-right)*(float64(i)+0.5)/float64(len(points))
	}
	py := func(v float64) float64 { return chartHeight - below - (chartHeight-top-below)*v/most }
	fmt.Fprintf(b, `<g transform="translate(%.0f %.0f)"><text class="title" x="%.0f" y="16">%s</text>`+"\n", x0, y0, left, title)
	for v := 0.0; v <= most*1.0001; v += step {
		fmt.Fprintf(b, `<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, chartWidth-right, py(v), py(v), left-6, py(v)+4, short(v))
	}
	for i, p := range points {
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", px(i), chartHeight-below+16, p)
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="middle">%s</text>`+"\n", (left+chartWidth-right)/2, chartHeight-below+34, label)
	for n, l := range lines {
		var path []string
		for i, p := range l.Points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", px(i), py(p.Middle)))
			fmt.Fprintf(b, `<line stroke="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><circle fill="%s" cx="%.1f" cy="%.1f" r="3"/>`+"\n",
				colours[n], px(i), px(i), py(p.Least), py(p.Most), colours[n], px(i), py(p.Middle))
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colours[n], strings.Join(path, " "))
		fmt.Fprintf(b, `<text fill="%s" x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n", colours[n], chartWidth-right, 16+14*float64(n), l.Name)
	}
	b.WriteString("</g>\n")
}

// niceStep is a round number of which four to eight make v.
func niceStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{0.1, 0.2, 0.25, 0.5, 1} {
		if v/(ten*m) <= 6 {
			return ten * m
		}
	}
	return 2 * ten
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.4g M", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.4g k", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}

// Picture is an SVG of sweeps, two in a row, records a second. lines has those of each sweep.
func Picture(sweeps []Sweep, lines [][]Line, caption string) string {
	rows := (len(sweeps) + 1) / 2
	width, height := 2*chartWidth, float64(rows)*chartHeight+24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	b.WriteString(`<style>text{fill:#333}.title{font-size:13px;font-weight:bold}.grid{stroke:#ddd}</style><rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i := range sweeps {
		chart(&b, float64(i%2)*chartWidth, float64(i/2)*chartHeight, sweeps[i].Title, sweeps[i].Label, sweeps[i].Points, lines[i])
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f">%s</text></svg>`+"\n", left, height-8, caption)
	return b.String()
}

// Lines are those of a sweep's results.
func Lines(results []*Result) []Line {
	seb, bare := Line{Name: "Seb"}, Line{Name: "bare server"}
	rate := func(s Sample) float64 { return s.RecordsPerSecond }
	for _, r := range results {
		seb.Points = append(seb.Points, spreadOf(r.SebSamples, rate))
		bare.Points = append(bare.Points, spreadOf(r.BareSamples, rate))
	}
	return []Line{seb, bare}
}
