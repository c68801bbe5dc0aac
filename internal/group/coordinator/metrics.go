package coordinator

import "github.com/VictoriaMetrics/metrics"

// meters are the metrics of groups.
type meters struct {
	full *metrics.Counter // members refused for lack of memory
}

func newMeters(c *Coordinator) *meters {
	s := c.o.Metrics
	s.GetOrCreateGauge(`seb_groups_active`, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.core == nil {
			return 0
		}
		return float64(len(c.core.List()))
	})
	return &meters{full: s.GetOrCreateCounter(`seb_groups_members_refused_total`)}
}
