package sim

import (
	"reflect"

	"github.com/sebbroker/seb/test/sim/watch"
)

// Stats counts what a run did.
type Stats struct {
	Acks, Unknown, Rejected      int
	Faults, Crashes, Pauses      int // Faults: of all kinds, Ghosts apart
	Failed, Applied, Conflicts   int // requests without an answer: without effect, with it; PUTs refused by 409
	Damaged, Refusals            int // answers with other bytes; times in which all is refused
	Cuts, Clocks                 int // brokers cut off from the store, clocks set
	Ghosts                       int // deleted names in listings
	Leaders, Seals, Snapshots    int
	Deleted, Commits, Trims      int
	Packs, Compactions           int
	Stamped, Retypes             int // records that got the append time; times that a topic's timestamp-type was changed
	Late                         int // PUTs that took effect after their sender had given up
	Slots, Records, Reads, Steps int
	Starts, Together             int // of brokers; while another one was starting
	Millis                       int // virtual time

	Loss  LossCounts
	Clock ClockCounts

	Months int // runs with triggers
	Watch  watch.Counts
}

// ClockCounts counts what wrong clocks did in runs of that kind.
type ClockCounts struct {
	Set, Between       int // clocks set while brokers ran, and between starts
	Slots, Pushed      int // append times that were judged; of these later than the clock, because the log's time is
	Waits, Ended, Asks int // times that writes began to wait, times that they continued; requests for the store's time
	// Futures: leaders asked to reset the time, whose log was an hour or more in the future. Resets: of the log's time. Refused: the
	// store contradicts the clock.
	Futures, Resets, Refused int
	Accepted, Moved          int // starts with --accept-clock; buckets moved to a store that tells the time
}

// LossCounts counts what was lost in runs of that kind, and what came of it.
type LossCounts struct {
	Slots, Seals, Packs, Snapshots, Metas, Litter int // objects lost; Litter: commit objects that are not on the log
	Copies                                        int // older copies that were brought back
	Needed, Proven                                int // losses of what a start needs; to which other objects referred at once
	// Refusals of starts, by their errors: LostError, OlderCopyError, meta/cluster missing, a SEAL's name taken twice.
	Lost, Older, NoMeta, Twice int
	Unreadable, Shrunk         int // reads of records in a lost object, and of followers that start over before they refuse
	// Losses at the end of the log to which nothing referred when a broker without the data folder looked: of the last slot,
	// of a slot with others in flight, of the last SEAL, of the end of an older copy, of a slot whose name a SEAL took that was on its way.
	LastSlot, InFlight, LastSeal, OldEnd, LateSeal int
	// Lost SEALs whose name the leader took that they had deposed, and that did not know it yet.
	Deposed int
	// Starts on a fork whose data folder knows the lost branch, in an epoch whose number the fork has forgotten (rule R12).
	Forgotten int
}

// Sum adds up two runs' counts.
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
