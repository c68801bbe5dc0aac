// Package load performs a run: it sends messages by a schedule that was computed in advance,
// receives and verifies them, and measures from the scheduled time, so that a stall of the system
// shows the delay that users of the system would see.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// Options are the options of Run.
type Options struct {
	Workload workload.Workload // must be valid
	Target   workload.Target
	Clock    Clock
	Spin     time.Duration // of the clock; recorded in the result
	// Open makes the system for a topic; the default opens the target's driver.
	Open func(ctx context.Context, c sut.Config) (sut.System, error)
	// Run is the run id in every message; 0 draws one.
	Run uint64
	// Part of Parts is the number of this process among several that do the workload together;
	// Assign distributes the connections. Parts is 0 for a single process. Messages that another
	// part sent are counted but not measured, because the clocks may differ. Lost messages are
	// counted and measured by the part that sent them. The order is checked per subscriber, not
	// across subscribers that share messages.
	Part, Parts int
	// Others are the other parts. They are required unless the system is inside each process
	// (sut.Inside).
	Others Others
	// Progress, if not nil, is called once a second, from one goroutine.
	Progress func(Progress)
	// Floor is the duration for which the same load is first put on a system that does nothing; 0
	// skips this.
	Floor time.Duration
}

// FloorDriver is the driver of a system that does nothing.
const FloorDriver = "noop"

// The time limits for connecting, and for closing all connections.
const (
	connectMax = 2 * time.Minute
	closeMax   = 15 * time.Second
)

// lead is the time between the end of the preparations and the first message.
const lead = 20 * time.Millisecond

// Run performs a run and returns what was measured. An error means that there is nothing to report:
// the workload is invalid, the system could not be set up, or ctx ended. Later failures are
// recorded in the result.
func Run(ctx context.Context, o Options) (*result.Run, error) {
	if err := o.Workload.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	assigned, err := o.assignment()
	if err != nil {
		return nil, err
	}
	var floor *result.Floor
	if o.Floor > 0 && o.Target.Driver != FloorDriver {
		if floor, err = runFloor(ctx, o, assigned); err != nil {
			return nil, fmt.Errorf("measure the floor: %w", err)
		}
	}
	r := newRun(o, assigned)
	res, err := r.execute(ctx)
	if err != nil {
		return nil, err
	}
	res.Floor = floor
	return res, nil
}

// assignment returns the connections of this process.
func (o *Options) assignment() (Assignment, error) {
	if o.Parts == 0 {
		all, err := Assign(&o.Workload, 1)
		if err != nil {
			return Assignment{}, err
		}
		return all[0], nil
	}
	if o.Part < 0 || o.Part >= o.Parts {
		return Assignment{}, fmt.Errorf("part %d of %d: no such part", o.Part, o.Parts)
	}
	all, err := Assign(&o.Workload, o.Parts)
	if err != nil {
		return Assignment{}, err
	}
	return all[o.Part], faultsOfSubscribers(o.Workload.Faults)
}

// runFloor puts the same load on a system that does nothing, for a shorter time.
func runFloor(ctx context.Context, o Options, assigned Assignment) (*result.Floor, error) {
	f := o
	f.Workload.Faults = nil
	f.Workload.Duration = workload.Duration(o.Floor)
	f.Workload.Warmup = min(o.Workload.Warmup, workload.Duration(time.Second))
	f.Workload.Cooldown = 0
	f.Target = workload.Target{Driver: FloorDriver}
	f.Open, f.Others, f.Floor, f.Run = nil, nil, 0, 0
	if f.Progress != nil {
		f.Progress = func(p Progress) {
			p.Label = "floor of the generator"
			o.Progress(p)
		}
	}
	res, err := newRun(f, assigned).execute(ctx)
	if err != nil {
		return nil, err
	}
	return &result.Floor{
		Duration: workload.Duration(o.Floor), Curves: res.Curves, OwnLag: res.Generator.OwnLag, SentRate: res.Counts.SentRate,
	}, nil
}

// execute performs a run from beginning to end.
func (r *run) execute(ctx context.Context) (res *result.Run, err error) {
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
	// Messages may arrive from here on, including those of earlier runs.
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
	return r.outcome(), nil
}

// connect sets up the systems, one for each topic, and opens all connections.
func (r *run) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	for i := range r.w.Topics {
		c := config(&r.o, i)
		switch {
		case r.ownSystems: // two systems may use the same bucket
			c.Name += "-of-" + strconv.Itoa(r.o.Part)
		case r.o.Parts > 0:
			c.Group = r.processGroup(i)
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
	r.res.System.PID = cmp.Or(r.res.System.PID, r.o.Target.PID)
	r.pid.Store(int64(r.res.System.PID))
	for i := range r.w.Faults {
		if r.w.Faults[i].NeedsPID() && r.pid.Load() <= 1 {
			return fmt.Errorf("fault %q: the broker's process is unknown: set pid= in the target", r.w.Faults[i])
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

// clockReadings is the number of attempts to compare two clocks; the fastest attempt is used.
const clockReadings = 8

// onClock converts a time to the run's clock.
func (r *run) onClock(at time.Time) (t int64) {
	best := int64(math.MaxInt64)
	for range clockReadings {
		before := r.clock.Now()
		until := time.Until(at)
		if took := r.clock.Now() - before; took < best {
			best, t = took, before+took/2+int64(until)
		}
	}
	return t
}

// send publishes all messages and waits until they have arrived or the time limit is reached.
func (r *run) send(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.background.Go(func() { r.monitor(ctx) })
	r.background.Go(func() { r.jitter(ctx) })
	r.background.Go(func() { r.collectUsage(ctx) })
	for _, f := range r.w.Faults {
		r.background.Go(func() { r.runFault(ctx, f) })
	}
	sendCtx, giveUp := context.WithCancel(ctx)
	r.background.Go(func() {
		// A system that accepts no more messages must not block the run.
		_ = r.clock.SleepUntil(sendCtx, r.deadline)
		giveUp()
	})
	for _, p := range r.publishers {
		r.sending.Go(func() { p.loop(sendCtx) })
	}
	r.sending.Wait()
	giveUp()
	r.drain(ctx)
	r.finished = r.clock.Now()
	cancel()
	r.background.Wait()
}

// drainStep is the interval at which a draining run checks whether everything has arrived; settle
// is how long it then waits for messages that should not arrive.
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

// close closes all connections and systems. The samples of the result were taken before; messages
// that still arrive are not counted.
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

// Host sets up what the parts of a run share, and removes it. Systems inside the processes need
// nothing shared.
type Host struct {
	systems []sut.System
	info    sut.Info
}

// OpenHost sets up a run for its parts. o has the same options as the parts, except for the part
// number.
func OpenHost(ctx context.Context, o Options) (*Host, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	h := &Host{}
	for topic := range o.Workload.Topics {
		c := config(&o, topic)
		c.Group = &sut.ProcessGroup{Host: true, SubscribersAll: o.Workload.Subscribers, Shared: o.Workload.Shared}
		sys, err := o.open(ctx, c)
		if err == nil {
			h.systems = append(h.systems, sys)
			h.info, err = sys.Setup(ctx)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("set up: %w", err), h.Close(ctx))
		}
	}
	h.info.PID = cmp.Or(h.info.PID, o.Target.PID)
	return h, nil
}

// Info describes what was set up.
func (h *Host) Info() sut.Info { return h.info }

// Close removes what was set up, even if ctx has ended. The parts must be done with it.
func (h *Host) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	errs := make([]error, len(h.systems))
	var closing sync.WaitGroup
	for i, s := range h.systems {
		closing.Go(func() { errs[i] = s.Teardown(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// open opens a system with o.Open or with the target's driver.
func (o *Options) open(ctx context.Context, c sut.Config) (sut.System, error) {
	if o.Open != nil {
		return o.Open(ctx, c)
	}
	return sut.Open(ctx, o.Target.Driver, c)
}

// config returns the driver configuration for the system of a topic.
func config(o *Options, topic int) sut.Config {
	name := "seb-bench-" + runID(o.Run)
	if o.Workload.Topics > 1 {
		name += "-" + strconv.Itoa(topic)
	}
	return sut.Config{
		Address: o.Target.Address, Name: name, Partitions: o.Workload.Partitions, PayloadBytes: o.Workload.Size.Max(), Batch: o.Workload.Batch,
		Options: o.Target.Options, PID: o.Target.PID,
	}
}

// processGroup tells the system of a topic which connections this part opens.
func (r *run) processGroup(topic int) *sut.ProcessGroup {
	first := r.assigned.PublisherFirst
	// The first publisher of the topic.
	first += (topic - first%r.w.Topics + r.w.Topics) % r.w.Topics
	return &sut.ProcessGroup{PublisherFirst: first / r.w.Topics, Subscribers: r.assigned.own(topic), SubscribersAll: r.w.Subscribers, Shared: r.w.Shared}
}

// runID formats the id of a run for results and topic names.
func runID(run uint64) string { return fmt.Sprintf("%016x", run) }

// faultsOfSubscribers returns an error unless all faults act on subscribers only: other faults are
// not possible in a run with several load machines.
func faultsOfSubscribers(list []workload.Fault) error {
	for _, f := range list {
		if f.Kind != workload.Slow && f.Kind != workload.Hold {
			return fmt.Errorf("fault %q: a run with several load machines supports only %s and %s", f, workload.Slow, workload.Hold)
		}
	}
	return nil
}
