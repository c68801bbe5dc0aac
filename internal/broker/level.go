package broker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/log"
	"github.com/sebbroker/seb/internal/log/state"
)

// Level is the format level of the bucket.
type Level = log.Level

// Level returns the format level of the bucket. It makes no request.
func (b *Broker) Level() Level { return b.log.Level() }

// Raise raises the bucket to the highest format level that this program and Options.RaiseMax allow,
// waits until that is committed, and returns the level. From then on, programs that do not know that
// level refuse the bucket. A bucket at that level already does not change. Errors: those of an append.
func (b *Broker) Raise(ctx context.Context) (Level, error) {
	to := b.Level().Allowed
	if to <= state.LevelFirst {
		return b.Level(), nil
	}
	c := changeOf("cluster.upgrade", access.Cluster, access.ClusterName, "level", strconv.Itoa(int(to)))
	if err := b.propose(ctx, state.RaiseTo(to), c); err != nil && !errors.Is(err, state.ErrLevelKnown) {
		return Level{}, err
	}
	return b.Level(), nil
}

// LogTime is the log's time.
type LogTime struct {
	Last time.Time // append time of the last commit; zero: no commit
	Now  time.Time // the time that a commit would have by the broker's clock
	Err  error     // ErrClock if no commit is made at that time, or nil
}

// LogTime returns the log's time. It makes no request.
func (b *Broker) LogTime() (t LogTime) {
	b.log.Read(func(s *state.State) {
		if s.AppendTime > 0 {
			t.Last = time.UnixMicro(s.AppendTime)
		}
	})
	t.Now, t.Err = b.log.Now(), b.log.ClockError()
	return t
}

// Now returns the log's time. With doubted, nothing must be deleted because of its age by that time
// (rule R15).
func (b *Broker) Now() (now time.Time, doubted bool) { return b.opt.Now(), b.log.TimeDoubted() }

// ResetTime accepts the machine's clock as correct and waits until that is committed. A log whose
// time is later goes back to the clock (rule R15): its next commits have earlier times than the
// commits before. Else the log does not change. Errors: ErrClock if the store's clock contradicts
// the machine's; ErrLevel; those of an append.
func (b *Broker) ResetTime(ctx context.Context) (LogTime, error) {
	if err := b.refuses(ctx); err != nil {
		return LogTime{}, err
	}
	if at := b.Level().Now; at < state.LevelRecovery {
		return LogTime{}, &state.LevelError{Needs: state.LevelRecovery, Has: at}
	}
	r, err := b.log.ResetTime()
	if err != nil {
		return LogTime{}, err
	}
	c := changeOf("cluster.reset-time", access.Cluster, access.ClusterName, "time", time.UnixMicro(r.Time).UTC().Format(time.RFC3339))
	if err = b.propose(ctx, r, c); err != nil && !errors.Is(err, state.ErrNotLater) {
		return LogTime{}, err
	}
	return b.LogTime(), nil
}
