package node

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/log/logtime"
	"github.com/sebbroker/seb/internal/log/pack"
	"github.com/sebbroker/seb/internal/objstore"
)

// Options say what broker to open. The zero value of a field means its default; either Bucket or Store must be given.
type Options struct {
	// Bucket is where the records are, as objstore.ParseSpec understands it.
	Bucket string
	// Store is used instead of opening Bucket; it stays the caller's.
	Store objstore.Store
	// Prepare, if not nil, is called once the data folder is locked and before the log is opened. Its error ends Open: nothing was
	// written to the bucket, and a broker that leads it goes on.
	Prepare func() error
	// DataDir is the folder for what can be lost; it is made, and locked against other processes. "" keeps nothing: there
	// is no disk cache then, the index of keys is a temporary file, and the store is checked at every start.
	DataDir string
	// ReadOnly follows the log and writes nothing.
	ReadOnly bool
	// HoldUpgrade leaves a bucket of an older program at its format level until Raise is called.
	HoldUpgrade bool
	// AcceptClock believes the machine's clock at the start, however far it is from the log's last time (rule R15).
	AcceptClock bool
	// Clocks shows the clocks; nil for those of the machine and the store.
	Clocks func() logtime.Reading
	// NoAutoCreate refuses records for topics that were not created.
	NoAutoCreate bool
	// DefaultPartitions is how many partitions a topic has that records create, or a Kafka client that leaves it to the broker. 1.
	DefaultPartitions int
	// Advertised is the address that clients of a broker we take over from are told.
	Advertised string
	// BatchWait is how long the first record of an object waits for others; BatchAuto (250 ms on remote stores, 5 ms on
	// local ones) if it is 0, BatchNone collects nothing.
	BatchWait time.Duration
	// OffsetWait is how long the offsets that consumers commit wait for an object to ride in, if nothing else comes: 1 s
	// on remote stores, where each object has a price, BatchWait on local ones. A wait below BatchWait does not count.
	OffsetWait time.Duration
	// BatchBytes is the size of an object at which it is sent at once; 10 MiB, at most what the memory limit allows.
	BatchBytes int64
	// MemoryLimit is the ceiling of all buffers in bytes; 256 MiB.
	MemoryLimit int64
	// OnMemoryStore is told now and then what a store in memory (mem:) holds of Go's heap, in bytes, beyond MemoryLimit; nil
	// is not. It must not wait.
	OnMemoryStore func(bytes int64)
	// Pack says when commit objects are merged into packs, MergeEvery how often that is looked at; NoMerge leaves them.
	Pack       pack.Config
	MergeEvery time.Duration
	NoMerge    bool
	// SnapshotSlots is how many commit objects lie between two snapshots on remote stores; 1,000.
	SnapshotSlots int
	// RetentionEvery is how often the topics' retention is looked at; once a minute.
	RetentionEvery time.Duration
	// CacheDir is the folder of the disk cache of remote stores, CacheBytes the most it ever holds; 0: no cache.
	CacheDir   string
	CacheBytes int64

	Logger  *slog.Logger // nil discards
	Metrics *metrics.Set // nil makes one
}

// The special values of Options.BatchWait.
const (
	BatchAuto time.Duration = 0
	BatchNone time.Duration = -1
)

const (
	batchWaitRemote = 250 * time.Millisecond
	batchWaitLocal  = 5 * time.Millisecond

	// batchBytesLocal is what a local store is given before the wait is over.
	batchBytesLocal  = 128 << 10
	offsetWaitRemote = time.Second
	batchBytes       = 10 << 20
	memoryLimit      = 256 << 20
	// snapshotBytesLocal: on a local store reading costs nothing, so a snapshot is due by the bytes to replay.
	snapshotBytesLocal = 16 << 20
)

func (o Options) withDefaults() Options {
	if o.MemoryLimit == 0 {
		o.MemoryLimit = memoryLimit
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = batchBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	return o
}

// batchWait is how long records are collected, given what kind of store they go to.
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

// offsetWait is how long committed offsets wait alone; 0 is no longer than records.
func (o *Options) offsetWait(local bool) time.Duration {
	if o.OffsetWait == 0 && !local {
		return offsetWaitRemote
	}
	return o.OffsetWait
}

// validate reports every fault at once.
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
