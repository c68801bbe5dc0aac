package perf

import (
	"strconv"

	"github.com/sebbroker/seb/bench/report"
)

// Chart returns a chart of the rates. results contains one result per point of the sweep.
func (s *Sweep) Chart(results []*Result) (*report.Chart, error) {
	seb := report.Trace{Name: "Seb", Colour: report.Colour(0)}
	bare := report.Trace{Name: "bare server", Colour: report.Colour(1)}
	for i, r := range results {
		x, err := strconv.ParseFloat(s.Points[i], 64)
		if err != nil {
			return nil, err
		}
		add(&seb, x, r.SebSamples)
		add(&bare, x, r.BareSamples)
	}
	return &report.Chart{
		Title: s.Title, XLabel: s.Label, YLabel: "records/s", X: report.Log, Y: report.Linear, Lines: []report.Trace{seb, bare},
	}, nil
}

// add adds a point with the median of the samples and their range.
func add(t *report.Trace, x float64, samples []Sample) {
	s := spreadOf(samples, func(s Sample) float64 { return s.RecordsPerSecond })
	t.X, t.Y, t.Low, t.High = append(t.X, x), append(t.Y, s.Middle), append(t.Low, s.Least), append(t.High, s.Most)
}
