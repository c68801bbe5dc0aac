package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// result has the figures of a row.
type result struct {
	Section string   `json:"section"`
	Row     string   `json:"row"`
	Program string   `json:"program"`
	Figures []figure `json:"figures"`
}

type figure struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value,omitempty"` // absent for text
	Text  string   `json:"text"`
}

func (r *result) number(name, format string, v float64) {
	r.Figures = append(r.Figures, figure{name, &v, fmt.Sprintf(format, v)})
}

func (r *result) text(name, format string, args ...any) {
	r.Figures = append(r.Figures, figure{Name: name, Text: fmt.Sprintf(format, args...)})
}

// each adds the CPU time of one of n things.
func (r *result) each(name string, cpu time.Duration, n int) {
	r.number(name, "%.0f", float64(cpu.Microseconds())/float64(max(n, 1)))
}

// quantiles adds two quantiles of times, which it sorts.
func (r *result) quantiles(name string, times []time.Duration) {
	slices.Sort(times)
	at := func(q float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return times[int(q*float64(len(times)-1))].Seconds()
	}
	r.text(name, "%.2f / %.2f / %.2f", at(0.5), at(0.99), at(1))
}

// printer prints a table of each section, or all results as JSON.
type printer struct {
	json    bool
	about   string
	results []result // of the section, or all
}

func (p *printer) header(about string) {
	if p.about = about; !p.json {
		fmt.Println(about)
	}
}

func (p *printer) add(r result) error {
	if !p.json && len(p.results) > 0 && p.results[0].Section != r.Section {
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.results = append(p.results, r)
	return nil
}

// flush prints the results that were not printed.
func (p *printer) flush() error {
	results := p.results
	p.results = nil
	if p.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"about": p.about, "results": results})
	}
	if len(results) == 0 {
		return nil
	}
	names := []string{results[0].Section, ""}
	for _, r := range results {
		for _, f := range r.Figures {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	table := [][]string{names, slices.Repeat([]string{"---"}, len(names))}
	for _, r := range results {
		line := make([]string, len(names))
		line[0], line[1] = r.Row, r.Program
		for _, f := range r.Figures {
			line[slices.Index(names, f.Name)] = strings.ReplaceAll(strings.ReplaceAll(f.Text, "|", "/"), "\n", " ")
		}
		table = append(table, line)
	}
	fmt.Println()
	for _, line := range table {
		fmt.Println("| " + strings.Join(line, " | ") + " |")
	}
	return nil
}
