package httpapi

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// apiMetrics are the metrics of the HTTP front end.
type apiMetrics struct {
	set         *metrics.Set
	connections *metrics.Gauge
	held        *metrics.Counter
	evicted     *metrics.Counter
	refused     *metrics.Counter
	produced    *metrics.Counter
	producedIn  *metrics.Counter
	read        *metrics.Counter
	readOut     *metrics.Counter
	forwarding  *metrics.PrometheusHistogram
	forwards    *metrics.Counter // with an answer
	routes      map[routeKey]routeMetrics
}

// routeKey is a route without its function. It avoids building names for each request.
type routeKey struct{ method, path string }

func (rt route) key() routeKey { return routeKey{rt.method, rt.path} }

// routeMetrics are the metrics of one route that every request needs.
type routeMetrics struct {
	duration *metrics.PrometheusHistogram
	ok       *metrics.Counter
}

func newMetrics(set *metrics.Set, connections int) *apiMetrics {
	m := &apiMetrics{
		set:         set,
		connections: set.NewGauge("seb_http_connections", nil),
		held:        set.NewCounter("seb_http_connections_held_total"),
		evicted:     set.NewCounter("seb_http_connections_evicted_total"),
		refused:     set.NewCounter("seb_http_connections_refused_total"),
		produced:    set.NewCounter("seb_http_produced_records_total"),
		producedIn:  set.NewCounter("seb_http_produced_bytes_total"),
		read:        set.NewCounter("seb_http_read_records_total"),
		readOut:     set.NewCounter("seb_http_read_bytes_total"),
		forwarding:  set.NewPrometheusHistogram("seb_http_forward_duration_seconds"),
		forwards:    set.NewCounter(forwardsWith(codeOK)),
		routes:      map[routeKey]routeMetrics{},
	}
	set.GetOrCreateGauge("seb_http_connections_limit", nil).Set(float64(connections))
	for _, rt := range append([]route{{}}, routes...) {
		m.routes[rt.key()] = routeMetrics{
			duration: set.NewPrometheusHistogram(fmt.Sprintf("seb_http_request_duration_seconds{route=%q}", rt.name())),
			ok:       set.NewCounter(requestsOf(rt.name(), codeOK)),
		}
	}
	return m
}

// served counts an answer; code is "ok" or that of the problem.
func (m *apiMetrics) served(rt *route, code string, took time.Duration) {
	r := m.routes[rt.key()]
	if code == codeOK {
		r.ok.Inc()
	} else {
		m.set.GetOrCreateCounter(requestsOf(rt.name(), code)).Inc()
	}
	r.duration.Update(took.Seconds())
}

// forwarded counts a request that was forwarded to the leader, or should have been. code is "ok" if the
// leader's answer, whatever it was, has reached the client.
func (m *apiMetrics) forwarded(code string, took time.Duration) {
	if code == codeOK {
		m.forwards.Inc()
	} else {
		m.set.GetOrCreateCounter(forwardsWith(code)).Inc()
	}
	m.forwarding.Update(took.Seconds())
}

func forwardsWith(code string) string { return fmt.Sprintf("seb_http_forwards_total{code=%q}", code) }

// codeOK is the code of a successful answer.
const codeOK = "ok"

func requestsOf(route, code string) string {
	return fmt.Sprintf("seb_http_requests_total{route=%q,code=%q}", route, code)
}
