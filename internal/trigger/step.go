package trigger

import (
	"context"
	"time"
)

// Stepped is an Engine without goroutines and timers, for callers that decide the order of events,
// such as a simulator. It runs only within Step. Its methods must not be called concurrently.
type Stepped struct{ *Engine }

// OpenStepped is Open for a Stepped. A call that waits for the engine, such as Put, calls park with
// its context until the condition holds or the context ends. park may return at any time. Error: a
// missing option.
func OpenStepped(o Options, park func(ctx context.Context)) (*Stepped, error) {
	o = o.WithDefaults()
	f, err := newFollower(o, true)
	if err != nil {
		return nil, err
	}
	f.park = park
	return &Stepped{&Engine{opt: o, follower: f}}, nil
}

// Step does some of the pending work, and returns the time until there is more if the caller does
// nothing. It returns soon after the end of ctx.
func (s *Stepped) Step(ctx context.Context) time.Duration { return s.follower.loop.Step(ctx) }
