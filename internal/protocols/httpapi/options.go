package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/riemann/index"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
)

// Options configure New. A zero field means its default.
type Options struct {
	// Auth authenticates clients and manages their tokens. Required. The caller closes it after
	// Stop.
	Auth *auth.Authority
	// Logins records failed logins; nil does not.
	Logins *auth.Failures
	// Origins are those of web pages on other hosts that may use the API, such as
	// https://app.example.com. Hosts are the names of this broker, besides localhost and IP
	// addresses, with which routes without a key answer.
	Origins, Hosts []string
	// Logger receives log lines; nil discards them.
	Logger *slog.Logger
	// Metrics is the set to which this package adds its metrics; nil makes one.
	Metrics *metrics.Set
	// Keys is the index of record keys; with nil the routes of keys report that there is none.
	Keys KeyIndex
	// EventsTopic is the default topic of POST /event. Default "events".
	EventsTopic string
	// OriginalEvent finds an event of the entity with this ID in the partition. The trigger engine
	// will then ignore a new event with that ID. known is false if the engine cannot tell. It must
	// not wait for other machines. With nil, answers do not report duplicates.
	OriginalEvent func(ctx context.Context, topic string, partition int32, entity, id string) (offset int64, there, known bool)
	// Triggers is the trigger engine; with nil the routes of triggers report that there is none.
	// WebhookTargets are the addresses that webhooks may use.
	Triggers       *rules.Engine
	WebhookTargets webhook.Policy
	// Riemann is the index of Riemann events; with nil the route of it reports that there is none.
	Riemann *index.Index
	// Queues are the queues of the broker; with nil the routes of queues report that there are none.
	Queues *queue.Queues
	// NoSQS disables the SQS API, which is on if there are queues. SQSBase is the URL of the broker in the
	// URLs of queues; "": that of the request.
	NoSQS   bool
	SQSBase string
	// Groups changes committed offsets; nil means the broker, which does not know group members.
	Groups Groups
	// Members describes the members of groups; nil means that groups have none.
	Members Members
	// ProfileLabels adds the kind of request and its topic to profiles of the process, at a small
	// cost.
	ProfileLabels bool
	// WriteMetrics writes the answer to GET /metrics; nil writes Metrics.
	WriteMetrics func(io.Writer)

	// Stats has the figures of GET /stats; with nil the broker keeps none.
	Stats *stats.Sampler
	// Latency has the histograms of GET /latency; nil: none.
	Latency *stats.Latency

	// PeerLink takes over the connection of another broker (link.Net.Accept), or returns an error
	// before it has written anything; with nil the broker has no links.
	PeerLink func(w http.ResponseWriter, r *http.Request) error

	// Console serves a file of the web console, or returns false if there is none of the request's
	// path; with nil the broker has no console.
	Console func(w http.ResponseWriter, r *http.Request) bool

	// Cost has the figures of GET /cost; nil counts the commit objects of the month, without prices.
	Cost *cost.Meter

	// Cluster is what this broker knows of the other brokers of its bucket; nil: nothing. Control
	// changes them; nil: not. ClusterTLS configures connections to brokers at https:// addresses; nil:
	// the system's authorities.
	Cluster    cluster.View
	Control    cluster.Control
	ClusterTLS *tls.Config
	// LeaderWait bounds the time that a request waits for a leader, and a read for the position that
	// it names. Default 2 s.
	LeaderWait time.Duration

	// Run identifies the process, for GET /healthz.
	Run string
	// Version, Started and Store are for GET /status. Warnings adds to the warnings there.
	Version  string
	Started  time.Time
	Store    string
	Warnings func() []string
	// Compaction returns the running compaction, for GET /status; nil: none.
	Compaction func() compact.Pass
	// Kafka returns the listener for Kafka clients, for GET /status; nil without one.
	Kafka func() *api.KafkaStatus
	// RiemannStatus returns the endpoint for Riemann clients, for GET /status; nil without one.
	RiemannStatus func() *api.RiemannStatus

	// Limits bounds the connections of all listeners; nil: those of this one. Connections bounds
	// those of this one, 0: not. A further one replaces a connection without a request, after KeepIdle if
	// that had an authorized request. Otherwise it is queued for QueueWait, and then refused, unless its
	// request can replace a waiting reader. Defaults 5 s and 500 ms. TLSBytes is the memory of
	// a connection for TLS.
	Limits      *connlimit.Limiter
	Connections int
	TLSBytes    int64
	KeepIdle    time.Duration
	QueueWait   time.Duration
	// RecordsMax bounds the records of a request, and of an answer in a decoded encoding. Default
	// 262,144.
	RecordsMax int
	// HeaderTimeout bounds a request's headers, IdleTimeout the wait for the next request. Defaults
	// 10 s, 2 min.
	HeaderTimeout, IdleTimeout time.Duration
	// StepTimeout is the progress timeout: it bounds each 64 KiB of a body, in both directions.
	// Default 15 s.
	StepTimeout time.Duration
	// AckTimeout bounds the wait of a write for the store, unless the request sets it. Then records
	// that were sent have an unknown outcome, and others are rejected. Default 60 s.
	AckTimeout time.Duration
	// OriginalClient protects the original's client at reads without an Accept header too: an error
	// other than 401, 404 and 413 cuts the connection.
	OriginalClient bool
	// BudgetWait bounds the wait for memory of a request that may be of the original's client.
	// Other requests do not wait. Default 60 s.
	BudgetWait time.Duration
	// Heartbeat is the time between comments on an idle event stream. Default 15 s.
	Heartbeat time.Duration
}

// Node is a broker with what follows its log (package node).
type Node interface {
	Keys() *keyindex.View     // nil: no key index
	Triggers() *rules.Engine  // nil: no triggers
	Riemann() *index.Index    // nil: no index of Riemann events
	Queues() *queue.Queues    // of the broker
	Cost() *cost.Meter        // nil: no prices
	StoreName() string        // of the bucket, for people
	Compaction() compact.Pass // the running one
}

// OptionsOf returns options with what a node has: its indexes, its triggers and its costs.
func OptionsOf(n Node) Options {
	o := Options{Keys: n.Keys(), Triggers: n.Triggers(), Riemann: n.Riemann(), Queues: n.Queues(), Cost: n.Cost(), Store: n.StoreName(), Compaction: n.Compaction}
	if engine := n.Triggers(); engine != nil {
		o.OriginalEvent = func(ctx context.Context, topic string, partition int32, entity, id string) (int64, bool, bool) {
			return engine.Duplicate(ctx, topic, uint32(partition), entity, id)
		}
	}
	return o
}

// Groups commits and deletes offsets, with the errors of package broker. A group with members gives
// broker.ErrGroupActive.
type Groups interface {
	// CommitOffsets is like broker.Broker.CommitOffsets.
	CommitOffsets(ctx context.Context, group string, commits []broker.OffsetCommit) []error
	// DeleteGroup is like broker.Broker.DeleteGroup.
	DeleteGroup(ctx context.Context, group string) error
	// DeleteOffset is like broker.Broker.DeleteOffset.
	DeleteOffset(ctx context.Context, group, topic string, partition int32) error
}

// ReaderBytes is the memory of a connection whose request waits for records, without TLS.
const ReaderBytes = httpconn.PollBytes

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Auth == nil {
		errs = append(errs, errors.New("authority is required"))
	}
	if o.Connections < 0 {
		errs = append(errs, fmt.Errorf("connections %d: want 1 or more", o.Connections))
	}
	if o.RecordsMax < 0 {
		errs = append(errs, fmt.Errorf("records of a request %d: want 1 or more", o.RecordsMax))
	}
	if o.EventsTopic != "" {
		if err := state.CheckTopicName(o.EventsTopic); err != nil {
			errs = append(errs, fmt.Errorf("events topic: %w", err))
		}
	}
	for _, d := range o.durations() {
		if *d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %s: want more than 0", d.name, *d.value))
		}
	}
	return errors.Join(errs...)
}

// duration is an option with its name and default.
type duration struct {
	name      string
	value     *time.Duration
	otherwise time.Duration
}

func (o *Options) durations() []duration {
	return []duration{
		{"header timeout", &o.HeaderTimeout, 10 * time.Second},
		{"idle timeout", &o.IdleTimeout, 2 * time.Minute},
		{"queue wait", &o.QueueWait, 500 * time.Millisecond},
		{"keep idle", &o.KeepIdle, 5 * time.Second},
		{"step timeout", &o.StepTimeout, 15 * time.Second},
		{"ack timeout", &o.AckTimeout, time.Minute},
		{"budget wait", &o.BudgetWait, time.Minute},
		{"heartbeat", &o.Heartbeat, 15 * time.Second},
		{"leader wait", &o.LeaderWait, 2 * time.Second},
	}
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	if o.WriteMetrics == nil {
		o.WriteMetrics = o.Metrics.WritePrometheus
	}
	for _, d := range o.durations() {
		*d.value = cmp.Or(*d.value, d.otherwise)
	}
	if o.Limits == nil {
		o.Limits = connlimit.New(connlimit.Options{Logger: o.Logger})
	}
	o.RecordsMax = cmp.Or(o.RecordsMax, 256<<10)
	o.EventsTopic = cmp.Or(o.EventsTopic, "events")
	return o
}
