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
	Max uint32 // the highest that this program knows
	// RaiseAt is when the first commit of a client raises it to Max; before, an older program can lead the bucket again.
	// Zero: no commit raises it.
	RaiseAt time.Time
}

// Level returns the format level of the bucket. It makes no request.
func (b *Broker) Level() Level {
	v := b.log.Level()
	return Level{Now: v.Now, Max: state.LevelMax, RaiseAt: v.RaiseAt}
}

// Raise raises the bucket to the highest format level that this program knows, waits until that is committed, and returns
// the level. Programs that do not know that level refuse the bucket from then on. A bucket that is there already stays as
// it is. Errors: those of an append.
func (b *Broker) Raise(ctx context.Context) (Level, error) {
	if err := b.refuses(ctx); err != nil {
		return Level{}, err
	}
	if err := b.log.Raise().Wait(ctx)[0].Err(); err != nil && !errors.Is(err, state.ErrLevelKnown) {
		return Level{}, err
	}
	return b.Level(), nil
}
