// Package load does a run: it sends messages by a schedule that was computed ahead, receives and verifies them, and
// measures from the time that the schedule intended, so that a stall of the system costs what it would cost its users.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// Options are what Run needs to know.
type Options struct {
	Workload workload.Workload // valid
	Target   workload.Target
	Clock    Clock
	Spin     time.Duration // of the clock, for the result
	// Open makes the system for a topic; the default opens the target's driver.
	Open func(ctx context.Context, c sut.Config) (sut.System, error)
	// Run is in every message of the run; 0 draws one.
	Run uint64
	// Part of Parts: which process this is, of several that do the workload together, each what DealOut gives it. 0 Parts: it
	// does all. A message that another has sent is counted, and not measured, so that no two clocks are compared. What was lost
	// is counted, and measured, where it was sent. Each subscriber's own order is looked at, not that of those who share.
	Part, Parts int
	// Others are the other parts: there must be one for a system that is not inside each of them (sut.Inside).
	Others Others
	// Progress is called once a second, by one goroutine; nil for nobody.
	Progress func(Progress)
	// Second is called with the histograms of every second, one after the other when the run is over; nil for nobody. Its error
	// is that of the run.
	Second func(from, to time.Time, hists Hists) error
	// Floor is how long the same load is put on no system at all first; 0 leaves that out.
	Floor time.Duration
}

// FloorDriver is the driver of a system that does nothing.
const FloorDriver = "noop"

// How long it takes at most to connect, and to close what was opened.
const (
	connectMax = 2 * time.Minute
	closeMax   = 15 * time.Second
)

// lead is the time between everything being ready and the first message.
const lead = 20 * time.Millisecond

// Run does a run and returns what was measured. The error says that there is nothing to report: the workload is not valid,
// the system could not be set up, or ctx ended. What goes wrong later stands in the result.
func Run(ctx context.Context, o Options) (*result.Run, error) {
	if err := o.Workload.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	deal, err := o.deal()
	if err != nil {
		return nil, err
	}
	var floor *result.Floor
	if o.Floor > 0 && o.Target.Driver != FloorDriver {
		if floor, err = runFloor(ctx, o, deal); err != nil {
			return nil, fmt.Errorf("measure the floor: %w", err)
		}
	}
	r := newRun(o, deal)
	res, err := r.do(ctx)
	if err != nil {
		return nil, err
	}
	res.Floor = floor
	return res, nil
}

// deal is what this process does of the workload.
func (o *Options) deal() (Deal, error) {
	if o.Parts == 0 {
		deals, err := DealOut(&o.Workload, 1)
		if err != nil {
			return Deal{}, err
		}
		return deals[0], nil
	}
	if o.Part < 0 || o.Part >= o.Parts {
		return Deal{}, fmt.Errorf("part %d of %d: there is none", o.Part, o.Parts)
	}
	deals, err := DealOut(&o.Workload, o.Parts)
	if err != nil {
		return Deal{}, err
	}
	return deals[o.Part], faultsOfSubscribers(o.Workload.Faults)
}

// runFloor does the same load for a shorter time to a system that does nothing.
func runFloor(ctx context.Context, o Options, deal Deal) (*result.Floor, error) {
	f := o
	f.Workload.Faults = nil
	f.Workload.Duration = workload.Duration(o.Floor)
	f.Workload.Warmup = min(o.Workload.Warmup, workload.Duration(time.Second))
	f.Workload.Cooldown = 0
	f.Target = workload.Target{Driver: FloorDriver}
	f.Open, f.Others, f.Second, f.Floor, f.Run = nil, nil, nil, 0, 0
	if f.Progress != nil {
		f.Progress = func(p Progress) {
			p.Label = "floor of the generator"
			o.Progress(p)
		}
	}
	res, err := newRun(f, deal).do(ctx)
	if err != nil {
		return nil, err
	}
	return &result.Floor{
		Duration: workload.Duration(o.Floor), Curves: res.Curves, OwnLag: res.Generator.OwnLag, SentRate: res.Counts.SentRate,
	}, nil
}

// do is a run from beginning to end.
func (r *run) do(ctx context.Context) (res *result.Run, err error) {
	// Subscribers receive until the run is closed.
	receiveCtx, stopReceiving := context.WithCancel(context.WithoutCancel(ctx))
	r.stopReceiving = stopReceiving
	defer func() {
		if e := r.close(ctx); e != nil {
			if res != nil {
				res.Errors = append(res.Errors, result.Problem{Text: "close: " + e.Error(), Count: 1})
			}
			err = errors.Join(err, ctx.Err())
		}
	}()
	r.describe()
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	// From here on messages may come, from runs before.
	for _, s := range r.subscribers {
		r.receiving.Go(func() { s.receive(receiveCtx) })
	}
	if err := r.setStart(ctx); err != nil {
		return nil, err
	}
	r.send(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.exchange(ctx); err != nil {
		return nil, err
	}
	return r.outcome()
}

// connect sets the systems up, one for each topic, and opens all connections.
func (r *run) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	for i := range r.w.Topics {
		c := config(&r.o, i)
		switch {
		case r.apart: // two of them may have one bucket
			c.Name += "-of-" + strconv.Itoa(r.o.Part)
		case r.o.Parts > 0:
			c.Crowd = r.crowd(i)
		}
		sys, err := r.o.open(ctx, c)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		r.systems = append(r.systems, sys)
		info, err := sys.Setup(ctx)
		if err != nil {
			return fmt.Errorf("set up: %w", err)
		}
		r.res.System = info
	}
	if r.res.System.PID == 0 {
		r.res.System.PID = r.o.Target.PID
	}
	r.pid.Store(int64(r.res.System.PID))
	for i := range r.w.Faults {
		if r.w.Faults[i].NeedsPID() && r.pid.Load() <= 1 {
			return fmt.Errorf("fault %q: the broker's process is not known: give the target's pid", r.w.Faults[i])
		}
	}
	if err := r.connectSubscribers(ctx); err != nil {
		return err
	}
	for _, p := range r.publishers {
		conn, err := r.systems[p.topic].Publisher(ctx)
		if err != nil {
			return fmt.Errorf("open publisher %d: %w", p.number, err)
		}
		p.conn = conn
	}
	return nil
}

func (r *run) connectSubscribers(ctx context.Context) error {
	for _, s := range r.subscribers {
		conn, err := r.systems[s.group.Topic].Subscriber(ctx, r.w.Shared)
		if err != nil {
			return fmt.Errorf("open subscriber %d: %w", s.index, err)
		}
		s.conn = conn
	}
	return nil
}

// setStart agrees on the time of the first message.
func (r *run) setStart(ctx context.Context) error {
	r.start = r.clock.Now() + int64(lead)
	if r.o.Others != nil {
		at, err := r.o.Others.Ready(ctx)
		if err != nil {
			return fmt.Errorf("wait for the start: %w", err)
		}
		r.start = r.onClock(at)
	}
	r.res.Started = time.Now().Add(time.Duration(r.start - r.clock.Now()))
	r.measureFrom = r.start + int64(r.w.Warmup)
	r.measureTo = r.measureFrom + int64(r.w.Duration)
	r.end = r.start + int64(r.w.Length())
	r.deadline = r.end + int64(r.w.Timeout)
	return nil
}

// looks is how often the two clocks are looked at to tell one's time by the other; the quickest look counts.
const looks = 8

// onClock is a time on the run's clock.
func (r *run) onClock(at time.Time) (t int64) {
	best := int64(math.MaxInt64)
	for range looks {
		before := r.clock.Now()
		until := time.Until(at)
		if took := r.clock.Now() - before; took < best {
			best, t = took, before+took/2+int64(until)
		}
	}
	return t
}

// send publishes all messages and waits until they have arrived, or the time for it is over.
func (r *run) send(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.background.Go(func() { r.monitor(ctx) })
	r.background.Go(func() { r.jitter(ctx) })
	r.background.Go(func() { r.collectUsage(ctx) })
	for _, f := range r.w.Faults {
		r.background.Go(func() { r.fault(ctx, f) })
	}
	sendCtx, giveUp := context.WithCancel(ctx)
	r.background.Go(func() {
		// A system that takes no more messages does not hold the run up for ever.
		_ = r.clock.SleepUntil(sendCtx, r.deadline)
		giveUp()
	})
	for _, p := range r.publishers {
		r.sending.Go(func() { p.loop(sendCtx) })
	}
	r.sending.Wait()
	giveUp()
	r.drain(ctx)
	r.over = r.clock.Now()
	cancel()
	r.background.Wait()
}

// drainStep is how often a draining run looks whether everything has arrived, settle how long it then waits for what should
// not.
const (
	drainStep = 5 * time.Millisecond
	settle    = 200 * time.Millisecond
)

func (r *run) drain(ctx context.Context) {
	if r.o.Others != nil {
		r.drainTogether(ctx)
	}
	for now := r.clock.Now(); now < r.deadline && r.o.Others == nil && !r.complete(); now = r.clock.Now() {
		if r.clock.SleepUntil(ctx, min(now+int64(drainStep), r.deadline)) != nil {
			return
		}
	}
	_ = r.clock.SleepUntil(ctx, min(r.clock.Now()+int64(settle), r.deadline))
}

// close ends whatever is open. The result's samples were taken before; what still comes is not counted.
func (r *run) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	r.seal()
	r.stopReceiving()
	r.receiving.Wait()
	var errs []error
	for _, s := range r.subscribers {
		if s.conn != nil {
			errs = append(errs, s.conn.Close())
		}
	}
	for _, p := range r.publishers {
		if p.conn != nil {
			errs = append(errs, p.conn.Close(ctx))
		}
	}
	for _, s := range r.systems {
		errs = append(errs, s.Teardown(ctx))
	}
	return errors.Join(errs...)
}

func drawRun() uint64 {
	for {
		if id := rand.Uint64(); id != 0 {
			return id
		}
	}
}
