package log

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/logtime"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

const (
	// heldLook is how often a leader looks at the clock again while writes wait for it.
	heldLook = time.Second
	// askEvery is how often it asks the store for its time then.
	askEvery = 5 * time.Second
	// leapWait is how long after a start with a leap of the time nothing is deleted for its age.
	leapWait = 10 * time.Minute
)

// clock is the log's clock, for everybody.
type clock struct {
	mu   sync.Mutex // guards time
	time logtime.Clock
}

// reading is what the clocks show now.
func (l *Log) reading() logtime.Reading {
	if l.opt.Clocks != nil {
		return l.opt.Clocks()
	}
	r := logtime.Reading{Mono: mono(), Wall: time.Now().UnixMicro()}
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

// Now is the time by which the log goes: that of a commit that is made now. While ClockError is not nil it may be wrong.
func (l *Log) Now() time.Time {
	at, _ := l.time()
	return time.UnixMicro(at)
}

// ClockError says why no commit is made at the time that the clock shows, or nil (rule R15). It makes no request.
func (l *Log) ClockError() error {
	_, err := l.time()
	return err
}

// TimeDoubted says whether nothing must be deleted for its age: the clock is wrong, or it leapt at the start and nobody may
// have noticed yet.
func (l *Log) TimeDoubted() bool {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	_, err := l.clock.time.Time(l.reading())
	return err != nil || l.clock.time.Leapt() && time.Since(l.start) < leapWait
}

// leads tells the clock where the log's time is when this run begins to lead.
func (o *owner) leads() {
	o.clock.mu.Lock()
	o.clock.time.Lead(o.core.State().AppendTime)
	o.clock.mu.Unlock()
	if err := o.ClockError(); err != nil {
		o.opt.Logger.Warn("no commit is made", "shard", o.opt.Core.Shard, "err", err)
	}
}

// held says whether writes wait for the clock, and asks the store for its time if its clock is what they wait for.
func (o *owner) held(ctx context.Context) bool {
	if o.core.Role() != core.RoleLeader {
		o.waits = false
		return false
	}
	err := o.ClockError()
	if was := o.waits; was != (err != nil) {
		o.waits = !was
		if err != nil {
			o.opt.Logger.Warn("writes wait", "shard", o.opt.Core.Shard, "err", err)
		} else {
			o.opt.Logger.Info("writes go on: the clock is right", "shard", o.opt.Core.Shard)
		}
	}
	var e *logtime.Error
	if now := o.now(); errors.As(err, &e) && e.Skew != 0 && now >= o.askAt {
		o.askAt = now + int64(askEvery)
		o.gets.run(func() { o.askTime(ctx) })
	}
	return err != nil
}

// askTime makes a request for the sake of its answer's date.
func (o *owner) askTime(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	if object, err := o.opt.Store.Get(ctx, core.MetaKey, objstore.Whole); err == nil {
		_ = object.Body.Close()
	}
}

// ResetTime takes the machine's clock to be right and proposes that the log's time goes back to it (rule R15).
// state.ErrNotLater says that the log's time is not later. Error: the store's clock contradicts the machine's.
func (l *Log) ResetTime() (*Ticket, error) {
	l.clock.mu.Lock()
	at, err := l.clock.time.Set(l.reading())
	l.clock.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return l.Propose(state.Record{Kind: state.TimeReset, Time: at}), nil
}
