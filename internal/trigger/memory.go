package trigger

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/budget"

	"github.com/sebbroker/seb/internal/trigger/rule"
)

// ErrFull: the memory limit allows no more triggers (FullError).
var ErrFull = errors.New("trigger memory is full")

// FullError: with one more definition, triggers would exceed their share of the memory limit. It is
// ErrFull.
type FullError struct {
	Triggers          int
	Held, Wanted, Max int64 // bytes
	Limit             int64 // a sufficient memory limit
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%v: %d triggers use %s, this definition needs %s more, the limit is %s: delete triggers, or start with --memory-limit %dMiB",
		ErrFull, e.Triggers, budget.Text(e.Held), budget.Text(e.Wanted), budget.Text(e.Max), e.Limit>>20)
}

// Is matches ErrFull.
func (e *FullError) Is(t error) bool { return t == ErrFull }

// Memory returns the estimated memory of all triggers, in bytes.
func (e *Engine) Memory() int64 {
	p, _, _ := e.follower.Peek()
	return p.Held
}

// fits returns a *FullError if there is no room for a definition. A version that needs no more than
// the previous one always fits, so that triggers over the limit can be changed.
func (e *Engine) fits(d, old *rule.Definition) error {
	wanted := Memory(d)
	if old != nil {
		wanted -= Memory(old)
	}
	p, _, err := e.follower.Peek()
	most := e.opt.HeadBytes()
	if err != nil || wanted <= 0 || p.Held+wanted <= most {
		return err
	}
	// A quarter more than this one needs, so that the next one fits too.
	limit := budget.LimitFor(budget.Triggers, MemoryFor(max(p.Held+wanted, most)*5/4))
	return &FullError{
		Triggers: len(p.Triggers), Held: p.Held, Wanted: wanted, Max: most, Limit: (limit + 1<<20 - 1) &^ (1<<20 - 1),
	}
}
