package costsim

import (
	"fmt"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/engine/cost"
)

// Row compares the bill of a month before and after, of a broker with the default budget.
type Row struct {
	Name          string
	Before, After float64       // dollars a month
	Was, Is       time.Duration // medians
}

// Rises reports whether the bill rises by more than 20 % and 1 dollar.
func (r *Row) Rises() bool { return r.After-r.Before > max(1, r.Before*0.2) }

// month is the time that a bill is given for.
const month = 30 * 24 * time.Hour

// Table runs each row of the table of bills for a time, and calls done with it. The rates are in
// records a second.
func Table(length, put time.Duration, rates []float64, done func(Row)) {
	prices, _ := cost.Preset("s3-standard")
	var standard cost.Setting
	limit, err := standard.Limit(&prices, Wait)
	if err != nil {
		panic(err) // the default is valid
	}
	for _, rate := range rates {
		shapes := []struct {
			name string
			of   func() Traffic
		}{
			{"steady", func() Traffic { return Steady(1, rate, 500) }},
			{"evenly spaced", func() Traffic { return Even(rate, 500) }},
			{"bursts of 0.1 s", func() Traffic { return shortBursts(rate, 100*time.Millisecond, 20) }},
			{"bursts of 5 s", func() Traffic { return shortBursts(rate, 5*time.Second, 50) }},
			{"a minute each hour", func() Traffic { return Bursts(1, time.Hour, time.Minute, int(min(3600*rate, 60*fine))) }},
		}
		for _, s := range shapes {
			if s.name == "evenly spaced" && rate > 10 {
				continue // as steady: every object has several records
			}
			bill := func(l *cost.Limit) (float64, time.Duration) {
				r := Run(Options{Begin: begin, Length: length, Traffic: s.of(), Limit: l, Put: put})
				return r.Puts * prices.Put / 1e6 * float64(month) / float64(length), r.Percentile(0.5)
			}
			row := Row{Name: fmt.Sprintf("%g records/s, %s", rate, s.name)}
			row.Before, row.Was = bill(nil)
			row.After, row.Is = bill(&limit)
			done(row)
		}
	}
}

// begin is the begin of a month of 30 days.
var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// shortBursts has a rate in bursts of a length, with at least n records, that fill at most a tenth of
// the time.
func shortBursts(rate float64, length time.Duration, n int) Traffic {
	every := max(10*length, time.Duration(float64(n)/rate*float64(time.Second)))
	arrivals := min(rate*every.Seconds(), max(float64(n), fine*length.Seconds()))
	return Bursts(1, every, length, int(math.Round(arrivals)))
}
