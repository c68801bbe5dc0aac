package costsim

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/cost"
)

// Pattern is a kind of traffic.
type Pattern struct {
	Name string
	Of   func(seed uint64) Traffic
	// Bytes: it exceeds small budgets in objects of the largest size.
	Bytes bool
}

// Patterns are the kinds of traffic of the plots.
var Patterns = []Pattern{
	{Name: "sparse: 10,000 records a day", Of: func(seed uint64) Traffic { return Steady(seed, 10_000.0/86_400, 500) }},
	{Name: "bursts: a minute of 100 records/s, every 15 minutes", Of: func(seed uint64) Traffic { return Bursts(seed, 15*time.Minute, time.Minute, 6000) }},
	{Name: "steady: 10 records/s", Of: func(seed uint64) Traffic { return Steady(seed, 10, 500) }},
	{Name: "flooding: 1,000 records/s of 1 KiB", Of: func(seed uint64) Traffic { return Steady(seed, 20, 50<<10) }}, // 50 at a time
}

// Torrent needs 1.2 objects of the largest size each second, $15 a month.
var Torrent = Pattern{Name: "12 MB/s", Of: func(seed uint64) Traffic { return Steady(seed, 20, 600<<10) }, Bytes: true}

// Month runs a pattern for 30 days at a budget of dollars.
func Month(p Pattern, setting cost.Setting, put, length time.Duration) (*Result, error) {
	prices, _ := cost.Preset("s3-standard")
	limit, err := setting.Limit(&prices, Wait)
	if err != nil {
		return nil, err
	}
	return Run(Options{Begin: begin, Length: length, Traffic: p.Of(1), Limit: &limit, Put: put, Every: length / 120}), nil
}

// Dollars is the price of PUTs.
func Dollars(puts float64) float64 {
	prices, _ := cost.Preset("s3-standard")
	return puts * prices.Put / 1e6
}
