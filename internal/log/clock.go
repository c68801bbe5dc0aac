package log

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

const (
	// heldPoll is how often a leader checks the clock again while writes wait for it.
	heldPoll = time.Second
	// askEvery is how often it then asks the store for its time.
	askEvery = 5 * time.Second
	// leapWait is how long nothing is deleted for its age after a start with a leap of the time.
	leapWait = 10 * time.Minute
)

// clock is the log's clock, shared by all goroutines.
type clock struct {
	mu    sync.Mutex // guards the fields below
	time  Clock
	since time.Time // when it was started
}

// restartClock reads the clocks again, as at a start: another broker may have led with its own clock.
func (l *Log) restartClock() {
	l.clock.mu.Lock()
	l.clock.time, l.clock.since = Clock{Accept: l.opt.AcceptClock}, time.Now()
	l.clock.mu.Unlock()
	_, _ = l.time() // reads them
}

// reading returns the current readings of the clocks.
func (l *Log) reading() Reading {
	if l.opt.Clocks != nil {
		return l.opt.Clocks()
	}
	r := Reading{Mono: mono(), Wall: time.Now().UnixMicro()}
	if c, ok := objstore.As[objstore.Clocked](l.opt.Store); ok {
		r.Skew, r.Store = c.ClockSkew()
	}
	return r
}

func (l *Log) time() (int64, error) {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.time.Time(l.reading())
}

// Now is the log time of a commit that is made now. It may be wrong while ClockError is not nil.
func (l *Log) Now() time.Time {
	at, _ := l.time()
	return time.UnixMicro(at)
}

// ClockError is why no commit is made at the time of the clock, or nil (rule R15). It makes no
// request.
func (l *Log) ClockError() error {
	_, err := l.time()
	return err
}

// TimeDoubted reports whether nothing may be deleted for its age. That is the case while the clock
// is wrong, and for a while after a leap at the start, so that an operator can notice it.
func (l *Log) TimeDoubted() bool {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	_, err := l.clock.time.Time(l.reading())
	return err != nil || l.clock.time.Leapt() && time.Since(l.clock.since) < leapWait
}

// startClock gives the clock the log's time when this run becomes leader.
func (o *owner) startClock() {
	o.clock.mu.Lock()
	o.clock.time.Lead(o.core.State().AppendTime)
	o.clock.mu.Unlock()
	if err := o.ClockError(); err != nil {
		o.opt.Logger.Warn("commits wait for the clock", "shard", o.opt.Core.Shard, "err", err)
	}
}

// clockHolds returns the log time of a commit that is made now, and whether writes wait for the
// clock. If the store's clock is the reason it asks the store for its time, so that a corrected
// clock is noticed.
func (o *owner) clockHolds(ctx context.Context) (at int64, holds bool) {
	at, err := o.time()
	if o.core.Role() != core.RoleLeader {
		o.held = false
		return at, false
	}
	if was := o.held; was != (err != nil) {
		o.held = !was
		if err != nil {
			o.opt.Logger.Warn("writes wait for the clock", "shard", o.opt.Core.Shard, "err", err)
		} else {
			o.opt.Logger.Info("writes continue: the clock is right", "shard", o.opt.Core.Shard)
		}
	}
	if err == nil {
		return at, false
	}
	if e, ok := errors.AsType[*ClockError](err); ok && e.Skew != 0 && o.now() >= o.askAt {
		o.askAt = o.now() + int64(askEvery)
		o.gets.run(func() { o.askTime(ctx) })
	}
	return at, true
}

// askTime makes a request to get the date of its answer.
func (o *owner) askTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	if object, err := o.opt.Store.Get(ctx, core.MetaKey, objstore.Whole); err == nil {
		_ = object.Body.Close()
	}
}

// ResetTime assumes that the machine's clock is right, and returns the change by which the log time
// goes back to it (rule R15). A proposal of it is refused with state.ErrNotLater if the log time is
// not later. Error: the store's clock contradicts the machine's.
func (l *Log) ResetTime() (r state.Record, err error) {
	l.clock.mu.Lock()
	at, err := l.clock.time.Set(l.reading())
	l.clock.mu.Unlock()
	if err != nil {
		return r, err
	}
	return state.Record{Kind: state.TimeReset, Time: at}, nil
}
