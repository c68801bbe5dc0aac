package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/trigger"
)

// Options are what a Dispatcher is opened with. Engine and Log must be set.
type Options struct {
	Engine *trigger.Engine
	Log    trigger.Log
	// Lost is closed when this broker can not go on, such as when another one leads: all stops at once then.
	Lost <-chan struct{}
	// Webhooks say how messages are posted, and where to. Its PerTrigger holds for topics too.
	Webhooks webhook.Options

	Logger  *slog.Logger // slog.Default()
	Metrics *metrics.Set // an own set; it is not registered anywhere
}

const (
	perTrigger  = 4   // attempts at once, if Options.Webhooks does not say
	flightsMax  = 256 // of a trigger, with those whose outcome is not recorded yet; of all see flightBytes
	queueMax    = 64  // of a trigger: firings that are read ahead
	chainMax    = 16  // attempts of a trigger in a row, before others have a look
	builtMax    = 16  // messages that are made at once: each reads its events from the log
	restMin     = 10 * time.Millisecond
	restMax     = 500 * time.Millisecond
	restShare   = 20          // of the time that a look takes: so that looking takes a twentieth of a core at most
	lookEvery   = time.Second // while anything is under way, which hides what of its trigger comes next
	troubleRest = time.Second
	backlogRest = 5 * time.Second // counting reads an index of all that is to be delivered
	closeTime   = 2 * time.Second // in which outcomes may still be recorded
	idle        = time.Hour
)

// Of all triggers there are as many deliveries as Options.Webhooks.Bytes has flightBytes, with those whose outcome is not
// recorded yet, and a quarter of these bytes is for plans, each of which takes planShare times its definition.
const (
	flightBytes = 16 << 10
	planShare   = 4
	bytesUsual  = 32 << 20
)

// BytesWithin is how many bytes messages may take at once, for Options.Webhooks, in a broker with a memory limit.
func BytesWithin(memoryLimit int64) int {
	const share, most = 16, 32 << 20
	return int(min(most, memoryLimit/share))
}

// Dispatcher delivers until Close.
type Dispatcher struct {
	opt     Options
	sender  *webhook.Sender
	met     *meters
	stop    context.CancelFunc // ends the loop and attempts
	abandon context.CancelFunc // ends reports too, which outlive attempts
	done    chan struct{}      // closed when the loop has returned
	wake    chan struct{}      // capacity 1: something that was under way is not any more
	flights sync.WaitGroup

	lanes   map[string]*lane // by trigger; the loop's
	plans   int              // bytes of their plans
	starved bool             // there was no room for a plan
	due     []string         // triggers of which something was due, sorted
	left    []string         // of these, those that are to be served before the engine is asked again what is due
	last    string           // the trigger that was served last
	counted time.Time        // when the backlog was

	mu        sync.Mutex           // guards what follows, and what lanes say is guarded
	built     int                  // messages that are being made
	under     int                  // of all lanes
	landings  uint64               // attempts that have ended, and given back what they had
	receivers map[string]time.Time // until when a URL wants to be left alone
}

// Open returns a Dispatcher that delivers what o.Engine has until Close; ctx gives values to its requests, its end after
// Open does not matter. Errors: options that are missing or out of range.
func Open(ctx context.Context, o Options) (*Dispatcher, error) {
	if o.Engine == nil || o.Log == nil {
		return nil, errors.New("deliveries: engine and log must be set")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	o.Webhooks.PerTrigger = cmp.Or(o.Webhooks.PerTrigger, perTrigger)
	if o.Webhooks.Total > 0 {
		o.Webhooks.PerTrigger = min(o.Webhooks.PerTrigger, o.Webhooks.Total)
	}
	if o.Webhooks.Now == nil {
		o.Webhooks.Now = time.Now
	}
	o.Webhooks.Bytes = cmp.Or(o.Webhooks.Bytes, bytesUsual)
	sender, err := webhook.NewSender(o.Webhooks)
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	d := &Dispatcher{
		opt: o, sender: sender, met: newMeters(&o), done: make(chan struct{}), wake: make(chan struct{}, 1),
		lanes: map[string]*lane{}, receivers: map[string]time.Time{},
	}
	ctx = context.WithoutCancel(ctx)
	reports, abandon := context.WithCancel(ctx)
	attempts, stop := context.WithCancel(reports)
	d.stop, d.abandon = stop, abandon
	go d.run(attempts, reports)
	return d, nil
}

// Close ends attempts under way, which are made again by whoever delivers next, records the outcomes of those that are over,
// for two seconds at most, and waits for all that. It may be called twice.
func (d *Dispatcher) Close() {
	d.stop()
	late := time.AfterFunc(closeTime, d.abandon)
	<-d.done
	d.flights.Wait()
	late.Stop()
	d.abandon()
	d.sender.Close()
}

func (d *Dispatcher) run(ctx, reports context.Context) {
	defer close(d.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := d.opt.Engine.Changed()
		start := time.Now()
		wait := d.turn(ctx, reports)
		next := start.Add(min(max(restMin, restShare*time.Since(start)), restMax))
		timer.Reset(wait)
		select {
		case <-changed:
		case <-d.wake:
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

// turn begins what is due, as far as there is room, and returns how long there is nothing more, if nobody calls.
func (d *Dispatcher) turn(ctx, reports context.Context) time.Duration {
	now, next := d.opt.Webhooks.Now(), time.Time{}
	asks := len(d.left) == 0
	if asks {
		var err error
		if d.due, next, err = d.opt.Engine.Due(ctx, now); err != nil {
			return troubleRest // the engine says what is wrong, and calls when it is right again
		}
		d.left = d.inTurn(d.due)
	}
	wait := idle
	earlier := func(at time.Time) {
		if !at.IsZero() {
			wait = max(0, min(wait, at.Sub(now)))
		}
	}
	earlier(next)
	d.starved = false
	ahead := min(queueMax, max(perTrigger, d.flightsAll()/max(1, len(d.left))))
	for len(d.left) > 0 && !d.full() {
		at, err := d.serve(ctx, reports, visit{d.left[0], now, ahead})
		d.left = d.left[1:]
		if err != nil {
			at = now.Add(troubleRest)
		}
		earlier(at)
	}
	d.count(ctx, now, len(d.due) > 0 || !next.IsZero())
	if d.tidy(d.due, now) {
		wait = min(wait, lookEvery)
	}
	switch {
	case !asks && len(d.left) == 0:
		wait = 0 // it is not known what is due next
	case d.starved:
		wait = min(wait, restMax)
	}
	return wait
}

// inTurn begins with whoever comes behind the one that was served last.
func (d *Dispatcher) inTurn(ids []string) []string {
	slices.Sort(ids)
	i, found := slices.BinarySearch(ids, d.last)
	if found {
		i++
	}
	return slices.Concat(ids[i:], ids[:i])
}

// visit is a trigger of which something is due, and how many of its firings may be read ahead.
type visit struct {
	id    string
	now   time.Time
	ahead int
}

// serve begins what is due of a trigger, as far as there is room. It returns when to come again at the latest; zero if
// something else calls then.
func (d *Dispatcher) serve(ctx, reports context.Context, v visit) (again time.Time, err error) {
	id, now := v.id, v.now
	l, err := d.lane(ctx, id, now)
	if l == nil || err != nil {
		return time.Time{}, err
	}
	if l.plan == nil {
		return l.held, nil
	}
	if at := d.heldUntil(l, l.plan, now); at.After(now) {
		l.held = at
		return at, nil
	}
	room, under, queued := d.room(l)
	if room > 0 && queued == 0 {
		list, err := d.opt.Engine.Pending(ctx, id, now, under+v.ahead) // those under way are still pending
		if err != nil {
			return time.Time{}, err
		}
		d.queue(l, list)
	}
	for range room {
		x, p := d.begin(l, now)
		if x == nil {
			break
		}
		d.last = id
		d.flies(l, 1)
		d.flights.Go(func() { d.fly(ctx, reports, l, p, x) })
	}
	return time.Time{}, nil
}

// count notes how much is to be delivered, now and then.
func (d *Dispatcher) count(ctx context.Context, now time.Time, any bool) {
	if !any {
		d.met.note(0, 0)
		return
	}
	if now.Sub(d.counted).Abs() < backlogRest {
		return
	}
	d.counted = now
	if n, first, err := d.opt.Engine.Backlog(ctx); err == nil {
		d.met.note(n, first)
	}
}

// rouse has the loop have a look.
func (d *Dispatcher) rouse() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
