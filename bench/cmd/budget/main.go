// Command budget simulates months of a broker with a budget of PUTs (decision 0035): the real batcher
// and the real budget, on a virtual clock. It prints the bills before and after, and waits and bills of
// sparse, bursty, steady and flooding traffic at $5, $20, $52 and the default. It takes a minute
// or two. With -plot it draws the picture of docs/guide/costs.md. The exit code is 1 if a month
// spends more than its budget and 1 %, or if a bill rises by more than 20 % and a dollar.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/operate/quiet"
	"github.com/sebbroker/seb/test/costsim"
)

var (
	plot   = flag.String("plot", "", "file of the picture (SVG)")
	length = flag.Duration("month", 30*24*time.Hour, "simulated time of each pattern")
	rows   = flag.Duration("rows", 12*time.Hour, "simulated time of each bill; 0: none")
	put    = flag.Duration("put", 60*time.Millisecond, "time of a PUT")
)

// budgets are those of the plots.
var budgets = []string{"5USD/month", "20USD/month", "52USD/month", ""}

func main() {
	quiet.Restore()
	flag.Parse()
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run() (ok bool, err error) {
	ok = true
	if *rows > 0 {
		fmt.Println("| records | bill before | after | median before | after |")
		fmt.Println("|---|---|---|---|---|")
		costsim.Table(*rows, *put, []float64{0.1, 1, 10, 100, 1000}, func(r costsim.Row) {
			fmt.Printf("| %s | $%.2f | $%.2f | %d ms | %d ms |\n", r.Name, r.Before, r.After, r.Was.Milliseconds(), r.Is.Milliseconds())
			ok = ok && !r.Rises()
		})
	}
	fmt.Println("\n| traffic | budget | bill | p50 | p99 | longest | exceeded |")
	fmt.Println("|---|---|---|---|---|---|---|")
	sheet := report.Sheet{Columns: len(costsim.Patterns), Width: 390, Height: 300, Charts: make([]*report.Chart, 2*len(costsim.Patterns))}
	months, err := simulate(append(costsim.Patterns, costsim.Torrent))
	if err != nil {
		return false, err
	}
	for i, p := range months {
		bills := &report.Chart{Title: p[0].pattern.Name, XLabel: "day", YLabel: "bill of the month, dollars"}
		waits := &report.Chart{Title: "from a record to its acknowledgement", XLabel: "day", YLabel: "median of six hours", Y: report.Log, YTime: true}
		for j := range p {
			p[j].print()
			p[j].draw(report.Colour(j), bills, waits)
			ok = ok && p[j].within()
		}
		if i < len(costsim.Patterns) {
			sheet.Charts[i], sheet.Charts[len(costsim.Patterns)+i] = bills, waits
		}
	}
	if *plot == "" {
		return ok, nil
	}
	f, err := os.Create(*plot)
	if err != nil {
		return false, err
	}
	if err := sheet.SVG(f); err != nil {
		return false, err
	}
	return ok, f.Close()
}

// month is a simulated month.
type month struct {
	pattern costsim.Pattern
	budget  string
	result  *costsim.Result
	err     error
}

// simulate runs each pattern at each budget, concurrently.
func simulate(patterns []costsim.Pattern) ([][]month, error) {
	months := make([][]month, len(patterns))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i, p := range patterns {
		months[i] = make([]month, len(budgets))
		for j, b := range budgets {
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				m := month{pattern: p, budget: b}
				var s cost.Setting
				if s, m.err = cost.ParseSetting(b); m.err == nil {
					m.result, m.err = costsim.Month(p, s, *put, *length)
				}
				months[i][j] = m
			})
		}
	}
	running.Wait()
	for _, of := range months {
		for _, m := range of {
			if m.err != nil {
				return nil, m.err
			}
		}
	}
	return months, nil
}

// name returns the budget and its dollars.
func (m *month) name() (text string, dollars float64) {
	if _, err := fmt.Sscanf(m.budget, "%fUSD", &dollars); err != nil {
		return "default (52USD/month, careful)", 52
	}
	return m.budget, dollars
}

func (m *month) within() bool {
	_, dollars := m.name()
	return m.pattern.Bytes || costsim.Dollars(m.result.Puts) <= 1.01*dollars
}

func (m *month) print() {
	r := m.result
	name, _ := m.name()
	fmt.Printf("| %s | %s | $%.2f | %d ms | %d ms | %d ms | %.1f %% |\n", m.pattern.Name, name, costsim.Dollars(r.Puts),
		r.Percentile(0.5).Milliseconds(), r.Percentile(0.99).Milliseconds(), r.Most().Milliseconds(), 100*r.Exceeded)
}

func (m *month) draw(colour string, bills, waits *report.Chart) {
	name, _ := m.name()
	line := report.Trace{Name: name, Colour: colour, Dashed: m.budget == ""}
	wait := line
	for i, sample := range m.result.Samples {
		day := float64(i+1) * length.Hours() / 24 / float64(len(m.result.Samples))
		line.X, line.Y = append(line.X, day), append(line.Y, costsim.Dollars(sample.Puts))
		if sample.Median > 0 {
			wait.X, wait.Y = append(wait.X, day), append(wait.Y, float64(sample.Median))
		}
	}
	bills.Lines, waits.Lines = append(bills.Lines, line), append(waits.Lines, wait)
}
