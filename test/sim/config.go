package sim

import (
	"time"

	"github.com/sebbroker/seb/test/sim/plan"
)

// Config is one run's shape.
type Config = plan.Config

// The first seeds of other kinds of run.
const (
	Starts = plan.Starts // many brokers start at the same time
	Clocks = plan.Clocks // clocks are wrong
	Losses = plan.Losses // an object is lost, or an older copy of the bucket is brought back
	Months = plan.Months // a month, with triggers
)

// Draw expands a seed into a configuration.
func Draw(seed uint64) Config { return plan.Draw(seed) }

// begin is when a run begins, in its own time.
const begin = int64(time.Second)

// slow makes a time longer that is meant for a usual run.
func (w *world) slow(d time.Duration) time.Duration { return d * time.Duration(max(w.cfg.Slow, 1)) }

// trouble makes a time longer in which brokers try and try again, but not as much.
func (w *world) trouble(d time.Duration) time.Duration {
	return d * time.Duration(max(w.cfg.Slow/100, 1))
}
