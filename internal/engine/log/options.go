package log

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/record"
)

// Options are what a Log is opened with. Store must be set; the zero value of every other field
// means its default.
type Options struct {
	Store objstore.Store
	Core  core.Config
	// Batch decides when waiting appends become an object. NoWait replaces Batch.NoWait.
	Batch  Config
	NoWait bool
	// Standby makes a fenced log follow the new leader instead of ending. Stand makes it lead again.
	// With Core.Standby it follows from the start.
	Standby bool
	// RaiseMax, if not nil, returns the highest format level to which the bucket may be raised now: one
	// that all brokers of the bucket read. It must be quick and must not call the Log.
	RaiseMax func() uint32
	// AcceptClock trusts the machine's clock at the start, however far it is from the log's last
	// time (rule R15).
	AcceptClock bool
	// Clocks reads the clocks. Default: the machine's clock, and the store's if it is
	// objstore.Clocked.
	Clocks func() Reading
	// QueueBytes bounds the appends that wait to be frozen; further ones are rejected with
	// ErrQueueFull. 64 MiB.
	QueueBytes int64
	Timeouts   Timeouts
	// Checksums computes a CRC-32C over each object for stores that accept one with a PUT.
	Checksums bool
	// Budget, if not nil, supplies the memory in which small appends are copied together (class
	// Objects).
	Budget *budget.Budget

	Hooks   Hooks
	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // a new set that is not registered
	// Latency, if not nil, records the times of acknowledgements and of PUTs of commit objects.
	Latency *stats.Latency
}

// Timeouts bound single store requests. A request that exceeds its timeout has no verdict (rule
// R3).
type Timeouts struct {
	// GET without its bytes, LIST; 30 seconds; a store may have a shorter timeout
	Read   time.Duration
	Put    time.Duration // PUT without its bytes; 30 seconds
	PerMiB time.Duration // for each MiB of a PUT or GET; 1 second
}

// Hooks report changes of the committed state to the broker. The owner calls them. They must be
// quick and must not call the Log, except FillCache.
type Hooks struct {
	// Committed is called for each own slot, in order, while the state is locked: no reader has
	// seen the new state. The object's buffers may be kept with Retain.
	Committed func(c *Committed)
	// Advanced is called when the committed state has grown by slots of other leaders or was loaded
	// again.
	Advanced func()
	// AccessChanged is called when the principals and rules have changed, while the state is locked.
	AccessChanged func()
	// Role is called after each change of the role, in order. The state may be read.
	Role func(s Status)
	// Riders, if not nil, returns ops that the next slot takes along. They never cause a slot.
	Riders func() []core.Op
	// Fed, if not nil, gets each slot that this log has committed, in order, while that is wanted (Log.Feeds):
	// its position, and the first bytes of its object, with head, state records and index. It may keep
	// them, and must not change them.
	Fed func(pos state.Position, prefix []byte)
	// FillCache, if not nil, gets each committed object, for a cache. It runs in its own goroutine,
	// one call at a time; the parts are valid until it returns. Objects that commit while too many
	// wait are skipped.
	FillCache func(key string, parts [][]byte)
}

// Committed describes a slot that this log has written.
type Committed struct {
	Key    string
	Epoch  uint32
	Slot   uint64
	Time   int64               // append time, microseconds since 1970
	Index  []record.IndexEntry // an entry per partition
	Topics bool                // topics were created, changed, trimmed or deleted
	Object *Object
	State  *state.State // after the slot; valid until the hook returns
}

const (
	queueBytesDefault = 64 << 20
	// slotRead is the size of the first read of a slot or snapshot: head, state records and index
	// of nearly all slots fit.
	slotRead = 64 << 10
	// headRead is the size of the first read of a slot if its head is enough; a SEAL fits
	// completely.
	headRead = 4 << 10
	// metaMax bounds the head, state records and index of a slot.
	metaMax = 64 << 20
	// clusterMax bounds the size of meta/cluster.
	clusterMax = 64 << 10
)

func (o Options) withDefaults() Options {
	o.Standby = o.Standby || o.Core.Standby
	def(&o.QueueBytes, queueBytesDefault)
	def(&o.Timeouts.Read, 30*time.Second)
	def(&o.Timeouts.Put, 30*time.Second)
	def(&o.Timeouts.PerMiB, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	return o
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// forBytes returns the timeout of a request: base, and PerMiB for each MiB of n bytes.
func (t Timeouts) forBytes(base time.Duration, n int64) time.Duration {
	return base + time.Duration(float64(t.PerMiB)*float64(n)/(1<<20))
}
