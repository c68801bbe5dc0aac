package sim

import (
	"reflect"

	"github.com/sebbroker/seb/test/sim/watch"
)

// Stats counts the events of a run.
type Stats struct {
	Acks, Unknown, Rejected int
	Faults, Crashes, Pauses int // Faults: of all kinds except Ghosts
	// Requests without an answer: without and with effect; PUTs refused by 409.
	Failed, Applied, Conflicts int
	Damaged, Refusals          int // answers with changed bytes; periods of refusal
	Cuts, Clocks               int // brokers disconnected from the store, changes of clocks
	Ghosts                     int // deleted names in listings
	Leaders, Seals, Snapshots  int
	Deleted, Commits, Trims    int
	Packs, Compactions         int
	Partial                    int // passes that were too large and ended in part
	Journals                   int // epochs with a journal
	Rights, Checked            int // changes of principals and rules, records of principals
	Audited                    int // changes with an audit record
	// Records that got the append time; changes of a topic's timestamp-type.
	Stamped, Retypes             int
	Late                         int // PUTs that took effect after their timeout
	Slots, Records, Reads, Steps int
	Starts, Together             int // of brokers; concurrent ones
	// Fenced brokers that follow, attempts of followers, those that ended without leading, and leaders
	// that stepped down.
	Fenced, Stands, Overtaken, SteppedDown int
	// Slots that followers applied from a feed, positions that they were told, slots that were applied
	// before they were committed.
	Fed, Reached, Early int
	Parks, Alive        int // leaders that parked, slots that show life
	Millis              int // virtual time

	Loss    LossCounts
	Clock   ClockCounts
	Riemann RiemannCounts
	Atomic  AtomicCounts
	// Of transactions.
	Transaction TransactionCounts
	Cluster     ClusterCounts

	Months int // runs with triggers
	Watch  watch.Counts
}

// ClockCounts counts the effects of wrong clocks.
type ClockCounts struct {
	Set, Between int // clocks set during runs and between them
	// Append times checked; of these later than the clock, because log time is.
	Slots, Pushed int
	// Times that writes began to wait and continued; requests for the store's time.
	Waits, Ended, Asks int
	// Futures counts leaders asked to reset log time that was an hour or more in the future, Resets
	// the resets, Refused those that the store's time contradicted.
	Futures, Resets, Refused int
	// Starts with --accept-clock; buckets moved to a store that reports the time.
	Accepted, Moved int
}

// RiemannCounts counts what Riemann clients do.
type RiemannCounts struct {
	Connections, Messages, Events int
	Oks, Refused, Stored          int // answers; events on the chain
}

// LossCounts counts losses and their effects.
type LossCounts struct {
	// Lost objects; Litter: commit objects that are not on the log.
	Slots, Seals, Packs, Snapshots, Metas, Litter int
	Copies                                        int // restored older copies
	// Losses of a needed object; of these immediately proven.
	Needed, Proven int
	// Refused starts by error: LostError, OlderCopyError, meta/cluster missing, a SEAL's name taken
	// twice.
	Lost, Older, NoMeta, Twice int
	// Refused starts with a copy of the lost slot; alarms of leaders.
	Copied, Alarms int
	// Reads of records in a lost object; followers that start over before they refuse.
	Unreadable, Shrunk int
	// Losses at the end of the log without a reference when a broker without the data directory
	// looked: of the last slot, of a slot with others in flight, of the last SEAL, of the end of an
	// older copy, of a slot whose name a SEAL in flight took.
	LastSlot, InFlight, LastSeal, OldEnd, LateSeal int
	// Lost SEALs whose name the deposed leader took, because it did not know the SEAL yet.
	Deposed int
	// Starts on a fork whose data directory knows the lost branch, in an epoch that the fork has
	// forgotten (rule R12).
	Forgotten int
}

// Sum adds the counts of two runs.
func Sum(a, b Stats) Stats {
	addAll(reflect.ValueOf(&a).Elem(), reflect.ValueOf(b))
	return a
}

func addAll(sum, more reflect.Value) {
	for i := range sum.NumField() {
		if f := sum.Field(i); f.Kind() == reflect.Struct {
			addAll(f, more.Field(i))
		} else {
			f.SetInt(f.Int() + more.Field(i).Int())
		}
	}
}
