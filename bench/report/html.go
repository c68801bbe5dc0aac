// Package report renders results as Markdown tables, SVG charts and one self-contained HTML file.
// It also compares two results and tests whether the differences are significant.
package report

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sebbroker/seb/bench/result"
)

//go:embed assets/uPlot.iife.min.js assets/uPlot.min.css assets/uPlot.LICENSE assets/page.html assets/page.js assets/page.css
var assets embed.FS

func asset(name string) string {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // embedded at build time
	}
	return string(b)
}

var page = template.Must(template.New("page").Parse(asset("page.html")))

// section is the part of the page about one work.
type section struct {
	Title  string
	Curve  string
	Note   string
	Head   []string
	Rows   [][]string
	Charts []int // indexes of the page's charts
	Runs   []runInfo
}

// runInfo is the page's data about a run.
type runInfo struct {
	Label, Repeat string
	Valid         bool
	Reasons       []string
	Notes         []string
	Errors        []result.Problem
	Facts         [][2]string
}

type pageData struct {
	Sections    []section
	Across      []int // charts of several works
	Tool        result.Tool
	Style       template.CSS
	UPlot, Code template.JS
	Data        template.JS
	License     string
}

// HTML writes all charts and tables of works as one self-contained file.
func HTML(out io.Writer, works []*Work, tool result.Tool) error {
	d := pageData{
		Tool: tool, Style: template.CSS(asset("uPlot.min.css") + asset("page.css")), // trusted: embedded at build time
		UPlot: template.JS(asset("uPlot.iife.min.js")), Code: template.JS(asset("page.js")), License: asset("uPlot.LICENSE"),
	}
	var charts []*Chart
	draw := func(c *Chart) int {
		charts = append(charts, c)
		return len(charts) - 1
	}
	for _, c := range append(Knees(works, 99), Omissions(works)...) {
		d.Across = append(d.Across, draw(c))
	}
	for _, w := range works {
		curve := w.Headline()
		rows := w.Table(curve)
		s := section{Title: w.Title(), Curve: curveNames[curve], Note: w.note(), Head: rows[0], Rows: rows[1:]}
		s.Charts = append(s.Charts, draw(w.Percentiles(curve, sentCurve(curve))))
		if curve == result.E2EIntended {
			s.Charts = append(s.Charts, draw(w.Percentiles(result.AckIntended, result.AckSent)))
		}
		s.Charts = append(s.Charts, draw(w.Seconds(99)))
		for _, l := range w.Lines {
			for _, r := range l.Runs {
				s.Runs = append(s.Runs, infoOf(r))
			}
		}
		d.Sections = append(d.Sections, s)
	}
	data, err := json.Marshal(charts) // escapes <, > and &, so that it is safe inside a script element
	if err != nil {
		return err
	}
	d.Data = template.JS(data)
	return page.Execute(out, d)
}

// sentCurve returns the curve from the send time that matches a curve from the intended time.
func sentCurve(curve string) string {
	if curve == result.E2EIntended {
		return result.E2ESent
	}
	return result.AckSent
}

func infoOf(r *result.Run) runInfo {
	x := runInfo{
		Label: r.Label, Repeat: fmt.Sprint(r.Repeat), Valid: r.Validity.Valid, Reasons: r.Validity.Reasons,
		Notes: r.Validity.Notes, Errors: r.Errors,
	}
	add := func(name, format string, args ...any) {
		x.Facts = append(x.Facts, [2]string{name, fmt.Sprintf(format, args...)})
	}
	c := &r.Counts
	add("system", "%s %s", r.System.System, r.System.Version)
	add("client", "%s", r.System.Client)
	add("acknowledged means", "%s", r.System.Ack)
	for _, name := range slices.Sorted(maps.Keys(r.System.Settings)) {
		add(name, "%s", r.System.Settings[name])
	}
	if r.Target.Start != "" {
		add("started by", "%s", r.Target.Start)
	}
	if r.Filesystem != "" {
		add("data on", "%s", r.Filesystem)
	}
	add("started", "%s", r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	add("messages", "%d sent, %d acknowledged, %d measured, %d of %d deliveries", c.Sent, c.Acked, c.Measured, c.Received, c.Expected)
	add("schedule lag, p99", "%s in all, %s of it the generator's own", p99(&r.Generator.Lag), p99(&r.Generator.OwnLag))
	add("sleeps too long by, p99", "%s", p99(&r.Generator.Jitter))
	if f := r.Floor; f != nil {
		name, curve := f.Curves.Headline()
		add("floor, p99", "%s (%s, no system at all, %s)", p99(curve), curveNames[name], f.Duration)
	}
	for _, f := range r.Faults {
		add("fault", "%v from %.3f s to %.3f s %s", f.Fault, f.From, f.To, f.Error)
	}
	add("arrivals", "%s, %s loop, seed %d", r.Workload.Arrivals, r.Workload.Loop, r.Workload.Seed)
	machine, _ := json.Marshal(r.Machine) // plain fields
	add("machine", "%s", machine)
	return x
}

func p99(c *result.Curve) string {
	d, ok := c.At(99)
	if !ok {
		return "–"
	}
	return duration(float64(d))
}

// Picture is a chart with the name of its file, without an extension.
type Picture struct {
	Name  string
	Chart *Chart
}

// Pictures returns all charts of works: those of each, and those of several together. Their names
// are unique.
func Pictures(works []*Work) (list []Picture) {
	taken := map[string]int{}
	add := func(name string, c *Chart) {
		if len(c.Lines) == 0 {
			return
		}
		taken[name]++
		if n := taken[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		list = append(list, Picture{name, c})
	}
	for _, c := range Knees(works, 99) {
		add("rates", c)
	}
	for _, c := range Omissions(works) {
		add("loops", c)
	}
	for i, w := range works {
		name := fmt.Sprintf("%02d-%s", i+1, FileName(w.Workload.Name))
		if w.Headline() == result.E2EIntended {
			add(name+"-delivered", w.Percentiles(result.E2EIntended, result.E2ESent))
		}
		add(name+"-acknowledged", w.Percentiles(result.AckIntended, result.AckSent))
		add(name+"-seconds", w.Seconds(99))
	}
	return list
}

// FileName makes a name safe for files and links.
func FileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
}
