package broker

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
)

// LogTime is the time of the log.
type LogTime struct {
	Last time.Time // append time of the last commit; zero if there is none
	Now  time.Time // that a commit would have by the clock that the broker goes by
	Err  error     // why no commit is made at that time (ErrClock), or nil
}

// LogTime returns the time of the log. It makes no request.
func (b *Broker) LogTime() (t LogTime) {
	b.log.Read(func(s *state.State) {
		if s.AppendTime > 0 {
			t.Last = time.UnixMicro(s.AppendTime)
		}
	})
	t.Now, t.Err = b.log.Now(), b.log.ClockError()
	return t
}

// Now is the log's time, and whether nothing must be deleted for its age by it (rule R15).
func (b *Broker) Now() (now time.Time, doubted bool) { return b.opt.Now(), b.log.TimeDoubted() }

// ResetTime takes the machine's clock to be right. A log whose time is later goes back to it (rule R15): its next commits
// have times that are earlier than those of commits before. It waits until that is committed. A log whose time is not later stays
// as it is. Errors: ErrClock, if the store's clock contradicts the machine's; ErrLevel; those of an append.
func (b *Broker) ResetTime(ctx context.Context) (LogTime, error) {
	if err := b.refuses(ctx); err != nil {
		return LogTime{}, err
	}
	if at := b.Level().Now; at < state.LevelRecovery {
		return LogTime{}, &state.LevelError{Needs: state.LevelRecovery, Has: at}
	}
	ticket, err := b.log.ResetTime()
	if err != nil {
		return LogTime{}, err
	}
	if err = ticket.Wait(ctx)[0].Err(); err != nil && !errors.Is(err, state.ErrNotLater) {
		return LogTime{}, err
	}
	return b.LogTime(), nil
}
