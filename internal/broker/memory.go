package broker

import (
	"fmt"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/log/state"
)

// StateFullError says that a request would make the state larger than the memory limit allows: what the log says of topics,
// partitions, groups and producers, and where records lie. It is ErrStateFull. If Ranges is set it is ErrRangesFull
// and ErrOverBudget as well: there is room again when commit objects have been merged.
type StateFullError struct {
	Held   state.Memory // bytes
	Max    int64        // bytes for both
	Ranges bool
	Limit  int64 // the memory limit with which there is room
}

func (e *StateFullError) Error() string {
	what := "delete topics or groups, or"
	if e.Ranges {
		what = "wait until commit objects are merged, or"
	}
	return fmt.Sprintf("the state is full: topics, partitions, groups and producers take %s, and where records lie takes %s, of %s: %s start with --memory-limit %dMiB",
		budget.Text(e.Held.Tables), budget.Text(e.Held.Ranges), budget.Text(e.Max), what, e.Limit>>20)
}

// Is makes it ErrStateFull, and with Ranges ErrRangesFull and ErrOverBudget.
func (e *StateFullError) Is(t error) bool {
	return t == ErrStateFull || e.Ranges && (t == ErrRangesFull || t == ErrOverBudget)
}

// StateMemory is about how many bytes of memory the state takes, and how many it may take.
func (b *Broker) StateMemory() (held state.Memory, most int64) {
	b.log.Read(func(s *state.State) { held = s.Memory() })
	return held, b.opt.Core.StateMax
}

// StateFull returns why nothing more may be created, or nil. It makes no request.
func (b *Broker) StateFull() error {
	if held, most := b.StateMemory(); most > 0 && held.Sum() > most {
		return b.stateFull(false)
	}
	return nil
}

func (b *Broker) stateFull(ranges bool) error {
	held, most := b.StateMemory()
	needs := budget.LimitFor(budget.State, max(held.Sum(), most)*5/4)
	return &StateFullError{Held: held, Max: most, Ranges: ranges, Limit: max(budget.LimitMin, (needs+1<<20-1)&^(1<<20-1))}
}
