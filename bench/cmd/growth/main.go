// Command growth draws the picture of docs/reports/growth.md from the results of test/cmd/growth,
// which it reads from standard input:
//
//	go run ./test/cmd/growth -base 24574049 -run '^triggers' -json >bin/triggers.json
//	go run ./test/cmd/growth -base 0c154589 -run '^deliveries' -json >bin/deliveries.json
//	cat bin/triggers.json bin/deliveries.json | go run -C bench ./cmd/growth >docs/reports/growth.svg
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/sebbroker/seb/bench/report"
)

// results is the output of test/cmd/growth.
type results struct {
	Results []struct {
		Section, Row, Program string
		Figures               []struct {
			Name  string
			Value float64
		}
	}
}

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func draw(from io.Reader, to io.Writer) error {
	var all results
	for d := json.NewDecoder(from); ; {
		var r results
		if err := d.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		all.Results = append(all.Results, r.Results...)
	}
	cost := &report.Chart{Title: "Events that all triggers mention", YLabel: "CPU µs per event; 10,000 to 50,000 entities", XLabel: "triggers", X: report.Log, Y: report.Log}
	rate := &report.Chart{Title: "Deliveries of one trigger", YLabel: "delivered per second", XLabel: "ms until the receiver answers (0 is drawn at 1)", X: report.Log, Y: report.Log}
	cost.Lines = all.lines("triggers", "CPU µs/event", func(row string) (x int, ok bool) {
		var all, entities int
		_, err := fmt.Sscanf(row, "%dof%dx%d", &x, &all, &entities)
		return x, err == nil && x == all && entities <= 50_000
	})
	rate.Lines = all.lines("deliveries", "delivered/s", func(row string) (x int, ok bool) {
		_, err := fmt.Sscanf(row+";", "1x%dms;", &x)
		return max(x, 1), err == nil
	})
	sheet := report.Sheet{Columns: 2, Width: 420, Height: 290, Charts: []*report.Chart{cost, rate}}
	return sheet.SVG(to)
}

// lines returns the figures of a section before and after. x returns the position of a row; ok is
// false for rows that are not drawn.
func (r *results) lines(section, figure string, x func(row string) (x int, ok bool)) (lines []report.Trace) {
	for i, program := range []string{"before", "after"} {
		points := map[int]float64{}
		for _, one := range r.Results {
			at, ok := x(one.Row)
			if !ok || one.Section != section || one.Program != program {
				continue
			}
			for _, f := range one.Figures {
				if f.Name == figure {
					points[at] = f.Value
				}
			}
		}
		t := report.Trace{Name: program, Colour: report.Colour(1 - i)}
		for _, at := range slices.Sorted(maps.Keys(points)) {
			t.X, t.Y = append(t.X, float64(at)), append(t.Y, points[at])
		}
		lines = append(lines, t)
	}
	return lines
}
