package broker

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// Options configure a Broker. Store must be set; for every other field the zero value means the
// default.
type Options struct {
	// Options are those of the log. Store may be behind a cache; Core.ReadOnly and Core.Advertised also
	// apply to the broker, and Timeouts to its reads of records. Budget is the memory, by default 256 MiB.
	// The broker sets QueueBytes, and all Hooks but Fed and FillCache.
	log.Options
	// InDoubt, if not nil, reports whether this leader may have been deposed without knowing it. Confirm
	// then looks at the log.
	InDoubt func() bool
	// Told, if not nil, returns a position of the leader, as cluster.Core.Told does. A follower that has
	// applied it needs no look at the log for a state of that age.
	Told func() (pos state.Position, age time.Duration, ok bool)
	// Internal are topics that only AppendChange writes, and that EnsureTopic does not create.
	Internal []string
	// AutoCreate lets EnsureTopic create topics with DefaultPartitions partitions; default 1.
	AutoCreate        bool
	DefaultPartitions int
	// ShareReads makes equal concurrent reads share one request: for remote stores without a cache
	// in front.
	ShareReads bool
	// RetentionEvery is the interval of retention; default one minute. Now is the clock of
	// retention and of committed offsets; default the log's.
	RetentionEvery time.Duration
	Now            func() time.Time
	// TransactionsEvery is the interval at which a leader looks for transactions beyond their timeout; default one
	// second.
	TransactionsEvery time.Duration
	// Committed, if not nil, is called for each slot that this broker has stored, in order, before it is
	// acknowledged. It must be quick and must not call the Broker.
	Committed func(c *log.Committed)
	// Changed, if not nil, is called after each change of the committed state, while the state is
	// locked. It must be quick and must not call the broker, because the broker's methods lock the
	// state. With topics, more than new records may have changed.
	Changed func(topics bool)
	// InUse, if not nil, returns an ErrTopicInUse if a topic is in use. DeleteTopic then refuses to
	// delete it.
	InUse func(ctx context.Context, topic string) error
	// AuditTopic is the topic of audit records; "": none. It is created before the first of them.
	AuditTopic string
	// Origin describes, in audit records, the client of changes whose context has none.
	Origin audit.Origin
}

const (
	limitDefault = 256 << 20
	// maxBytesDefault is the MaxBytes of a Want without it.
	maxBytesDefault = 1 << 20
	retentionEvery  = time.Minute
	// transactionsEvery is the default of Options.TransactionsEvery.
	transactionsEvery = time.Second
	// readTimeout and readPerMiB are the default limits for one attempt to read records from the
	// store. The log has its own, which leave time for a second attempt at a slow LIST.
	readTimeout = 10 * time.Second
	readPerMiB  = time.Second
	// confirmTimeout bounds a confirmation. standbyTimeout bounds confirmations, and attempts to read
	// records, of a standby whose leader can answer instead.
	confirmTimeout = 30 * time.Second
	standbyTimeout = 2 * time.Second
	// readsMax is the largest number of ranges that one Fetch reads. The next call continues after
	// them.
	readsMax = 64
	// followLinger is how long a follower continues to follow after its last reader.
	followLinger = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Budget == nil {
		o.Budget = budget.New(limitDefault)
	}
	if o.RetentionEvery <= 0 {
		o.RetentionEvery = retentionEvery
	}
	if o.TransactionsEvery <= 0 {
		o.TransactionsEvery = transactionsEvery
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	return o
}

// meters are the metrics of a broker. The log and the range reader have their own.
type meters struct {
	refused               *metrics.Counter // appends refused before the log
	fetches, fetchedBytes *metrics.Counter
	tailReads             *metrics.Counter // ranges read from memory
	corrupt               *metrics.Counter
	retained              *metrics.Counter // trims of partitions by retention
	transactionsExpired   *metrics.Counter // aborted after their timeout
	auditDropped          *metrics.Counter // denials and failed logins without an audit record
	tailObjects, waiting  atomic.Int64
}

func newMeters(o *Options) *meters {
	s := o.Metrics
	m := &meters{
		refused:             s.GetOrCreateCounter(`seb_broker_appends_refused_total`),
		fetches:             s.GetOrCreateCounter(`seb_broker_fetches_total`),
		fetchedBytes:        s.GetOrCreateCounter(`seb_broker_fetched_bytes_total`),
		tailReads:           s.GetOrCreateCounter(`seb_broker_tail_reads_total`),
		retained:            s.GetOrCreateCounter(`seb_broker_retention_trims_total`),
		transactionsExpired: s.GetOrCreateCounter(`seb_broker_transactions_expired_total`),
		auditDropped:        s.GetOrCreateCounter(`seb_audit_dropped_total`),
		corrupt:             s.GetOrCreateCounter(`seb_broker_corrupt_reads_total`),
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
