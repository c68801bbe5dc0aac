package broker

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
)

// meters are the metrics of a broker. The log and the range reader have their own.
type meters struct {
	refused               *metrics.Counter // appends refused before the log
	fetches, fetchedBytes *metrics.Counter
	tailReads             *metrics.Counter // ranges read from memory
	corrupt               *metrics.Counter
	retained              *metrics.Counter // trims of partitions by retention
	auditDropped          *metrics.Counter // denials and failed logins without an audit record
	tailObjects, waiting  atomic.Int64
}

func newMeters(o *Options) *meters {
	s := o.Metrics
	m := &meters{
		refused:      s.GetOrCreateCounter(`seb_broker_appends_refused_total`),
		fetches:      s.GetOrCreateCounter(`seb_broker_fetches_total`),
		fetchedBytes: s.GetOrCreateCounter(`seb_broker_fetched_bytes_total`),
		tailReads:    s.GetOrCreateCounter(`seb_broker_tail_reads_total`),
		retained:     s.GetOrCreateCounter(`seb_broker_retention_trims_total`),
		auditDropped: s.GetOrCreateCounter(`seb_audit_dropped_total`),
		corrupt:      s.GetOrCreateCounter(`seb_broker_corrupt_reads_total`),
	}
	s.GetOrCreateGauge(`seb_broker_tail_objects`, func() float64 { return float64(m.tailObjects.Load()) })
	s.GetOrCreateGauge(`seb_broker_waiting_fetches`, func() float64 { return float64(m.waiting.Load()) })
	for _, k := range budget.Kinds() {
		class := o.Budget.Class(k)
		// these are measured, not reserved: see Open and package node
		if k != budget.State && k != budget.Triggers {
			s.GetOrCreateGauge(`seb_memory_reserved_bytes{class="`+k.String()+`"}`, func() float64 { return float64(class.Used()) })
		}
		s.GetOrCreateGauge(`seb_memory_limit_bytes{class="`+k.String()+`"}`, func() float64 { return float64(class.Limit()) })
	}
	return m
}

func (m *meters) fetched(f *Fetched) {
	m.fetches.Inc()
	for i := range f.Parts {
		for j := range f.Parts[i].Chunks {
			m.fetchedBytes.AddInt64(f.Parts[i].Chunks[j].Size)
		}
	}
}
