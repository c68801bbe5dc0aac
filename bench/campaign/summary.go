package campaign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
)

// summary is a campaign's result for programs.
type summary struct {
	Tool  result.Tool   `json:"tool"`
	Lines []summaryLine `json:"lines"`
}

// summaryLine is all repeats of a system with one work.
type summaryLine struct {
	Part       string     `json:"part"`
	Work       string     `json:"work"`
	System     string     `json:"system"`
	Version    string     `json:"version"`
	Durability string     `json:"durability"`
	Runs       int        `json:"runs"`
	SentRate   [3]float64 `json:"sent_rate"` // median, minimum, maximum
	// Curves has by curve and percentile the median, minimum and maximum in microseconds.
	Curves map[string]map[string][3]int `json:"curves_us"`
	Faults []string                     `json:"faults,omitempty"`
}

// summaryPercentiles are the written percentiles, if they have enough samples.
var summaryPercentiles = []float64{50, 90, 99, 99.9, 99.99, 99.999, 99.9999}

// spread is a list of numbers as json.MarshalIndent writes it: with a line for each.
var spread = regexp.MustCompile(`\[[\s\d.,eE+-]+\]`)

func writeSummary(path string, p *Plan, all parts) error {
	s := summary{Tool: all[PartRuns].Tool}
	s.Tool.Modules = nil
	for _, part := range allParts {
		works, err := report.Works(all[part])
		if err != nil {
			return err
		}
		for _, w := range works {
			for _, l := range w.Lines {
				s.Lines = append(s.Lines, summaryOf(part, w, l))
			}
		}
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	text = spread.ReplaceAllFunc(text, func(list []byte) []byte {
		return bytes.ReplaceAll(bytes.Join(bytes.Fields(list), nil), []byte(","), []byte(", "))
	})
	if p.Settings.Long {
		path = strings.TrimSuffix(path, ".json") + "-long.json"
	}
	if p.Settings.Flushed {
		path = strings.TrimSuffix(path, ".json") + "-flushed.json"
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func summaryOf(part string, w *report.Work, l *report.Line) summaryLine {
	rate := l.Of(func(r *result.Run) float64 { return r.Counts.SentRate })
	x := summaryLine{
		Part: part, Work: w.Title(), System: l.Label, Version: l.Runs[0].System.Version, Durability: string(l.Durability()), Runs: len(l.Runs),
		SentRate: [3]float64{rate.Middle, rate.Least, rate.Most}, Curves: map[string]map[string][3]int{}, Faults: l.Faults(),
	}
	micros := func(s report.Spread) [3]int {
		return [3]int{int(s.Middle / 1e3), int(s.Least / 1e3), int(s.Most / 1e3)}
	}
	for _, curve := range result.Names() {
		figures := map[string][3]int{}
		for _, p := range summaryPercentiles {
			if s, ok := l.Percentile(curve, p); ok {
				figures[fmt.Sprintf("p%v", p)] = micros(s)
			}
		}
		if s, ok := l.Max(curve); ok {
			figures["max"] = micros(s)
			x.Curves[curve] = figures
		}
	}
	return x
}
