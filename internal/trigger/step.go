package trigger

import (
	"context"
	"time"
)

// Stepped is an Engine without a goroutine and timers of its own: it goes on only when it is told to, for those who decide
// what comes when, such as a simulator. Its methods are for one goroutine at a time.
type Stepped struct{ *Engine }

// OpenStepped is Open of one that goes on by Step. A call that waits until the engine knows something, such as Put, calls
// park with its context, which may return whenever it likes, until that is so or the context has ended. Error: options
// that are missing.
func OpenStepped(o Options, park func(ctx context.Context)) (*Stepped, error) {
	o = o.WithDefaults()
	f, err := newFollower(o, true)
	if err != nil {
		return nil, err
	}
	f.park = park
	return &Stepped{&Engine{opt: o, fold: f}}, nil
}

// Step does some of what there is to do, and returns how long there is nothing more if nobody calls. A ctx that has ended
// ends it soon.
func (s *Stepped) Step(ctx context.Context) time.Duration { return s.fold.loop.Step(ctx) }
