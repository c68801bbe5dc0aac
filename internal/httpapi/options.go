package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/logins"
	"github.com/sebbroker/seb/internal/trigger"
)

// Options are what New needs besides the broker. A zero field means its default.
type Options struct {
	// APIKey is the key that clients must give. Required; only its digest is kept.
	APIKey string
	// Logins notes failed logins; nil does not.
	Logins *logins.Failures
	// Logger; nil discards.
	Logger *slog.Logger
	// Metrics is the set that this package's metrics are added to; nil makes one.
	Metrics *metrics.Set
	// Keys is the index of record keys; nil: the routes of keys say that there is none.
	Keys KeyIndex
	// EventsTopic is where POST /event puts events unless the request names a topic. Default "events".
	EventsTopic string
	// OriginalEvent says whether the engine of triggers will ignore an event that is about to be appended, as one of the entity
	// with its id was there in that partition, and at which offset that is; known is false if it can not tell. It must not wait for
	// other machines. nil: nobody knows, and answers say nothing about it.
	OriginalEvent func(ctx context.Context, topic string, partition int32, entity, id string) (offset int64, there, known bool)
	// Triggers is the engine of triggers; nil: the routes of triggers say that there is none. WebhookTargets is which addresses
	// their webhooks may go to.
	Triggers       *trigger.Engine
	WebhookTargets webhook.Policy
	// Groups changes what consumer groups have committed; nil: the broker does, which knows of no members.
	Groups Groups
	// ProfileLabels marks what requests do in profiles of the process with the kind of request and its topic. It costs a little.
	ProfileLabels bool
	// WriteMetrics writes the answer to GET /metrics; nil writes Metrics.
	WriteMetrics func(io.Writer)

	// Connections is how many are served at once. One more replaces one that carries no request and had none with the key for
	// KeepIdle, or waits for DoorWait and is refused then. Defaults 1024, 5 s and 500 ms.
	Connections int
	KeepIdle    time.Duration
	DoorWait    time.Duration
	// RecordsMax is how many records one request may bring, and one answer in a form that decodes may hold. Default 262,144.
	RecordsMax int
	// HeaderTimeout is for a request's headers, IdleTimeout for the next request on a connection. Defaults 10 s, 2 min.
	HeaderTimeout, IdleTimeout time.Duration
	// StepTimeout is how long the first, and then every further, 64 KiB of a body may take, either way. Default 15 s.
	StepTimeout time.Duration
	// AckTimeout is how long a write waits for the store unless the request says otherwise; then what was sent is unknown and
	// what was not is rejected. Default 60 s.
	AckTimeout time.Duration
	// OriginalClient extends the caution for the original's client to its reads without an Accept header: an error other than
	// 401, 404 and 413 cuts the connection.
	OriginalClient bool
	// BudgetWait is how long a request that may be the original's client's waits for memory; others are refused at once.
	// Default 60 s.
	BudgetWait time.Duration
	// Heartbeat is the time between comments on an event stream that has nothing else to say. Default 15 s.
	Heartbeat time.Duration
}

// Groups is where offsets are committed and deleted, with the errors of package broker: broker.ErrGroupActive of a group with
// members.
type Groups interface {
	// CommitOffsets is broker.Broker.CommitOffsets.
	CommitOffsets(ctx context.Context, group string, commits []broker.OffsetCommit) []error
	// DeleteGroup is broker.Broker.DeleteGroup.
	DeleteGroup(ctx context.Context, group string) error
	// DeleteOffset is broker.Broker.DeleteOffset.
	DeleteOffset(ctx context.Context, group, topic string, partition int32) error
}

// ConnectionsWithin is the value of Options.Connections with which no more than open, but at least two, are open at once.
func ConnectionsWithin(open int) int { return httpconn.Served(open) }

// ConnectionsOpen is the least number of open connections of which n are served at once: ConnectionsWithin of it is n or more.
func ConnectionsOpen(n int) int { return httpconn.Open(n) }

// Validate reports every fault at once.
func (o *Options) Validate() error {
	var errs []error
	if o.APIKey == "" {
		errs = append(errs, errors.New("an API key is required"))
	}
	if o.Connections < 0 {
		errs = append(errs, fmt.Errorf("connections %d: want 1 or more", o.Connections))
	}
	if o.RecordsMax < 0 {
		errs = append(errs, fmt.Errorf("records of a request %d: want 1 or more", o.RecordsMax))
	}
	if o.EventsTopic != "" {
		if err := state.CheckTopicName(o.EventsTopic); err != nil {
			errs = append(errs, fmt.Errorf("topic of events: %w", err))
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"header timeout", o.HeaderTimeout},
		{"idle timeout", o.IdleTimeout},
		{"door wait", o.DoorWait},
		{"keep idle", o.KeepIdle},
		{"step timeout", o.StepTimeout},
		{"ack timeout", o.AckTimeout},
		{"budget wait", o.BudgetWait},
		{"heartbeat", o.Heartbeat},
	} {
		if d.d < 0 {
			errs = append(errs, fmt.Errorf("%s %s: want more than 0", d.name, d.d))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	if o.WriteMetrics == nil {
		o.WriteMetrics = o.Metrics.WritePrometheus
	}
	for _, d := range []struct {
		to        *time.Duration
		otherwise time.Duration
	}{
		{&o.HeaderTimeout, 10 * time.Second},
		{&o.IdleTimeout, 2 * time.Minute},
		{&o.DoorWait, 500 * time.Millisecond},
		{&o.KeepIdle, 5 * time.Second},
		{&o.StepTimeout, 15 * time.Second},
		{&o.AckTimeout, time.Minute},
		{&o.BudgetWait, time.Minute},
		{&o.Heartbeat, 15 * time.Second},
	} {
		if *d.to == 0 {
			*d.to = d.otherwise
		}
	}
	if o.Connections == 0 {
		o.Connections = 1024
	}
	if o.RecordsMax == 0 {
		o.RecordsMax = 256 << 10
	}
	if o.EventsTopic == "" {
		o.EventsTopic = "events"
	}
	return o
}
