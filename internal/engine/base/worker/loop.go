package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
)

// Run runs a function for each message until ctx ends. Then it leases no more, waits for the functions that
// run and for their settlements, and returns nil, or why some are not stored. It returns an error of the
// source that no repetition can change in the same way.
func Run(ctx context.Context, s Source, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	l := &loop{s: s, o: o, events: make(chan func(), 64), held: map[*held]struct{}{}}
	for failures := 1; o.Visibility == 0; failures++ {
		visibility, err := s.Visibility(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			o.Visibility = visibility
		case s.Judge(err) != Again:
			return err
		default:
			o.OnError(err)
			_ = pause.Wait(ctx, pause.Spread(retryDelay.After(failures)))
		}
	}
	l.o.Visibility = o.Visibility
	return l.run(ctx)
}

// loop is one Run. Its fields belong to the goroutine of run; all others send it what has happened.
type loop struct {
	s      Source
	o      Options
	events chan func()

	held     map[*held]struct{} // leased, and not settled
	running  int
	pending  []*held // finished: to be settled
	settling int

	leasing, extending bool
	empty              bool // UntilEmpty: nothing was ready, and nothing was held
	stopping           bool
	err                error // why it stops
	unsettled          int   // messages whose settlement was given up
}

// held is a message that the worker has.
type held struct {
	Lease
	at       time.Time // the lease began, at the latest
	end      context.CancelCauseFunc
	finished bool
	lost     bool
	says     Settlement // finished
}

// run is the only goroutine that changes the loop.
func (l *loop) run(ctx context.Context) error {
	calls := context.WithoutCancel(ctx)
	running, end := context.WithCancelCause(calls)
	defer end(nil)
	leasing, stopLeasing := context.WithCancel(ctx)
	defer stopLeasing()
	tick := time.NewTicker(l.o.Visibility / 6)
	defer tick.Stop()
	var grace <-chan time.Time
	stop := ctx.Done()
	for {
		l.lease(leasing, running)
		l.settle(leasing, calls)
		l.stopping = l.stopping || l.err != nil || l.empty
		if l.stopping && stop != nil {
			stop = nil
			stopLeasing()
			if l.o.GracePeriod > 0 {
				grace = time.After(l.o.GracePeriod)
			}
		}
		if l.stopping && !l.leasing && !l.extending && l.running == 0 && len(l.pending) == 0 && l.settling == 0 {
			return l.result()
		}
		select {
		case f := <-l.events:
			f()
			l.drain()
		case <-stop:
			l.stopping = true
		case <-tick.C:
			l.extend(calls)
		case <-grace:
			end(errStopped)
		}
	}
}

// result returns why the loop has ended.
func (l *loop) result() error {
	if l.unsettled == 0 {
		return l.err
	}
	err := l.err
	if err == nil {
		err = errors.New("the broker refused them")
	}
	return fmt.Errorf("%d settlements are not stored, so their messages come again: %w", l.unsettled, err)
}

// drain takes what has happened meanwhile, so that one request serves all of it. It starts no function, so it
// ends.
func (l *loop) drain() {
	for yields := 0; yields < 2; {
		select {
		case f := <-l.events:
			f()
		default:
			runtime.Gosched() // functions that return at once
			yields++
		}
	}
}

// call bounds a call whose connection may be dead.
func call(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, wait+callMax)
}

// lease leases messages for the slots that are free, unless it does already.
func (l *loop) lease(ctx, running context.Context) {
	free := min(leaseMax, l.o.Concurrency-l.running)
	if l.stopping || l.leasing || free == 0 || len(l.pending)+l.settling >= unsettledMax {
		return
	}
	l.leasing = true
	idle := len(l.held) == 0
	r := Request{Max: free, Wait: leaseWait, Visibility: l.o.Visibility}
	switch {
	case l.o.UntilEmpty && idle:
		r.Wait = 0
	case l.o.UntilEmpty:
		r.Wait = busyWait
	}
	go func() {
		list, err := l.leaseOnce(ctx, r)
		now := time.Now()
		l.events <- func() {
			l.leasing = false
			if err != nil && l.err == nil && !l.stopping {
				l.err = err
			}
			l.empty = l.o.UntilEmpty && idle && err == nil && len(list) == 0 && ctx.Err() == nil
			for i := range list {
				l.start(running, &list[i], now)
			}
		}
	}()
}

// leaseOnce leases messages. It repeats what may succeed.
func (l *loop) leaseOnce(ctx context.Context, r Request) (list []Lease, err error) {
	for failures := 1; ; failures++ {
		began := time.Now()
		bounded, cancel := call(ctx, r.Wait)
		list, err = l.s.Lease(bounded, r)
		silent := bounded.Err() != nil
		cancel()
		switch {
		case len(list) > 0 || ctx.Err() != nil:
			return list, nil
		case err == nil && time.Since(began) >= r.Wait/2:
			return nil, nil
		case err == nil: // a broker that stops, or has too many connections, does not wait
		case !silent && l.s.Judge(err) != Again:
			return nil, err
		default:
			l.o.OnError(fmt.Errorf("lease: %w", err))
		}
		_ = pause.Wait(ctx, pause.Spread(retryDelay.After(failures)))
	}
}

// start starts the function of a message.
func (l *loop) start(ctx context.Context, x *Lease, at time.Time) {
	h := &held{Lease: *x, at: at}
	l.held[h] = struct{}{}
	l.running++
	var over context.CancelFunc = func() {}
	if l.o.NoExtend { // a bit earlier, so that the settlement comes in time
		ctx, over = context.WithTimeoutCause(ctx, l.o.Visibility-min(l.o.Visibility/10, time.Second), ErrLeaseOver)
	}
	ctx, h.end = context.WithCancelCause(ctx)
	go func() {
		defer over()
		l.call(ctx, h)
	}()
}

// call calls the function of a message. A panic is a failed try, as in other servers: it is not the fault of
// the other messages.
func (l *loop) call(ctx context.Context, h *held) {
	err := errors.New("the function ended its goroutine") // runtime.Goexit
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			l.o.OnError(fmt.Errorf("message %s: %w\n%s", h.ID, err, debug.Stack()))
		}
		stopped := errors.Is(context.Cause(ctx), errStopped)
		h.end(nil)
		l.events <- func() { l.finish(h, outcome(h.Receipt, err, stopped)) }
	}()
	err = h.Run(ctx)
}

// finish notes what became of a message.
func (l *loop) finish(h *held, says Settlement) {
	l.running--
	if h.finished, h.says = true, says; h.lost {
		l.forget(h, ErrLost)
		return
	}
	l.pending = append(l.pending, h)
}

// forget drops a message that is settled, or whose settlement is refused.
func (l *loop) forget(h *held, err error) {
	if delete(l.held, h); err != nil {
		l.o.OnError(fmt.Errorf("message %s: %s: %w", h.ID, h.says.Do, err))
	}
}

// settle says what became of messages, unless it does already.
func (l *loop) settle(ctx, calls context.Context) {
	if l.settling > 0 || len(l.pending) == 0 {
		return
	}
	n, bytes := 0, 0
	for n < len(l.pending) && n < settleMax && bytes < settleBytesMax {
		bytes += len(l.pending[n].says.Reason)
		n++
	}
	batch := l.pending[:n:n]
	l.pending = l.pending[n:]
	l.settling = n
	list := make([]Settlement, n)
	for i, h := range batch {
		list[i] = h.says
	}
	last := l.stopping // then it is not repeated
	go func() {
		bounded, cancel := call(calls, 0)
		defer cancel()
		results, err := l.s.Settle(bounded, list)
		again := err != nil && (bounded.Err() != nil || l.s.Judge(err) == Again)
		if err != nil {
			results = nil
			l.o.OnError(fmt.Errorf("settle: %w", err))
		}
		for _, result := range results {
			again = again || result != nil && l.s.Judge(result) == Again
		}
		if again = again && !last; again {
			_ = pause.Wait(ctx, settlePause)
		}
		l.events <- func() {
			l.settling = 0
			switch {
			case err == nil:
				l.settled(batch, results, again)
			case again:
				l.repeat(batch...)
			default:
				l.abandon(batch, err)
			}
		}
	}()
}

// repeat settles messages again.
func (l *loop) repeat(batch ...*held) { l.pending = append(batch, l.pending...) }

// abandon gives up settlements: the messages come again when their leases are over.
func (l *loop) abandon(batch []*held, err error) {
	for _, h := range batch {
		l.forget(h, nil)
	}
	l.unsettled += len(batch)
	if l.err == nil {
		l.err = err
	}
}

// settled notes the results of a batch. again: those that may succeed are repeated.
func (l *loop) settled(batch []*held, results []error, again bool) {
	for i, h := range batch {
		err := results[i]
		if err == nil {
			l.forget(h, nil)
			continue
		}
		switch judged := l.s.Judge(err); {
		case judged == Again && again:
			l.repeat(h)
		case judged == NoDeadLetter && h.says.Do == Dead:
			h.says.Do = Retry
			l.repeat(h)
		case judged == Lost:
			l.forget(h, ErrLost)
		default: // it comes again when its lease is over
			l.unsettled++
			l.forget(h, err)
		}
	}
}

// extend keeps the messages of functions that run, and those that are not settled yet.
func (l *loop) extend(ctx context.Context) {
	if l.extending {
		return
	}
	now := time.Now()
	var due []*held
	for h := range l.held { //tidy:unordered they are independent
		if !h.lost && now.Sub(h.at) >= l.o.Visibility/3 && (h.finished || !l.o.NoExtend) {
			due = append(due, h)
		}
	}
	if len(due) == 0 {
		return
	}
	l.extending = true
	go func() {
		results := make([]error, 0, len(due))
		for rest := due; len(rest) > 0; {
			some := rest[:min(settleMax, len(rest))]
			rest = rest[len(some):]
			list := make([]Settlement, len(some))
			for i, h := range some {
				list[i] = Settlement{Receipt: h.Receipt, Do: Extend, Delay: &l.o.Visibility}
			}
			bounded, cancel := call(ctx, 0)
			got, err := l.s.Settle(bounded, list)
			cancel()
			if err != nil {
				l.o.OnError(fmt.Errorf("extend: %w", err))
				break // the next turn tries again; an error that stays ends the lease of the next messages
			}
			results = append(results, got...)
		}
		l.events <- func() {
			l.extending = false
			l.extended(due[:len(results)], results, now)
		}
	}()
}

// extended notes which leases were extended, and ends the functions of those that are lost.
func (l *loop) extended(list []*held, results []error, at time.Time) {
	for i, h := range list {
		switch {
		case results[i] == nil:
			h.at = at
		case l.s.Judge(results[i]) == Lost && !h.finished: // else its settlement says so
			h.lost = true
			h.end(ErrLost)
		}
	}
}
