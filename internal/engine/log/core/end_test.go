package core_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

// TestRefersBeyond checks which heads behind a missing slot prove that the log continued behind it
// (rule R13). A SEAL carries the append time of the newest DATA before it.
func TestRefersBeyond(t *testing.T) {
	const now = 1000
	log := func(latest int64) *state.State {
		s := state.Genesis(record.ID{1}, 0)
		s.Pos, s.AppendTime, s.Latest = state.Position{Epoch: 5, Slot: 10}, now, latest
		return s
	}
	seal := func(epoch uint32, time int64) record.Head {
		return record.Head{Kind: record.KindSeal, Epoch: epoch, Time: time}
	}
	for _, c := range []struct {
		name   string
		log    *state.State
		head   record.Head
		beyond bool
	}{
		{"slot of this epoch, frozen while the missing one was in flight", log(now), record.Head{Kind: record.KindData, Epoch: 5, Low: 10}, false},
		{"slot of this epoch, frozen after the missing one was committed", log(now), record.Head{Kind: record.KindData, Epoch: 5, Low: 11}, true},
		{"data of a later epoch", log(now), record.Head{Kind: record.KindData, Epoch: 6}, true},
		{"SEAL of a later epoch, same append time", log(now), seal(6, now), true},
		{"SEAL of a later epoch, later append time", log(now), seal(6, now+1), true},
		{"SEAL of a suspended candidate, earlier append time", log(now), seal(6, now-1), false},
		{"after a time reset: SEAL from the abandoned future", log(5000), seal(6, 4000), false},
		{"after a time reset: SEAL at the end of that future", log(5000), seal(6, 5000), false},
		{"after a time reset: SEAL later than that future", log(5000), seal(6, 5001), true},
		{"after a time reset: SEAL at the current time", log(5000), seal(6, now), true},
	} {
		if c.head.Epoch == c.log.Pos.Epoch {
			c.head.Nonce = c.log.Nonce
		}
		check.Equalf(t, core.RefersBeyond(c.log, &c.head), c.beyond, "%s", c.name)
	}
}
