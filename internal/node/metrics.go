package node

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/objstore/cache"
)

// registerMetrics adds the gauges of the disk cache; the broker and the log register their own.
func (n *Node) registerMetrics(set *metrics.Set) {
	if n.cache == nil {
		return
	}
	for name, value := range map[string]func(cache.Stats) float64{
		"seb_cache_hits_total":           func(s cache.Stats) float64 { return float64(s.Hits) },
		"seb_cache_misses_total":         func(s cache.Stats) float64 { return float64(s.Misses) },
		"seb_cache_requests_total":       func(s cache.Stats) float64 { return float64(s.Requests) },
		"seb_cache_ahead_requests_total": func(s cache.Stats) float64 { return float64(s.Ahead) },
		"seb_cache_evicted_total":        func(s cache.Stats) float64 { return float64(s.Evicted) },
		"seb_cache_damaged_total":        func(s cache.Stats) float64 { return float64(s.Damaged) },
		"seb_cache_write_errors_total":   func(s cache.Stats) float64 { return float64(s.WriteErrors) },
		"seb_cache_bytes":                func(s cache.Stats) float64 { return float64(s.Bytes) },
		"seb_cache_limit_bytes":          func(s cache.Stats) float64 { return float64(s.Limit) },
	} {
		set.NewGauge(name, func() float64 {
			k := n.cache.cache.Load()
			if k == nil {
				return 0
			}
			return value(k.Stats())
		})
	}
}
