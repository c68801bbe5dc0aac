package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	jobs "github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules"
)

// Options configure Open. Engine and Log must be set.
type Options struct {
	Engine *rules.Engine
	Log    rules.Log
	Queues *jobs.Queues // nil: messages to queues wait
	// Lost is closed when this broker leads no more. The Dispatcher then stops at once.
	Lost <-chan struct{}
	// Webhooks configures the Sender.
	Webhooks webhook.Options

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // a set of its own, not registered
}

const (
	queueMin        = 64 // firings of a trigger that are read ahead, more if that is too few
	buildersMax     = 16 // messages built at once: each reads its events from the log
	pauseMin        = 10 * time.Millisecond
	pauseMax        = 500 * time.Millisecond
	pauseFactor     = 20 // pause per time of a turn: at most 5% of a core
	againMax        = 5 * time.Second
	pollInterval    = time.Second // while deliveries in flight hide later firings of their trigger
	errorBackoff    = time.Second
	backlogInterval = 5 * time.Second // counting reads an index of all pending deliveries
	closeTime       = 2 * time.Second // for recording outcomes
	idleWait        = time.Hour
)

// Bounds on memory. All triggers together have one delivery, including unrecorded outcomes, per
// deliveryBytes of Options.Webhooks.Bytes. A quarter of these bytes is for plans, each of which
// takes planShare times the size of its definition.
const (
	deliveryBytes = 16 << 10
	planShare     = 4
	bytesDefault  = 32 << 20
)

// BytesWithin is the value of Options.Webhooks.Bytes for a broker with a memory limit.
func BytesWithin(memoryLimit int64) int {
	const share, most = 16, 64 << 20
	return int(min(most, memoryLimit/share))
}

// Dispatcher delivers firings until Close.
type Dispatcher struct {
	opt     Options
	sender  *webhook.Sender
	met     *meters
	stop    context.CancelFunc // ends the loop and attempts
	abandon context.CancelFunc // ends reports too, which outlive attempts
	done    chan struct{}      // closed when the loop has returned
	wakeups wake.Signal        // a delivery has ended or can continue
	running sync.WaitGroup
	lines   sampled.Lines

	queues      map[string]*queue // by trigger; used by the loop only
	plans       int               // memory of all plans
	planMissing bool              // a plan did not fit into memory
	due         []string          // triggers with due firings, sorted
	remaining   []string          // those of due to serve before the next call of Due
	last        string            // trigger served last
	filling     time.Duration     // of this turn, for queries that found many firings: without a pause after it
	counted     time.Time         // time of the last count of the backlog

	mu        sync.Mutex           // guards the fields below, and those marked in queue
	building  int                  // messages being built
	inflight  int                  // deliveries in flight, of all triggers
	starved   bool                 // a trigger has no message in flight, because the others have all slots
	finished  uint64               // attempts that have ended and released their resources
	receivers map[string]time.Time // receivers by URL that asked for a pause, with its end
}

// Open returns a Dispatcher that delivers the firings of o.Engine until Close. ctx gives values to
// its requests; its end after Open does not matter. Errors: missing or invalid options.
func Open(ctx context.Context, o Options) (*Dispatcher, error) {
	if o.Engine == nil || o.Log == nil {
		return nil, errors.New("deliveries: engine and log are required")
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	if o.Webhooks.Now == nil {
		o.Webhooks.Now = time.Now
	}
	o.Webhooks.Bytes = cmp.Or(o.Webhooks.Bytes, bytesDefault)
	sender, err := webhook.NewSender(o.Webhooks)
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	d := &Dispatcher{
		opt: o, sender: sender, met: newMeters(&o), done: make(chan struct{}), wakeups: wake.New(),
		queues: map[string]*queue{}, receivers: map[string]time.Time{},
	}
	ctx = context.WithoutCancel(ctx)
	reports, abandon := context.WithCancel(ctx)
	attempts, stop := context.WithCancel(reports)
	d.stop, d.abandon = stop, abandon
	go d.run(attempts, reports)
	return d, nil
}

// Close cancels attempts in progress, which the next leader repeats. It records the outcomes of
// finished ones for at most two seconds, and waits for all of that. It may be called twice.
func (d *Dispatcher) Close() {
	d.stop()
	late := time.AfterFunc(closeTime, d.abandon)
	<-d.done
	d.running.Wait()
	late.Stop()
	d.abandon()
	d.sender.Close()
	for _, gauge := range []string{gaugeUnderWay, gaugePending, gaugeOverdue} {
		d.opt.Metrics.UnregisterMetric(gauge)
	}
}

func (d *Dispatcher) run(ctx, reports context.Context) {
	defer close(d.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := d.opt.Engine.Changed()
		start := time.Now()
		d.filling = 0
		wait := d.dispatch(ctx, reports)
		next := start.Add(min(max(pauseMin, pauseFactor*(time.Since(start)-d.filling)), pauseMax))
		timer.Reset(wait)
		select {
		case <-changed:
		case <-d.wakeups:
		case <-timer.C:
		case <-d.opt.Lost:
		case <-ctx.Done():
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-d.opt.Lost:
			d.abandon()
			return
		case <-ctx.Done():
			return
		}
	}
}

// dispatch starts due deliveries within the limits. It returns the time until the next turn, unless
// wake or the engine cause an earlier one.
func (d *Dispatcher) dispatch(ctx, reports context.Context) time.Duration {
	now, next := d.opt.Webhooks.Now(), time.Time{}
	asks := len(d.remaining) == 0
	if asks {
		var err error
		if d.due, next, err = d.opt.Engine.Due(ctx, now); err != nil {
			return errorBackoff // the engine logs the error, and signals its end
		}
		d.remaining = d.roundRobin(d.due)
	}
	wait := idleWait
	earlier := func(at time.Time) {
		if !at.IsZero() {
			wait = max(0, min(wait, at.Sub(now)))
		}
	}
	earlier(next)
	d.planMissing = false
	ahead := max(concurrencyFirst, d.inflightLimit()/max(1, len(d.remaining)))
	starved := false
	for len(d.remaining) > 0 && !d.full() {
		id := d.remaining[0]
		at, err := d.serve(ctx, reports, visit{id, now, ahead})
		d.remaining = d.remaining[1:]
		if err != nil {
			at = now.Add(errorBackoff)
		}
		starved = starved || d.starves(d.queues[id])
		earlier(at)
	}
	d.setStarved(starved || len(d.remaining) > 0)
	d.count(ctx, now, len(d.due) > 0 || !next.IsZero())
	if d.evictIdle(d.due, now) {
		wait = min(wait, pollInterval)
	}
	switch {
	case !asks && len(d.remaining) == 0:
		wait = 0 // the next due time is unknown
	case d.planMissing:
		wait = min(wait, pauseMax)
	}
	return wait
}

// roundRobin orders triggers round-robin, starting after the one served last.
func (d *Dispatcher) roundRobin(ids []string) []string {
	slices.Sort(ids)
	i, found := slices.BinarySearch(ids, d.last)
	if found {
		i++
	}
	return slices.Concat(ids[i:], ids[:i])
}

// visit is a turn of one trigger, with a bound on the firings to read ahead.
type visit struct {
	id    string
	now   time.Time
	ahead int
}

// serve starts due deliveries of a trigger within the limits. It returns the time of the next
// visit; zero if another event causes it.
func (d *Dispatcher) serve(ctx, reports context.Context, v visit) (again time.Time, err error) {
	id, now := v.id, v.now
	q, err := d.queueOf(ctx, id, now)
	if q == nil || err != nil {
		return time.Time{}, err
	}
	if q.plan == nil {
		return q.held, nil
	}
	if at := d.heldUntil(q, q.plan, now); at.After(now) {
		q.held = at
		return at, nil
	}
	if r := d.reading(q, v); r.Limit > 0 {
		start := time.Now()
		list, read, err := d.opt.Engine.Pending(ctx, id, now, r.PendingQuery)
		if err != nil {
			return time.Time{}, err
		}
		d.refill(q, r, list, read)
		if len(list) >= r.Limit/2 {
			d.filling += time.Since(start)
		}
		if r.first {
			q.again = now.Add(min(againMax, pauseFactor*time.Since(start)))
		}
	}
	for d.start(ctx, reports, q, buildersMax) {
		d.last = id
	}
	return time.Time{}, nil
}

// start starts a delivery of a trigger if there is one that may start now, and fewer than a number
// of messages are being built.
func (d *Dispatcher) start(ctx, reports context.Context, q *queue, builders int) bool {
	if ctx.Err() != nil {
		return false
	}
	x, p := d.begin(q, builders)
	if x == nil {
		return false
	}
	d.running.Go(func() { d.deliver(ctx, reports, q, p, x) })
	return true
}

// count updates the backlog metrics from time to time.
func (d *Dispatcher) count(ctx context.Context, now time.Time, any bool) {
	if !any {
		d.met.note(0, 0)
		return
	}
	if now.Sub(d.counted).Abs() < backlogInterval {
		return
	}
	d.counted = now
	if n, first, err := d.opt.Engine.Backlog(ctx); err == nil {
		d.met.note(n, first)
	}
}

// meters are the metrics of this package.
type meters struct {
	outcomes map[webhook.Kind]*metrics.Counter
	dead     *metrics.Counter
	deferred *metrics.Counter
	dropped  *metrics.Counter
	paused   *metrics.Counter
	seconds  *metrics.PrometheusHistogram

	inflight atomic.Int64
	pending  atomic.Int64
	first    atomic.Int64 // time when the first delivery was due, ms; 0: none is pending
}

// The gauges exist while a Dispatcher is open.
const (
	gaugeUnderWay = "seb_deliveries_under_way"
	gaugePending  = "seb_deliveries_pending"
	gaugeOverdue  = "seb_deliveries_overdue_seconds"
)

func newMeters(o *Options) *meters {
	s := o.Metrics
	m := &meters{
		outcomes: map[webhook.Kind]*metrics.Counter{}, dead: s.GetOrCreateCounter("seb_deliveries_dead_total"),
		deferred: s.GetOrCreateCounter("seb_deliveries_deferred_total"), dropped: s.GetOrCreateCounter("seb_deliveries_cancelled_total"),
		paused:  s.GetOrCreateCounter("seb_deliveries_triggers_paused_total"),
		seconds: s.GetOrCreatePrometheusHistogram("seb_deliveries_attempt_seconds"),
	}
	for _, k := range []webhook.Kind{webhook.Delivered, webhook.Retry, webhook.Permanent, webhook.Stopped} {
		m.outcomes[k] = s.GetOrCreateCounter(`seb_deliveries_attempts_total{outcome="` + k.String() + `"}`)
	}
	s.NewGauge(gaugeUnderWay, func() float64 { return float64(m.inflight.Load()) })
	s.NewGauge(gaugePending, func() float64 { return float64(m.pending.Load()) })
	s.NewGauge(gaugeOverdue, func() float64 {
		first := m.first.Load()
		if first == 0 {
			return 0
		}
		return max(0, o.Webhooks.Now().Sub(time.UnixMilli(first)).Seconds())
	})
	return m
}

// note sets the number of pending deliveries, and the time (ms) when the first was or is due.
func (m *meters) note(pending, first int64) {
	m.pending.Store(pending)
	m.first.Store(first)
}
