package delivery

import (
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/delivery/webhook"
)

// meters are the metrics of this package.
type meters struct {
	outcomes map[webhook.Kind]*metrics.Counter
	dead     *metrics.Counter
	deferred *metrics.Counter
	dropped  *metrics.Counter
	paused   *metrics.Counter
	seconds  *metrics.PrometheusHistogram

	inflight atomic.Int64
	pending  atomic.Int64
	first    atomic.Int64 // time when the first delivery was due, ms; 0: none is pending
}

func newMeters(o *Options) *meters {
	s := o.Metrics
	m := &meters{
		outcomes: map[webhook.Kind]*metrics.Counter{}, dead: s.NewCounter("seb_deliveries_dead_total"),
		deferred: s.NewCounter("seb_deliveries_deferred_total"), dropped: s.NewCounter("seb_deliveries_cancelled_total"),
		paused:  s.NewCounter("seb_deliveries_triggers_paused_total"),
		seconds: s.NewPrometheusHistogram("seb_deliveries_attempt_seconds"),
	}
	for _, k := range []webhook.Kind{webhook.Delivered, webhook.Retry, webhook.Permanent, webhook.Stopped} {
		m.outcomes[k] = s.NewCounter(`seb_deliveries_attempts_total{outcome="` + k.String() + `"}`)
	}
	s.NewGauge("seb_deliveries_under_way", func() float64 { return float64(m.inflight.Load()) })
	s.NewGauge("seb_deliveries_pending", func() float64 { return float64(m.pending.Load()) })
	s.NewGauge("seb_deliveries_overdue_seconds", func() float64 {
		first := m.first.Load()
		if first == 0 {
			return 0
		}
		return max(0, o.Webhooks.Now().Sub(time.UnixMilli(first)).Seconds())
	})
	return m
}

// note sets the number of pending deliveries, and the time (ms) when the first was or is due.
func (m *meters) note(pending, first int64) {
	m.pending.Store(pending)
	m.first.Store(first)
}
