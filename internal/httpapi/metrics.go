package httpapi

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// apiMetrics are the metrics of the HTTP front end.
type apiMetrics struct {
	set         *metrics.Set
	connections *metrics.Counter // gauge of open ones
	held        *metrics.Counter
	evicted     *metrics.Counter
	refused     *metrics.Counter
	produced    *metrics.Counter
	producedIn  *metrics.Counter
	read        *metrics.Counter
	readOut     *metrics.Counter
	routes      map[string]*metrics.PrometheusHistogram
}

func newMetrics(set *metrics.Set) *apiMetrics {
	m := &apiMetrics{
		set:         set,
		connections: set.NewCounter("seb_http_connections"),
		held:        set.NewCounter("seb_http_connections_held_total"),
		evicted:     set.NewCounter("seb_http_connections_evicted_total"),
		refused:     set.NewCounter("seb_http_connections_refused_total"),
		produced:    set.NewCounter("seb_http_produced_records_total"),
		producedIn:  set.NewCounter("seb_http_produced_bytes_total"),
		read:        set.NewCounter("seb_http_read_records_total"),
		readOut:     set.NewCounter("seb_http_read_bytes_total"),
		routes:      map[string]*metrics.PrometheusHistogram{},
	}
	for _, rt := range append([]route{{}}, routes...) {
		m.routes[rt.name()] = set.NewPrometheusHistogram(fmt.Sprintf("seb_http_request_duration_seconds{route=%q}", rt.name()))
	}
	return m
}

// served counts an answer; code is "ok" or that of the problem.
func (m *apiMetrics) served(route, code string, took time.Duration) {
	m.set.GetOrCreateCounter(fmt.Sprintf("seb_http_requests_total{route=%q,code=%q}", route, code)).Inc()
	m.routes[route].Update(took.Seconds())
}
