package httpapi

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
)

const (
	// dryRunsMax bounds the dry runs that run at once, each with its share of the memory.
	dryRunsMax = 2
	// dryRunGrace is how long a dry run waits for the end of another one before it is refused: a
	// canceled one ends earlier, so that a client may replace its own at once.
	dryRunGrace = 2 * time.Second
)

// dryRuns shares memory among dry runs: one for each client, and two together. Each begins with half
// of the memory. One that needs more gets the other half while it runs alone. All methods may be
// called concurrently.
type dryRuns struct {
	bytes int64 // of all

	mu      sync.Mutex // guards the fields below
	list    []*dryRunSlot
	changed chan struct{} // closed and replaced when a slot becomes free
}

// dryRunSlot is a running dry run.
type dryRunSlot struct {
	of      *dryRuns
	client  string
	began   time.Time
	percent atomic.Int32
	all     bool // it has, or waits for, the memory of all; guarded by of.mu
}

func newDryRuns(bytes int64) *dryRuns { return &dryRuns{bytes: bytes, changed: make(chan struct{})} }

// begin starts a dry run of a client, which must call end. Errors: ctx's, and a problem that names
// the dry runs that run meanwhile.
func (g *dryRuns) begin(ctx context.Context, client string) (*dryRunSlot, error) {
	grace := time.NewTimer(dryRunGrace)
	defer grace.Stop()
	for {
		s, changed, busy := g.try(client)
		if busy == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-grace.C:
			return nil, busy
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try returns a slot, or why there is none and a channel that is closed when that may have changed.
func (g *dryRuns) try(client string) (s *dryRunSlot, changed <-chan struct{}, busy error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := false
	for _, s := range g.list {
		if s.client == client {
			return nil, g.changed, problem.New(api.OverBudget, "a dry run with the same key is %s: wait for it or cancel it", s)
		}
		all = all || s.all
	}
	if all || len(g.list) == dryRunsMax {
		return nil, g.changed, problem.New(api.OverBudget, "%d of at most %d dry runs are running, and have all the memory; the first is %s: retry later",
			len(g.list), dryRunsMax, g.list[0])
	}
	s = &dryRunSlot{of: g, client: client, began: time.Now()}
	g.list = append(g.list, s)
	return s, nil, nil
}

// String says how far the dry run is.
func (s *dryRunSlot) String() string {
	return fmt.Sprintf("running for %s (%d %% read)", time.Since(s.began).Round(time.Second/10), s.percent.Load())
}

// share is the memory with which a dry run begins.
func (g *dryRuns) share() int64 { return g.bytes / dryRunsMax }

// extend waits until the dry run is the only one, and gives it the memory of all. It fails if the
// other one waits for the same.
func (s *dryRunSlot) extend(ctx context.Context) (int64, error) {
	g := s.of
	for {
		g.mu.Lock()
		changed, alone := g.changed, len(g.list) == 1
		for _, other := range g.list {
			if other != s && other.all {
				g.mu.Unlock()
				return 0, problem.New(api.OverBudget,
					"both running dry runs need more than %d bytes, half of their memory: retry later, or evaluate a sample", g.share())
			}
		}
		s.all = true
		g.mu.Unlock()
		if alone {
			return g.bytes, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// end frees the slot.
func (s *dryRunSlot) end() {
	g := s.of
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, x := range g.list {
		if x == s {
			g.list = append(g.list[:i:i], g.list[i+1:]...)
			break
		}
	}
	close(g.changed)
	g.changed = make(chan struct{})
}
