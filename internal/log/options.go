package log

import (
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/logtime"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// Options are what a Log is opened with. Store must be set; the zero value of every other field means its default.
type Options struct {
	Store objstore.Store
	Core  core.Config
	// Batch says when waiting appends become an object. NoWait takes the batcher that freezes at once.
	Batch  Config
	NoWait bool
	// AcceptClock: the machine's clock is right at the start, however far it is from the log's last time (rule R15).
	AcceptClock bool
	// Clocks shows the clocks. Those of the machine, and of the store if it is objstore.Clocked.
	Clocks func() logtime.Reading
	// QueueBytes bounds what waits to be frozen: beyond it appends are rejected with ErrQueueFull. 64 MiB.
	QueueBytes int64
	Timeouts   Timeouts
	// Checksums computes a CRC-32C over each object for stores that take one with a PUT.
	Checksums bool
	// Budget, if not nil, gives the memory in which small appends are copied together (class Objects).
	Budget *budget.Budget

	Hooks   Hooks
	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere
}

// Timeouts bound single store requests. A request that exceeds its own has no verdict (rule R3).
type Timeouts struct {
	Read   time.Duration // GET without its bytes, LIST; 30 seconds: a store may be less patient by itself
	Put    time.Duration // PUT without its bytes; 30 seconds
	PerMiB time.Duration // for each MiB moved, PUT or GET; 1 second
}

// Hooks tell the broker what happens to the committed state. They are called by the owner, must be quick and must not
// call the Log, except Keep.
type Hooks struct {
	// Committed is called for each own slot, in order, while the state is locked: nobody has read the new state yet. The
	// object's buffers may be kept with Retain.
	Committed func(c *Committed)
	// Advanced is called when the committed state has grown by slots that others wrote, or is another one altogether.
	Advanced func()
	// Keep, if not nil, is given each committed object, for a cache. It runs in a goroutine of its own, one call at a
	// time; the parts are valid until it returns. An object that commits while too many wait for it is not offered.
	Keep func(key string, parts [][]byte)
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
}

const (
	queueBytesDefault = 64 << 20
	// slotRead is the first read of a slot or snapshot: in nearly all slots head, state records and index fit.
	slotRead = 64 << 10
	// headRead is the first read of a slot whose head is enough; a SEAL fits as a whole.
	headRead = 4 << 10
	// metaMax bounds what is read of a slot for its head, state records and index.
	metaMax = 64 << 20
	// clusterMax bounds what is read of the object that names the cluster.
	clusterMax = 64 << 10
)

func (o Options) withDefaults() Options {
	def(&o.QueueBytes, queueBytesDefault)
	def(&o.Timeouts.Read, 30*time.Second)
	def(&o.Timeouts.Put, 30*time.Second)
	def(&o.Timeouts.PerMiB, time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	return o
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// moving returns a request's timeout: base, and PerMiB for each MiB of n bytes.
func (t Timeouts) moving(base time.Duration, n int64) time.Duration {
	return base + time.Duration(float64(t.PerMiB)*float64(n)/(1<<20))
}
