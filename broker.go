package seb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/operate/quiet"
	"github.com/sebbroker/seb/internal/triggers/delivery"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

func init() { quiet.Restore() } // after all imported packages are initialized

// Options describe the broker to open. Bucket is required; the zero value of every other field
// selects its default.
type Options struct {
	// Bucket is the object store: "./folder", "mem:" or
	// "s3://name/prefix?endpoint=...&region=...&path-style=true".
	Bucket string
	// DataDir is a local folder for data that can be rebuilt: the disk cache of a remote bucket,
	// the key index and the result of the store check. "" keeps none of them. Two brokers cannot
	// share a folder.
	DataDir string
	// CacheBytes bounds the disk cache. 0 means 1 GiB; a negative value disables the cache. The
	// cache needs DataDir.
	CacheBytes int64
	// ReadOnly makes the broker follow the log of another broker. It writes nothing.
	ReadOnly bool
	// HoldUpgrade keeps the format level of a bucket that an older program wrote. Otherwise the
	// first write 10 minutes or more after Open raises the bucket to the highest level that this
	// program knows. Older programs refuse it from then on.
	HoldUpgrade bool
	// AuditTopic is the topic of audit records, which Seb creates: each change of topics, groups and
	// triggers has one. "" makes none.
	AuditTopic string
	// NoAutoCreate refuses records for unknown topics instead of creating the topic.
	NoAutoCreate bool
	// BatchWait is the time to collect records for one object. 0 means as long as PutBudget demands on
	// remote buckets, 5 ms on local ones, and none in a journal; a negative value disables collecting.
	BatchWait time.Duration
	// PutBudget bounds the price of the requests that write to a remote bucket: dollars such as
	// "20USD/month", PUTs such as "5/s", or "off" for a fixed wait of 250 ms. "" means 52USD/month at
	// the prices of s3-standard. It cannot be combined with a BatchWait.
	PutBudget string
	// Prices is the price list of the bucket: s3-standard, s3-express, r2, b2, gcs, free, or a file. ""
	// means s3-standard for remote buckets.
	Prices string
	// BatchBytes is the object size that ends collecting early. 0 means 10 MiB.
	BatchBytes int64
	// MemoryLimit bounds all buffers, in bytes. 0 means 256 MiB.
	MemoryLimit int64
	// WebhookTargets are the private addresses that webhooks may use: prefixes such as
	// "10.0.0.0/8", addresses, or "all". Public addresses are always allowed. Open returns an error
	// if it cannot parse an entry.
	WebhookTargets []string
	// SecretsKeys is the text of a key file of `seb secrets init`. The broker encrypts the secrets of
	// webhooks in the bucket with it. "": they are stored readable, and encrypted ones cannot be
	// used. Open returns an error if it cannot parse the text.
	SecretsKeys string
	// NoDelivery disables the delivery of firings to webhooks and topics. The broker evaluates
	// triggers, and the next broker that delivers sends their firings.
	NoDelivery bool
	// APIKey is the root key of Handler: requests with it may do everything. "": Handler serves only
	// requests with a token, which Client().CreateToken makes.
	APIKey string
	// Hosts are names of hosts, besides localhost and IP addresses, at which Handler serves what needs
	// no key: the files of the console, /healthz, /readyz and /openapi.json.
	Hosts []string
	// Logger receives the log; nil disables logging.
	Logger *slog.Logger
}

// eventsTopic is the topic of events whose sender names no other.
const eventsTopic = "events"

// cacheBytes is the default of Options.CacheBytes.
const cacheBytes = 1 << 30

// Errors that callers may test for with errors.Is.
var (
	ErrOutcomeUnknown   = state.ErrOutcomeUnknown // the records may appear once, or never
	ErrUnknownTopic     = state.ErrUnknownTopic
	ErrUnknownPartition = state.ErrUnknownPartition
	ErrTopicExists      = state.ErrTopicExists
	ErrTopicInUse       = broker.ErrTopicInUse    // triggers use the topic
	ErrInternalTopic    = broker.ErrInternalTopic // only Seb writes to the topic
	ErrNotAQueue        = queue.ErrNotQueue       // the topic is no queue
	ErrQueueFull        = broker.ErrQueueFull     // retry later
	ErrOffsetMismatch   = state.ErrOffsetMismatch
	ErrBelowStart       = broker.ErrBelowStart // the records were removed
	ErrUnknownGroup     = state.ErrUnknownGroup
	ErrBeyondEnd        = state.ErrBeyondEnd
	ErrSequenceGap      = state.ErrSequenceGap    // in the batches of an idempotent producer
	ErrProducerFenced   = state.ErrProducerFenced // a newer epoch of the producer has appended
	ErrFenced           = state.ErrFenced         // another broker has taken over
	ErrReadOnly         = state.ErrReadOnly
	ErrOverBudget       = state.ErrOverBudget // the memory budget is used up; retry later
	ErrTooLarge         = broker.ErrTooLarge
	ErrInvalid          = state.ErrInvalid
	ErrStoreUnavailable = state.ErrStoreUnavailable
	ErrCorrupt          = state.ErrCorrupt // stored data is damaged; nothing was removed
	ErrClosed           = broker.ErrClosed
	// The bucket has a format level that this program does not know: a newer program raised it.
	ErrNewerFormat = state.ErrNewer
)

// Broker is a broker in this process. Its methods may be called concurrently.
type Broker struct {
	n        *node.Node
	dispatch *delivery.Dispatcher // nil: no delivery
	o        Options
	targets  webhook.Policy
	metrics  *metrics.Set
	latency  stats.Latency

	mu     sync.Mutex // guards the fields below
	closed bool
	front  *front // nil before the first Handler or Client
}

// Open opens a broker and waits until it leads, or follows if ReadOnly is set. If ctx ends first,
// Open closes everything and returns an error. The broker does not use ctx after Open has returned.
// Open checks a remote bucket on its first use, which takes seconds.
//
// A leader delivers the firings of the bucket's triggers, as a server does. Client and Handler define
// triggers.
func Open(ctx context.Context, o Options) (*Broker, error) {
	if o.Bucket == "" {
		return nil, errors.New("open broker: Options.Bucket is required")
	}
	if o.AuditTopic != "" {
		if err := node.CheckPurpose(o.AuditTopic, eventsTopic); err != nil {
			return nil, fmt.Errorf("open broker: Options.AuditTopic: %w", err)
		}
	}
	if o.APIKey != "" {
		if err := checkKey(o.APIKey); err != nil {
			return nil, fmt.Errorf("open broker: Options.APIKey: %w", err)
		}
	}
	targets, err := policy(&o)
	if err != nil {
		return nil, err
	}
	b := &Broker{o: o, targets: targets, metrics: metrics.NewSet()}
	no := node.Options{
		Bucket: o.Bucket, DataDir: o.DataDir, ReadOnly: o.ReadOnly, HoldUpgrade: o.HoldUpgrade, NoAutoCreate: o.NoAutoCreate,
		AuditTopic: o.AuditTopic, Origin: audit.Origin{Principal: access.RootID, Protocol: audit.Library}, Metrics: b.metrics, Latency: &b.latency, BatchWait: o.BatchWait, BatchBytes: o.BatchBytes, MemoryLimit: o.MemoryLimit, Logger: o.Logger,
	}
	if o.BatchWait < 0 {
		no.BatchWait = node.BatchNone
	}
	if err := putBudget(&o, &no); err != nil {
		return nil, err
	}
	if o.DataDir != "" && o.CacheBytes >= 0 {
		no.CacheDir, no.CacheBytes = filepath.Join(o.DataDir, "cache"), o.CacheBytes
		no.CacheBytes = cmp.Or(no.CacheBytes, cacheBytes)
	}
	if o.SecretsKeys != "" {
		if no.SecretsKeys, err = secrets.Parse(o.SecretsKeys); err != nil {
			return nil, fmt.Errorf("open broker: Options.SecretsKeys: %w", err)
		}
	}
	n, err := node.Open(ctx, no)
	if err != nil {
		return nil, err
	}
	b.n = n
	if b.dispatch, err = deliver(ctx, n, targets, &o); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return b, nil
}

// Close stops deliveries, stores and acknowledges the records in progress, and closes the broker.
// The next broker on the bucket repeats interrupted deliveries. If ctx ends first, Close returns
// its error: the broker rejects unsent records, and the outcome of the others is unknown. Close may
// be called twice.
func (b *Broker) Close(ctx context.Context) error {
	b.mu.Lock()
	f := b.front
	b.closed = true
	b.mu.Unlock()
	if f != nil {
		f.close(ctx, b)
	}
	if b.dispatch != nil {
		b.dispatch.Close()
	}
	return b.n.Close(ctx)
}

// Done is closed when the broker cannot continue: it was fenced, its data is corrupt, or it was
// closed. Err returns the reason.
func (b *Broker) Done() <-chan struct{} { return b.n.Done() }

// Err returns the reason why Done is closed, and nil before.
func (b *Broker) Err() error { return b.n.Err() }

// Ready returns nil if the broker leads or follows and the last request to the store succeeded. It
// sends no request.
func (b *Broker) Ready() error { return b.n.Ready() }

// Epoch returns the number of the broker's leadership. Every takeover increases it.
func (b *Broker) Epoch() uint32 { return b.n.Epoch() }

// ResetTime sets the log time back to the machine's clock if the log time is later, and returns
// when that is durable. The broker stores nothing while its clock contradicts the log time or the
// store's clock.
func (b *Broker) ResetTime(ctx context.Context) error {
	_, err := b.n.ResetTime(ctx)
	return err
}

// FormatLevel returns the format level of the bucket and the highest level that this program knows.
func (b *Broker) FormatLevel() (now, highest uint32) {
	v := b.n.Level()
	return v.Now, v.Max
}

// FinalizeUpgrade raises the bucket to the highest format level that this program knows, and
// returns when that is durable. Programs that do not know the level refuse the bucket from then on.
// A bucket at that level stays unchanged.
func (b *Broker) FinalizeUpgrade(ctx context.Context) error {
	_, err := b.n.Raise(ctx)
	return err
}

// deliver starts the delivery of firings. It returns nil for a read-only broker or with
// Options.NoDelivery.
func deliver(ctx context.Context, n *node.Node, targets webhook.Policy, o *Options) (*delivery.Dispatcher, error) {
	if o.NoDelivery || n.Triggers() == nil {
		return nil, nil
	}
	log := o.Logger
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return delivery.Open(ctx, delivery.Options{
		Engine: n.Triggers(), Log: n.EventLog(), Queues: n.Queues(), Lost: n.Done(),
		Webhooks: webhook.Options{Policy: targets, Bytes: delivery.BytesWithin(n.Budget().Limit())}, Logger: log,
	})
}

// checkKey checks Options.APIKey.
func checkKey(key string) error {
	if len(key) < config.APIKeyMin {
		return fmt.Errorf("want at least %d bytes, given %d", config.APIKeyMin, len(key))
	}
	return config.CheckAPIKey(key)
}

// putBudget parses Options.PutBudget and Options.Prices.
func putBudget(o *Options, to *node.Options) error {
	if o.PutBudget != "" && o.PutBudget != "off" && o.BatchWait != 0 {
		return errors.New("open broker: Options.PutBudget cannot be combined with Options.BatchWait")
	}
	s, err := cost.ParseSetting(o.PutBudget)
	if err != nil {
		return fmt.Errorf("open broker: Options.PutBudget %q: %w", o.PutBudget, err)
	}
	to.PutBudget = s
	if o.Prices == "" {
		return nil
	}
	p, err := cost.LoadPrices(o.Prices, "")
	if err != nil {
		return fmt.Errorf("open broker: Options.Prices %q: %w", o.Prices, err)
	}
	to.Prices = &p
	return nil
}

// policy parses Options.WebhookTargets.
func policy(o *Options) (webhook.Policy, error) {
	p, err := webhook.ParsePolicy(o.WebhookTargets)
	if err != nil {
		return p, fmt.Errorf("open broker: Options.WebhookTargets: %w", err)
	}
	return p, nil
}
