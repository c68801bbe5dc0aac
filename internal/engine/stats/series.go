package stats

import (
	"bytes"
	"math"
	"strconv"
)

// series is a figure that is computed from metrics.
type series struct {
	name, unit string
	metric     string  // name of the metric
	labels     string  // part of the labels that selects its series; all that match are added
	quantile   float64 // of the histogram; 0: a rate or a gauge
	gauge      bool
}

// table lists all series.
var table = []series{
	{name: "http_records_in", unit: "records/s", metric: "seb_http_produced_records_total"},
	{name: "http_bytes_in", unit: "bytes/s", metric: "seb_http_produced_bytes_total"},
	{name: "http_records_out", unit: "records/s", metric: "seb_http_read_records_total"},
	{name: "http_bytes_out", unit: "bytes/s", metric: "seb_http_read_bytes_total"},
	{name: "kafka_records_in", unit: "records/s", metric: "seb_kafka_produced_records_total"},
	{name: "kafka_bytes_in", unit: "bytes/s", metric: "seb_kafka_produced_bytes_total"},
	{name: "kafka_bytes_out", unit: "bytes/s", metric: "seb_kafka_fetched_bytes_total"},
	{name: "commit_p50", unit: "s", metric: "seb_log_ack_seconds", quantile: 0.5},
	{name: "commit_p99", unit: "s", metric: "seb_log_ack_seconds", quantile: 0.99},
	{name: "commit_p999", unit: "s", metric: "seb_log_ack_seconds", quantile: 0.999},
	{name: "put_p50", unit: "s", metric: "seb_store_put_seconds", quantile: 0.5},
	{name: "put_p99", unit: "s", metric: "seb_store_put_seconds", quantile: 0.99},
	{name: "put_p999", unit: "s", metric: "seb_store_put_seconds", quantile: 0.999},
	{name: "store_puts", unit: "requests/s", metric: "seb_store_requests_total", labels: `request="put"`},
	{name: "store_gets", unit: "requests/s", metric: "seb_store_requests_total", labels: `request="get"`},
	{name: "store_lists", unit: "requests/s", metric: "seb_store_requests_total", labels: `request="list"`},
	{name: "queued", unit: "bytes", metric: "seb_log_queue_bytes", gauge: true},
	{name: "memory", unit: "bytes", metric: "seb_memory_reserved_bytes", gauge: true},
	{name: "http_connections", unit: "connections", metric: "seb_http_connections", gauge: true},
	{name: "kafka_connections", unit: "connections", metric: "seb_kafka_connections", gauge: true},
	{name: "group_lag_records", unit: "records", metric: "seb_group_lag_records", gauge: true},
	{name: "trigger_lag_records", unit: "records", metric: "seb_triggers_lag_records", gauge: true},
	{name: "trigger_lag", unit: "s", metric: "seb_triggers_lag_seconds", gauge: true},
	{name: "deliveries", unit: "attempts/s", metric: "seb_deliveries_attempts_total"},
	{name: "deliveries_pending", unit: "firings", metric: "seb_deliveries_pending", gauge: true},
	{name: "deliveries_dead", unit: "firings/s", metric: "seb_deliveries_dead_total"},
}

// bucketsMax bounds the buckets of a histogram that are read.
const bucketsMax = 16

// reading is the value of a series at one time. there is false if the metric does not exist.
type reading struct {
	there bool
	value float64 // of a counter or gauge, or the observations of a histogram

	bounds, counts [bucketsMax]float64 // upper bounds and cumulative counts of a histogram
	buckets        int
}

// parse reads the values of table from the Prometheus text format.
func parse(text []byte) (all [tableSize]reading) {
	for line := range bytes.Lines(text) {
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		at := bytes.LastIndexByte(line, ' ')
		if at < 0 {
			continue
		}
		name, labels := line[:at], []byte(nil)
		if i := bytes.IndexByte(name, '{'); i >= 0 {
			name, labels = name[:i], name[i:]
		}
		if !bytes.HasPrefix(name, []byte("seb_")) {
			continue
		}
		for i := range table {
			all[i].read(&table[i], name, labels, bytes.TrimSpace(line[at:]))
		}
	}
	return all
}

// read adds a line to the value of a series if the line belongs to it.
func (r *reading) read(s *series, name, labels, text []byte) {
	rest, ok := bytes.CutPrefix(name, []byte(s.metric))
	isBucket := s.quantile > 0 && string(rest) == "_bucket"
	if !ok || len(rest) > 0 && !isBucket || !bytes.Contains(labels, []byte(s.labels)) {
		return
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return
	}
	r.there = true
	if !isBucket {
		r.value += v
		return
	}
	_, le, _ := bytes.Cut(labels, []byte(`le="`))
	le, _, _ = bytes.Cut(le, []byte(`"`))
	bound, err := strconv.ParseFloat(string(le), 64)
	if err != nil || r.buckets == bucketsMax {
		return
	}
	r.bounds[r.buckets], r.counts[r.buckets] = bound, v
	r.buckets++
}

// figure is the value of a series between two readings that are seconds apart: NaN without one.
func (s *series) figure(before, now *reading, seconds float64) float64 {
	switch {
	case !now.there:
		return math.NaN()
	case s.gauge:
		return now.value
	case !before.there:
		return math.NaN()
	case s.quantile > 0:
		return quantile(s.quantile, before, now)
	}
	return max(0, now.value-before.value) / seconds
}

// quantile interpolates within a bucket of the observations between two readings, as
// histogram_quantile of Prometheus does. Beyond the last finite bound it returns that bound.
func quantile(q float64, before, now *reading) float64 {
	n := now.buckets
	if n == 0 || n != before.buckets {
		return math.NaN()
	}
	count := func(i int) float64 { return now.counts[i] - before.counts[i] }
	total := count(n - 1) // the last bound is +Inf
	if total <= 0 {
		return math.NaN()
	}
	below, low := 0.0, 0.0
	for i := range n {
		c := count(i)
		if c >= q*total {
			if math.IsInf(now.bounds[i], 1) {
				return low
			}
			return low + (now.bounds[i]-low)*(q*total-below)/(c-below)
		}
		below, low = c, now.bounds[i]
	}
	return low
}
