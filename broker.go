package seb

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/delivery"
	"github.com/sebbroker/seb/internal/node"
	"github.com/sebbroker/seb/internal/quiet"
)

func init() { quiet.Restore() } // all that this package imports is initialized

// Options say what broker to open. Bucket is required; the zero value of every other field means its default.
type Options struct {
	// Bucket is where the records are: "./folder", "mem:" or "s3://name/prefix?endpoint=...&region=...&path-style=true".
	Bucket string
	// DataDir is a folder for what may be lost: the disk cache of remote buckets, the index of record keys and the remembered
	// check of the store.
	// "" keeps nothing. Two brokers can not share one.
	DataDir string
	// CacheBytes is the most that the disk cache holds, 1 GiB; negative: no cache. Without DataDir there is none.
	CacheBytes int64
	// ReadOnly follows what another broker writes, and writes nothing.
	ReadOnly bool
	// HoldUpgrade leaves the bucket of an older program at its format level. Otherwise the first write 10 minutes or more
	// after Open raises it to the highest level that this program knows, and older programs refuse it from then on.
	HoldUpgrade bool
	// NoAutoCreate refuses records for topics that were not created.
	NoAutoCreate bool
	// BatchWait is how long records are collected for one object: 250 ms on remote buckets, 5 ms on local ones; negative
	// collects nothing.
	BatchWait time.Duration
	// BatchBytes is the size of an object at which it is stored at once: 10 MiB.
	BatchBytes int64
	// MemoryLimit is the ceiling of all buffers in bytes: 256 MiB.
	MemoryLimit int64
	// WebhookTargets are private addresses that webhooks of triggers may go to: prefixes such as "10.0.0.0/8", addresses, or "all".
	// Those of the public Internet are always allowed. What is none of these is an error of Open.
	WebhookTargets []string
	// NoDelivery delivers nothing of what triggers fire, to webhooks or topics: it waits for the next broker that does. Triggers
	// are followed all the same.
	NoDelivery bool
	// Logger; nil logs nothing.
	Logger *slog.Logger
}

// cacheBytes is the default of Options.CacheBytes.
const cacheBytes = 1 << 30

// What errors may be tested for with errors.Is.
var (
	ErrOutcomeUnknown   = broker.ErrOutcomeUnknown // may appear once, or never
	ErrUnknownTopic     = broker.ErrUnknownTopic
	ErrUnknownPartition = broker.ErrUnknownPartition
	ErrTopicExists      = broker.ErrTopicExists
	ErrTopicInUse       = broker.ErrTopicInUse // by triggers
	ErrOffsetMismatch   = broker.ErrOffsetMismatch
	ErrBelowStart       = broker.ErrBelowStart // the records are no longer there
	ErrUnknownGroup     = broker.ErrUnknownGroup
	ErrBeyondEnd        = broker.ErrBeyondEnd
	ErrSequenceGap      = broker.ErrSequenceGap    // of an idempotent producer's batches
	ErrProducerFenced   = broker.ErrProducerFenced // a newer epoch of the producer has appended
	ErrFenced           = broker.ErrFenced         // another broker has taken over
	ErrReadOnly         = broker.ErrReadOnly
	ErrOverBudget       = broker.ErrOverBudget // try again when others are done
	ErrTooLarge         = broker.ErrTooLarge
	ErrInvalid          = broker.ErrInvalid
	ErrStoreUnavailable = broker.ErrStoreUnavailable
	ErrCorrupt          = broker.ErrCorrupt // stored data is damaged; nothing was deleted or skipped
	ErrClosed           = broker.ErrClosed
	ErrNewer            = broker.ErrNewer // a newer program has raised the bucket to a format level that this one does not know
)

// Broker is a broker in this process. Its methods may be called concurrently.
type Broker struct {
	n        *node.Node
	dispatch *delivery.Dispatcher // nil: it delivers nothing
}

// Open opens a broker and waits until it leads, or follows if read-only. If ctx ends first all is closed again; its end
// after Open does not matter. A remote bucket that was not used before is checked first, which takes seconds. A broker that leads
// delivers what the bucket's triggers fire, as a server would: triggers are made by one, or by `seb trigger`, on the same bucket.
func Open(ctx context.Context, o Options) (*Broker, error) {
	if o.Bucket == "" {
		return nil, errors.New("open broker: Options.Bucket is required")
	}
	targets, err := policy(&o)
	if err != nil {
		return nil, err
	}
	no := node.Options{
		Bucket: o.Bucket, DataDir: o.DataDir, ReadOnly: o.ReadOnly, HoldUpgrade: o.HoldUpgrade, NoAutoCreate: o.NoAutoCreate,
		BatchWait: o.BatchWait, BatchBytes: o.BatchBytes, MemoryLimit: o.MemoryLimit, Logger: o.Logger,
	}
	if o.BatchWait < 0 {
		no.BatchWait = node.BatchNone
	}
	if o.DataDir != "" && o.CacheBytes >= 0 {
		no.CacheDir, no.CacheBytes = filepath.Join(o.DataDir, "cache"), o.CacheBytes
		if no.CacheBytes == 0 {
			no.CacheBytes = cacheBytes
		}
	}
	n, err := node.Open(ctx, no)
	if err != nil {
		return nil, err
	}
	b := &Broker{n: n}
	if b.dispatch, err = deliver(ctx, n, targets, &o); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return b, nil
}

// Close breaks deliveries off, which are made again by whoever opens the bucket next, stores and answers what is under way and
// closes the broker. When ctx ends first, what was not sent is refused, the rest is unknown, and Close returns ctx's error. It may
// be called twice.
func (b *Broker) Close(ctx context.Context) error {
	if b.dispatch != nil {
		b.dispatch.Close()
	}
	return b.n.Close(ctx)
}

// Done is closed when the broker can not go on: it was fenced, its data is corrupt, or it was closed. Err says which.
func (b *Broker) Done() <-chan struct{} { return b.n.Done() }

// Err says why Done is closed; nil before.
func (b *Broker) Err() error { return b.n.Err() }

// Ready returns nil if the broker leads (or follows) and the store's last answer was good. It makes no request.
func (b *Broker) Ready() error { return b.n.Ready() }

// Epoch is the number of the broker's term of leadership; it grows with every broker that takes over.
func (b *Broker) Epoch() uint32 { return b.n.Epoch() }

// ResetTime takes the machine's clock to be right, and sets the log's time back to it if that is later, durably. While the clock
// contradicts the log's time, or the store's clock, nothing is stored.
func (b *Broker) ResetTime(ctx context.Context) error {
	_, err := b.n.ResetTime(ctx)
	return err
}

// FormatLevel is the format level of the bucket, and the highest that this program knows.
func (b *Broker) FormatLevel() (now, highest uint32) {
	v := b.n.Level()
	return v.Now, v.Max
}

// FinalizeUpgrade raises the bucket to the highest format level that this program knows, and waits until that is durable.
// Programs that do not know the level refuse the bucket from then on. A bucket that is there already stays as it is.
func (b *Broker) FinalizeUpgrade(ctx context.Context) error {
	_, err := b.n.Raise(ctx)
	return err
}
