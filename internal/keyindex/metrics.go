package keyindex

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

// meters are the metrics of a view.
type meters struct {
	records  *metrics.Counter // entries read from the log
	rebuilds *metrics.Counter // rebuilt files and topics
	merged   *metrics.Counter // entries read by merges
	entries  atomic.Int64     // in the file
	runs     atomic.Int64
}

func newMeters(v *View) *meters {
	s := v.opt.Metrics
	m := &meters{
		records:  s.GetOrCreateCounter(`seb_view_records_total`),
		rebuilds: s.GetOrCreateCounter(`seb_view_rebuilds_total`),
		merged:   s.GetOrCreateCounter(`seb_view_merged_records_total`),
	}
	s.GetOrCreateGauge(`seb_view_lag_records`, func() float64 {
		parts, _ := v.opt.Log.Partitions()
		return float64(v.lag(parts))
	})
	s.GetOrCreateGauge(`seb_view_entries`, func() float64 { return float64(m.entries.Load()) })
	s.GetOrCreateGauge(`seb_view_runs`, func() float64 { return float64(m.runs.Load()) })
	return m
}
