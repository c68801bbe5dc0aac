package broker

import (
	"context"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/log"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/logtime"
	"github.com/sebbroker/seb/internal/objstore"
)

// Options are what a Broker is opened with. Store must be set; the zero value of every other field means its default.
type Options struct {
	// Store is the bucket, perhaps behind a cache.
	Store objstore.Store
	// Core are the log's numbers; ReadOnly and Advertised in it are settings of the broker.
	Core core.Config
	// Batch says when waiting appends become an object; NoWait stores them at once.
	Batch  log.Config
	NoWait bool
	// AcceptClock believes the machine's clock at the start, however far it is from the log's last time (rule R15).
	AcceptClock bool
	// Clocks shows the clocks; nil for those of the machine and the store.
	Clocks func() logtime.Reading
	// Timeouts bound single store requests.
	Timeouts log.Timeouts
	// Budget is the memory. 256 MiB.
	Budget *budget.Budget
	// AutoCreate lets EnsureTopic create topics, with DefaultPartitions partitions: 1.
	AutoCreate        bool
	DefaultPartitions int
	// ShareReads lets readers of the same data share one request: for remote stores without a cache in front.
	ShareReads bool
	// Checksums sends a CRC-32C with each object, for stores that take one.
	Checksums bool
	// RetentionEvery is how often the topics' retention is looked at: once a minute. Now is the clock that it goes by, and
	// that committed offsets are stamped with: that of the log.
	RetentionEvery time.Duration
	Now            func() time.Time
	// Changed, if not nil, is called whenever the committed state has changed, while it is locked: it must be quick, and
	// must not call the broker. topics says that it may be by more than new records.
	Changed func(topics bool)
	// InUse, if not nil, returns an ErrTopicInUse if something uses a topic, so that it is not deleted.
	InUse func(ctx context.Context, topic string) error
	// Keep, if not nil, is given each committed object, for a cache. The parts are valid until it returns.
	Keep func(key string, parts [][]byte)

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere
}

const (
	limitDefault = 256 << 20
	// maxBytesDefault is what a Want without MaxBytes gets.
	maxBytesDefault = 1 << 20
	retentionEvery  = time.Minute
	// readTimeout and readPerMiB bound one attempt to read data from the store.
	readTimeout = 10 * time.Second
	readPerMiB  = time.Second
	// readsMax is how many store reads one Fetch makes: what is beyond is for the next one.
	readsMax = 64
	// followLinger is how long a broker that only follows goes on following after its last reader came.
	followLinger = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Budget == nil {
		o.Budget = budget.New(limitDefault)
	}
	if o.Timeouts.Read <= 0 {
		o.Timeouts.Read = readTimeout
	}
	if o.Timeouts.PerMiB <= 0 {
		o.Timeouts.PerMiB = readPerMiB
	}
	if o.RetentionEvery <= 0 {
		o.RetentionEvery = retentionEvery
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	return o
}
