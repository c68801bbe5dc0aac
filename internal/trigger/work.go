package trigger

import (
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// Work is how much evaluating costs, counted so that it is the same on every machine: about 0.1 µs a unit. A turn does a bounded part
// of it for each of its steps, so that no trigger holds up the others: what is left waits for the next turn. A piece of events for
// simple triggers fits into a turn, because each transaction costs as much as many events.
const (
	recordWork = 25 // a record that is read
	stepWork   = 25 // an event or a deadline of a trigger, beside the size of its rule and of the entity's state
	stateShare = 2  // bytes of state that are one unit

	workUsual = 1_000_000 // a step of a turn: about 100 ms
	// costly is the work of one event from which on the deadlines of a trigger are passed apart from those of others.
	costly = 1000
)

// spend counts what an event or a deadline of a trigger has cost.
func (w *worker) spend(l *live, r *rule.Rule, row *rule.Row) {
	n := stepWork + r.Nodes() + len(row.State)/stateShare
	w.left -= n
	l.spent += n
	l.pace += (n - l.pace) / 8
	if l.pace < n/8 {
		l.pace = n / 8
	}
}

// turned is the i-th of n in an order that begins one further in each turn, so that each is first now and then.
func (w *worker) turned(i, n int) int { return int((w.turns + uint64(i)) % uint64(n)) }
