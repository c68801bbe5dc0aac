package plan

import (
	"reflect"

	"github.com/sebbroker/seb/internal/sim/watch"
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

	Months int // runs with triggers
	Watch  watch.Counts
}

// Plus adds up two runs' counts.
func (s Stats) Plus(o Stats) Stats {
	addAll(reflect.ValueOf(&s).Elem(), reflect.ValueOf(o))
	return s
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
