package broker

import (
	"context"
	"errors"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
)

// Level is the format level of the bucket.
type Level struct {
	Now uint32 // as committed
	Max uint32 // the highest level that this program knows
	// RaiseAt is the time from which the first commit of a client raises the level to Max. Until
	// then an older program can lead the bucket again. Zero: no commit raises the level.
	RaiseAt time.Time
}

// Level returns the format level of the bucket. It makes no request.
func (b *Broker) Level() Level {
	v := b.log.Level()
	return Level{Now: v.Now, Max: state.LevelMax, RaiseAt: v.RaiseAt}
}

// Raise raises the bucket to the highest format level that this program knows, waits until that is
// committed, and returns the level. From then on, programs that do not know that level refuse the
// bucket. A bucket at that level already does not change. Errors: those of an append.
func (b *Broker) Raise(ctx context.Context) (Level, error) {
	if err := b.refuses(ctx); err != nil {
		return Level{}, err
	}
	if err := b.log.Raise().Wait(ctx)[0].Err(); err != nil && !errors.Is(err, state.ErrLevelKnown) {
		return Level{}, err
	}
	return b.Level(), nil
}
