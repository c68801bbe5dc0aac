// Package broker is the interface between front ends and the log: topics with partitions, append,
// and fetch with long poll. It knows no wire protocol. Appends go through package log. Reads come
// from the committed objects' own buffers (the tail) or from the store, which a disk cache may
// wrap.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Broker is one shard's broker on a bucket. Its methods may be called concurrently.
type Broker struct {
	opt     Options
	log     *log.Log
	met     *meters
	tail    *tail
	waiters *waiters
	reader  *Reader // reads objects that are not in the tail
	ahead   *readAhead

	topics  chan struct{} // semaphore: held while a topic is updated
	ensures ensures
	packs   atomic.Uint64 // the last number that NextPack returned
	lines   sampled.Lines

	producers atomic.Uint32 // producer ids given
	queues    atomic.Pointer[Queues]

	fresh   freshness
	end     freshness // of ConfirmEnd
	leading *leadership

	access   accessChanges
	progress progress
	// Two samplers, so that guessers cannot hide denials among failed logins; nil: no audit topic.
	denials, logins *audit.Sampler

	closing chan struct{} // closed by the first Close
	closed  sync.Once
	stop    context.CancelFunc // cancels the background goroutines
	running sync.WaitGroup     // those goroutines
}

// Open starts a broker and waits until it leads, or follows with Core.ReadOnly. If ctx ends first,
// it closes the broker.
func Open(ctx context.Context, o Options) (*Broker, error) {
	if o.Store == nil {
		return nil, errors.New("open broker: no store")
	}
	if h := &o.Hooks; h.Committed != nil || h.Advanced != nil || h.AccessChanged != nil || h.Role != nil || h.Riders != nil || o.QueueBytes != 0 {
		return nil, errors.New("open broker: Options.QueueBytes, and all Hooks but Fed and FillCache, are the broker's own")
	}
	if o.AuditTopic != "" {
		if err := state.CheckTopicName(o.AuditTopic); err != nil {
			return nil, fmt.Errorf("open broker: audit topic: %w", err)
		}
	}
	o = o.withDefaults()
	if o.Core.StateMax == 0 {
		o.Core.StateMax = o.Budget.Class(budget.State).Limit()
	}
	b := &Broker{
		opt: o, met: newMeters(&o),
		topics: make(chan struct{}, 1), leading: newLeadership(), fresh: newFreshness(), end: newFreshness(), closing: make(chan struct{}),
	}
	b.tail = &tail{class: o.Budget.Class(budget.Tail), met: b.met, objects: map[slotKey]*log.Object{}}
	b.waiters = newWaiters(b.met)
	b.reader = OpenRanges(RangesOptions{
		Store: o.Store, Budget: o.Budget, Elsewhere: b.LedElsewhere, Timeout: cmp.Or(o.Timeouts.Read, readTimeout), PerMiB: cmp.Or(o.Timeouts.PerMiB, readPerMiB), Share: o.ShareReads, Metrics: o.Metrics,
	})
	b.ahead = &readAhead{}
	b.ahead.store, _ = objstore.As[objstore.Ahead](o.Store)
	o.QueueBytes = o.Budget.Class(budget.Produce).Limit()
	o.Hooks.Committed, o.Hooks.Advanced, o.Hooks.AccessChanged, o.Hooks.Role = b.committed, b.advanced, b.accessChanged, b.roleChanged
	o.Hooks.Riders = b.riders
	log, err := log.Open(ctx, o.Options)
	if err != nil {
		return nil, fmt.Errorf("open broker: %w", err)
	}
	b.log = log
	o.Metrics.GetOrCreateGauge(`seb_memory_reserved_bytes{class="`+budget.State.String()+`"}`, func() float64 {
		held, _ := b.StateMemory()
		return float64(held.Sum())
	})
	o.Metrics.GetOrCreateGauge(`seb_broker_transactions_open`, func() float64 { n, _ := b.OpenTransactions(nil); return float64(n) })
	o.Metrics.GetOrCreateGauge(`seb_broker_transaction_open_seconds`, func() float64 { _, t := b.OpenTransactions(nil); return t.Age.Seconds() })
	if b.opt.Now == nil {
		b.opt.Now = log.Now
	}
	b.waiters.start(log.Readers)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	b.WhileLeading(b.retain)
	b.WhileLeading(b.expireTransactions)
	b.running.Go(func() { b.leading.run(run) })
	if !b.ReadOnly() && o.AuditTopic != "" {
		b.startSamplers(run)
	}
	return b, nil
}

// committed is called for each own slot while the state is locked for writing. A fetch adds its
// waiter under the read lock, so each waiter sees each commit either in its plan or through wake.
func (b *Broker) committed(c *log.Committed) {
	if b.opt.Committed != nil {
		b.opt.Committed(c)
	}
	defer b.changed(c.Topics)
	defer b.progress.wake()
	if q := b.queues.Load(); q != nil {
		(*q).Committed(c.Index, c.Topics)
	}
	b.tail.add(c)
	for i := range c.Index {
		e := &c.Index[i]
		at := ObjectRange{Source: state.Source{Epoch: c.Epoch, Slot: c.Slot, Pos: e.Pos}, Base: e.Base, Len: e.Len}
		b.reader.Written(at, func() [][]byte { return c.Object.Slice(int64(e.Pos), int64(e.Len)) })
	}
	if c.Topics {
		b.waiters.wakeAll()
		return
	}
	b.waiters.wake(c.Index)
}

// Ready returns nil if the broker leads (or follows, if read-only), the store's last response was
// good, and the clock is not in doubt; else the reason. It makes no request.
func (b *Broker) Ready() error {
	select {
	case <-b.closing:
		return ErrClosed
	default:
	}
	err := b.log.Ready()
	if err == nil {
		return nil
	}
	switch s := b.log.Status(); {
	case s.Ended != nil:
		return s.Ended
	case s.Role == core.RoleStarting:
		return fmt.Errorf("%w: %w", state.ErrNotLeader, err)
	}
	return fmt.Errorf("%w: %w", state.ErrStoreUnavailable, err)
}

// Alive returns nil once the log's owner goroutine has handled everything sent to it before. It
// does not wait for the store. Errors: ErrClosed, ctx's cause.
func (b *Broker) Alive(ctx context.Context) error { return b.log.Alive(ctx) }

// StoreFault returns the store's last response if that was an error, else nil. It may be called
// after Close.
func (b *Broker) StoreFault() error { return b.log.StoreFault() }

// Status describes the broker. It makes no request.
type Status struct {
	Role      string // starting, leader, follower, fenced or stopped
	Epoch     uint32
	Journaled bool            // the commit objects of the epoch that it leads are in a journal
	Alarms    uint64          // damaged objects found in the log
	PutTimes  []time.Duration // durations of the newest commit objects, ascending, at most 128
	Topics    int
	Producers log.Producers
}

// Status returns the broker's status.
func (b *Broker) Status() Status {
	s := b.log.Status()
	r := Status{
		Role: s.Role.String(), Epoch: s.Epoch, Journaled: s.Journaled,
		Alarms: b.opt.Metrics.GetOrCreateCounter("seb_log_alarms_total").Get(), PutTimes: b.log.PutTimes(),
		Producers: b.log.Producers(),
	}
	b.log.Read(func(s *state.State) { r.Topics = len(s.Topics()) })
	return r
}

// ReadOnly reports whether this broker only follows.
func (b *Broker) ReadOnly() bool { return b.opt.Core.ReadOnly }

// Epoch is the epoch of the broker's state: it leads or follows in it, or led in it until it was
// fenced.
func (b *Broker) Epoch() uint32 { return b.log.Status().Epoch }

// BatchWait is the longest wait of an append for others to share its object while the queue is
// below its limit.
func (b *Broker) BatchWait() time.Duration {
	if b.opt.NoWait {
		return 0
	}
	if b.opt.Batch.Budget != nil {
		p := b.opt.Batch.Budget.Next()
		return max(p.Busy, p.Gap)
	}
	return b.opt.Batch.Wait
}

// Budget is the broker's memory. Front ends reserve from it before they read a request's body.
func (b *Broker) Budget() *budget.Budget { return b.opt.Budget }

// Done is closed when the broker cannot continue: another broker fenced it and it is no standby, it
// stopped on corruption, or it was closed. Err returns the reason.
func (b *Broker) Done() <-chan struct{} { return b.log.Done() }

// Err returns why Done is closed: a *FencedError, ErrCorrupt, state.ErrNewer, or ErrClosed; nil
// before.
func (b *Broker) Err() error {
	select {
	case <-b.log.Done():
	default:
		return nil
	}
	return cmp.Or(b.log.Status().Ended, ErrClosed)
}

// Close refuses further appends (ErrClosed), ends waiting fetches with the available data, stores
// the queued appends, and waits for all that. If ctx ends first, unsent appends are rejected, sent
// ones have an unknown outcome, and Close returns ctx's error. Chunks stay valid until they are
// released. Further calls wait too.
func (b *Broker) Close(ctx context.Context) error {
	b.closed.Do(func() {
		close(b.closing)
		b.EndWhileLeading()
		b.stop()
	})
	b.running.Wait() // its context is canceled, so it waits for no I/O
	b.waiters.stop()
	err := b.log.Close(ctx)
	b.reader.Close()
	b.tail.clear()
	if err != nil {
		return fmt.Errorf("close broker: %w", err)
	}
	return nil
}

// ErrNoStandby: a broker without Options.Standby does not step down.
var ErrNoStandby = log.ErrNoStandby

// StepDown ends this broker's leadership of an epoch (0: of any), and lets it follow, as
// log.Log.StepDown does.
func (b *Broker) StepDown(ctx context.Context, epoch uint32) error { return b.log.StepDown(ctx, epoch) }

// Park lets a broker that leads commit nothing more until Unpark, as log.Log.Park does.
func (b *Broker) Park(ctx context.Context, drain bool) (state.Report, error) {
	return b.log.Park(ctx, drain)
}

// BeginPark is Park for a caller that does not wait, as log.Log.BeginPark is.
func (b *Broker) BeginPark(drain bool) (wait func(ctx context.Context) (state.Report, error)) {
	return b.log.BeginPark(drain)
}

// Unpark lets a parked broker continue, as log.Log.Unpark does.
func (b *Broker) Unpark() { b.log.Unpark() }

// Show lets a broker that leads show that in the log, as log.Log.Show does.
func (b *Broker) Show(pace, promise time.Duration) { b.log.Show(pace, promise) }

// Feeds sets whether Options.Fed gets the slots that this broker commits. Default: it does not.
func (b *Broker) Feeds(wanted bool) { b.log.Feeds(wanted) }
