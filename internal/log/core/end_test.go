package core

import (
	"testing"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// TestWhatRefersBeyond: which heads of objects behind a missing slot show that the log went on behind it (rule R13). A SEAL carries the
// append time of the newest DATA before it.
func TestWhatRefersBeyond(t *testing.T) {
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
		{"a slot of this epoch that was frozen with the missing one in flight", log(now), record.Head{Kind: record.KindData, Epoch: 5, Low: 10}, false},
		{"a slot of this epoch that was frozen after the missing one was committed", log(now), record.Head{Kind: record.KindData, Epoch: 5, Low: 11}, true},
		{"data of a later epoch", log(now), record.Head{Kind: record.KindData, Epoch: 6}, true},
		{"a SEAL of a later epoch, after as many DATA", log(now), seal(6, now), true},
		{"a SEAL of a later epoch, after more", log(now), seal(6, now+1), true},
		{"a SEAL of a candidate that lost before", log(now), seal(6, now-1), false},
		{"after a reset: a SEAL from the future that was left", log(5000), seal(6, 4000), false},
		{"after a reset: a SEAL at the end of that future", log(5000), seal(6, 5000), false},
		{"after a reset: a SEAL behind it", log(5000), seal(6, 5001), true},
		{"after a reset: a SEAL at the time there is", log(5000), seal(6, now), true},
	} {
		if c.head.Epoch == c.log.Pos.Epoch {
			c.head.Nonce = c.log.Nonce
		}
		if got := RefersBeyond(c.log, &c.head); got != c.beyond {
			t.Errorf("%s: %v, want %v", c.name, got, c.beyond)
		}
	}
}
