package trigger

import "github.com/VictoriaMetrics/metrics"

// meters are the metrics of the package.
type meters struct {
	events, skipped, duplicates, unstamped *metrics.Counter
	steps, deadlines                       *metrics.Counter
	fired, retracted, recorded, ticks      *metrics.Counter
	saves, saveFailures, restores          *metrics.Counter
	rebuilds, failures                     *metrics.Counter
	degraded, pruned                       *metrics.Counter
}

func newMeters(e *Follower) *meters {
	s := e.opt.Metrics
	counter := func(name string) *metrics.Counter { return s.NewCounter("seb_triggers_" + name) }
	s.NewGauge("seb_triggers_lag_records", func() float64 { return float64(e.Lag()) })
	s.NewGauge("seb_triggers_lag_seconds", func() float64 { return e.LagTime().Seconds() })
	count := func(which func(h *Head) bool) func() float64 {
		return func() (n float64) {
			p, _, _ := e.Peek()
			for _, h := range p.Triggers {
				if which(h) {
					n++
				}
			}
			return n
		}
	}
	s.NewGauge("seb_triggers_backfilling", count(func(h *Head) bool { return h.Backfilling }))
	s.NewGauge("seb_triggers_late", count(func(h *Head) bool { return h.Late }))
	s.NewGauge("seb_triggers_blocked", func() float64 {
		p, _, _ := e.Peek()
		return float64(p.Secrets.Locked)
	})
	s.NewGauge("seb_triggers_readable_secrets", func() float64 {
		p, _, _ := e.Peek()
		return float64(p.Secrets.Readable)
	})
	s.NewGauge("seb_triggers_unreadable_partitions", func() float64 {
		p, _, _ := e.Peek()
		return float64(p.Unreadable)
	})
	s.NewGauge("seb_triggers_snapshot_timestamp_seconds", func() float64 { return float64(e.savedAt.Load()) / 1e6 })
	s.NewGauge("seb_triggers_snapshot_bytes", func() float64 { return float64(e.savedBytes.Load()) })
	return &meters{
		events: counter("events_total"), skipped: counter(`events_skipped_total{why="malformed"}`),
		unstamped: counter(`events_skipped_total{why="no_append_time"}`), duplicates: counter(`events_skipped_total{why="duplicate"}`),
		steps: counter("steps_total"), deadlines: counter("deadlines_total"), fired: counter("firings_total"),
		retracted: counter("retractions_total"), recorded: counter("firings_recorded_total"), ticks: counter("ticks_total"),
		saves: counter("snapshots_total"), saveFailures: counter("snapshot_failures_total"), restores: counter("restores_total"),
		rebuilds: counter("rebuilds_total"), failures: counter("failures_total"), degraded: counter("degraded_rows_total"),
		pruned: counter("firings_pruned_total"),
	}
}
