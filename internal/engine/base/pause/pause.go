// Package pause has the pauses between attempts.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// Growth is a pause that grows: Min after the first failure, doubled with each one in a row, at most Max.
type Growth struct{ Min, Max time.Duration }

// After returns the pause after a number of failures, at least 1.
func (g Growth) After(failures int) time.Duration { return min(g.Min<<min(failures-1, 20), g.Max) }

// Spread returns a random pause between d/2 and 3d/2: what failed together is not repeated together.
func Spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// Wait waits for d. It returns the cause of ctx if that ends first.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
