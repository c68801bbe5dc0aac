package trigger

import (
	"github.com/sebbroker/seb/internal/trigger/rule"
)

// Work measures evaluation in units of about 0.1 µs, counted the same on every machine. Each step
// of a turn does a bounded amount of work, so that no trigger delays the others; the rest waits for
// the next turn. A piece of events for simple triggers fits into a turn, because each transaction
// costs as much as many events.
const (
	recordWork = 25 // reading a record
	stepWork   = 25 // an event or deadline of a trigger, without the size of its rule and state
	stateShare = 2  // bytes of state per unit

	workDefault = 1_000_000 // a step of a turn: about 100 ms
	// costly is the work of one event from which a trigger's deadlines are passed separately.
	costly = 1000
)

// spend counts the work of an event or a deadline of a trigger.
func (w *worker) spend(l *live, r *rule.Rule, row *rule.Row) {
	n := stepWork + r.Nodes() + len(row.State)/stateShare
	w.left -= n
	l.spent += n
	l.avgWork += (n - l.avgWork) / 8
	if l.avgWork < n/8 {
		l.avgWork = n / 8
	}
}

// rotated returns the i-th of n in an order that starts one later in each turn, so that each is
// sometimes the first.
func (w *worker) rotated(i, n int) int { return int((w.turn + uint64(i)) % uint64(n)) }
