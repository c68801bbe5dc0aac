package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// Options configure a node. The zero value of a field selects its default. Either Bucket or Store
// is required.
type Options struct {
	// Bucket is the object store, as a spec of objstore.ParseSpec.
	Bucket string
	// Store replaces Bucket. The caller keeps ownership.
	Store objstore.Store
	// Prepare, if not nil, is called after the data folder is locked and before the log is opened.
	// Its error ends Open: nothing was written to the bucket, and a broker that leads it continues.
	Prepare func() error
	// DataDir is the folder for data that can be rebuilt. It is created, and locked against other
	// processes. With "" there is no disk cache, the key index is a temporary file, and every start
	// checks the store.
	DataDir string
	// ReadOnly follows the log and writes nothing.
	ReadOnly bool
	// Standby makes a node that another broker has fenced follow it, instead of ending. Stand makes
	// it lead again. With Follow the node follows from the start.
	Standby, Follow bool
	// Join, if not nil, is called before the log is opened, and says how. Its error ends Open. It needs a
	// DataDir, and is not called if ReadOnly.
	Join func(ctx context.Context, j Joining) (Joined, error)
	// HoldUpgrade keeps the format level of an older program's bucket until Raise is called.
	HoldUpgrade bool
	// ProducerExpiration is how long the log remembers an idempotent producer that writes nothing; 24 hours.
	ProducerExpiration time.Duration
	// AcceptClock accepts the machine's clock at the start, however far it is from the log time
	// (rule R15).
	AcceptClock bool
	// Clocks returns the readings of the clocks; nil reads the machine's and the store's.
	Clocks func() log.Reading
	// NoAutoCreate refuses records for unknown topics instead of creating the topic.
	NoAutoCreate bool
	// DefaultPartitions is the partition count of a topic that a record creates, or a Kafka client
	// without a count. The default is 1.
	DefaultPartitions int
	// AuditTopic is the topic of audit records; "": none.
	AuditTopic string
	// RiemannTopic is the topic whose newest events have an index; "": none.
	RiemannTopic string
	// Origin describes, in audit records, the client of changes whose context has none.
	Origin audit.Origin
	// Advertised is this broker's address for the clients of a broker that it fences.
	Advertised string
	// BatchWait is the time that the first record of an object waits for others. BatchAuto (0)
	// means 250 ms on remote stores and 5 ms on local ones. An object that goes to a journal then
	// waits only for the one before it. BatchNone disables collecting.
	BatchWait time.Duration
	// Prices is the price list of requests and bytes; nil: s3-standard if the store counts requests,
	// else free.
	Prices *cost.Prices
	// PutBudget limits the price of requests to a store that counts them, unless BatchWait is set. The
	// batch wait is then as short as the budget allows, and at most BatchAuto while it suffices.
	PutBudget cost.Setting
	// CostClock is the clock of costs and budget; default time.Now.
	CostClock func() time.Time
	// OffsetWait is the time that committed offsets wait for records to be stored with. The default
	// is 1 s on remote stores, where each object has a price, and BatchWait on local ones. The
	// minimum is BatchWait.
	OffsetWait time.Duration
	// BatchBytes is the object size that ends collecting early. The default is 10 MiB, or less
	// under a small memory limit.
	BatchBytes int64
	// MemoryLimit bounds all buffers, in bytes. The default is 256 MiB.
	MemoryLimit int64
	// OnMemoryStore gets the bytes of Go's heap that a store in memory (mem:) uses beyond
	// MemoryLimit, from time to time; nil ignores them. It must not block.
	OnMemoryStore func(bytes int64)
	// Pack configures packs, MergeEvery is the interval of checks whether one is due. NoMerge
	// disables packs.
	Pack       compact.Policy
	MergeEvery time.Duration
	NoMerge    bool
	// SnapshotSlots is the number of commit objects between two snapshots on remote stores. The
	// default is 1,000.
	SnapshotSlots int
	// RetentionEvery is the interval of checks for expired records. The default is one minute.
	RetentionEvery time.Duration
	// CacheDir is the folder of the disk cache of remote stores, CacheBytes its maximum size; 0
	// disables the cache.
	CacheDir   string
	CacheBytes int64
	// SecretsKeys encrypt the secrets of webhooks in the bucket; nil: they are stored readable.
	SecretsKeys *secrets.Ring

	joined Joined

	Logger  *slog.Logger // nil: no log
	Metrics *metrics.Set // nil: a new set
	// Latency, if not nil, records the times of acknowledgements and of PUTs of commit objects.
	Latency *stats.Latency
}

// Joining is what Options.Join gets.
type Joining struct {
	Store objstore.Store // the bucket; the first PUT waits for its check, as those of the log do
	// Bucket is the same without the check, for requests that the bucket may refuse.
	Bucket objstore.Store
	Node   record.ID // of the data folder
	Led    bool      // a broker with this data folder has led a log
}

// Joined is what Options.Join decides.
type Joined struct {
	Run             cluster.Run // of this process, for its SEALs
	Standby, Follow bool        // as in Options

	// As in broker.Options.
	InDoubt  func() bool
	Told     func() (pos state.Position, age time.Duration, ok bool)
	RaiseMax func() uint32
	Fed      func(pos state.Position, prefix []byte)
}

// Special values of Options.BatchWait.
const (
	BatchAuto time.Duration = 0
	BatchNone time.Duration = -1
)

const (
	batchWaitRemote = 250 * time.Millisecond
	batchWaitLocal  = 5 * time.Millisecond

	// batchBytesLocal is the object size at which a local store ends collecting early.
	batchBytesLocal  = 128 << 10
	offsetWaitRemote = time.Second
	batchBytes       = 10 << 20
	memoryLimit      = 256 << 20
	// snapshotBytesLocal: reading is free on a local store, so the bytes to replay determine when a
	// snapshot is due.
	snapshotBytesLocal = 16 << 20
	// snapshotShare: with little memory a snapshot is due after 1/snapshotShare of the limit. A broker
	// has an index of the objects of its journal, which are deleted two snapshots later.
	snapshotShare = 8
)

func (o Options) withDefaults() Options {
	o.MemoryLimit = cmp.Or(o.MemoryLimit, memoryLimit)
	o.BatchBytes = cmp.Or(o.BatchBytes, batchBytes)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	return o
}

// batchWait returns the time to collect records, for the kind of store.
func (o *Options) batchWait(local bool) time.Duration {
	switch {
	case o.BatchWait < 0:
		return 0
	case o.BatchWait > 0:
		return o.BatchWait
	case local:
		return batchWaitLocal
	}
	return batchWaitRemote
}

// offsetWait returns the time that committed offsets wait without records; 0: no longer than
// records.
func (o *Options) offsetWait(local bool) time.Duration {
	if o.OffsetWait == 0 && !local {
		return offsetWaitRemote
	}
	return o.OffsetWait
}

// validate reports all errors at once.
func (o *Options) validate() error {
	var faults []error
	if (o.Bucket == "") == (o.Store == nil) {
		faults = append(faults, errors.New("bucket: want either Bucket or Store"))
	}
	if o.Store == nil && o.Bucket != "" {
		if _, err := objstore.ParseSpec(o.Bucket); err != nil {
			faults = append(faults, err)
		}
	}
	if err := budget.Validate(o.MemoryLimit); err != nil {
		faults = append(faults, err)
	}
	if o.OffsetWait < 0 {
		faults = append(faults, fmt.Errorf("offset wait of %s: want 0 or more", o.OffsetWait))
	}
	if o.SnapshotSlots < 0 || o.RetentionEvery < 0 {
		faults = append(faults, fmt.Errorf("snapshot every %d slots, retention every %s: want 0 or more", o.SnapshotSlots, o.RetentionEvery))
	}
	if o.BatchBytes < 0 || o.CacheBytes < 0 {
		faults = append(faults, fmt.Errorf("batch of %d bytes, cache of %d: want 0 or more", o.BatchBytes, o.CacheBytes))
	}
	return errors.Join(faults...)
}
