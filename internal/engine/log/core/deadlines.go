package core

import "github.com/sebbroker/seb/internal/engine/log/state"

// Deadlines finds transactions that have been open for longer than their timeout, and transactional IDs that were not
// used for long. It belongs to one leadership: an age counts from when this leader first sees the transaction, on a
// monotonic clock. So neither a takeover nor a wrong wall clock ends one early. The zero value is ready.
type Deadlines struct {
	seen map[string]seenOpen // by transactional ID
}

type seenOpen struct {
	began int64 // Transaction.Started
	at    int64 // on the clock of Look
}

// transactionIdle is how long a transactional ID without a transaction is remembered.
const transactionIdle = 7 * 24 * 3600 * second

// Look returns the requests that end the overdue transactions and forget the idle IDs of a state. now is the time of a
// monotonic clock, in ns, and wall that of the wall clock, in µs; 0: it is in doubt, and no ID is idle.
func (d *Deadlines) Look(s *state.State, now, wall int64) (due []*Transact) {
	open := map[string]seenOpen{}
	for _, t := range s.Transactions() {
		if !t.Open() {
			if t.Changed < wall-int64(transactionIdle)/1000 {
				due = append(due, &Transact{Kind: state.TransactionForget, ID: t.ID, Seen: t.Changed})
			}
			continue
		}
		seen := d.seen[t.ID]
		if seen.began != t.Started {
			seen = seenOpen{t.Started, now}
		}
		if open[t.ID] = seen; now-seen.at >= int64(t.Timeout)*int64(millisecond) {
			due = append(due, &Transact{Kind: state.TransactionAbort, ID: t.ID, Forced: true, Seen: t.Started})
		}
	}
	d.seen = open
	return due
}
