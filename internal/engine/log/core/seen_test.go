package core_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

// TestSeenBeyond checks that the position of a data directory distinguishes the log that it knows
// from an older copy and from another branch.
func TestSeenBeyond(t *testing.T) {
	one, two, other := record.ID{1}, record.ID{2}, record.ID{3}
	st := state.Genesis(record.ID{9}, 0) // epoch 1 was sealed at slot 7, epoch 2 has come to slot 4
	st.Epochs = []state.Epoch{{Number: 1, Nonce: one, Seal: 7}, {Number: 2, Nonce: two}}
	st.Pos, st.Nonce = state.Position{Epoch: 2, Slot: 4}, two
	for _, c := range []struct {
		name   string
		seen   core.Seen
		beyond bool
	}{
		{"at the end", core.Seen{Epoch: 2, Nonce: two, Slot: 4}, false},
		{"behind the end", core.Seen{Epoch: 2, Nonce: two, Slot: 5}, true},
		{"in a later epoch", core.Seen{Epoch: 3, Nonce: other, Slot: 0}, true},
		{"in an earlier epoch", core.Seen{Epoch: 1, Nonce: one, Slot: 3}, false},
		{"at the SEAL of an earlier epoch", core.Seen{Epoch: 1, Nonce: one, Slot: 7}, false},
		{"behind a slot that holds a SEAL now", core.Seen{Epoch: 1, Nonce: one, Slot: 8}, true},
		{"on another branch", core.Seen{Epoch: 1, Nonce: other, Slot: 3}, true},
		{"in a forgotten epoch", core.Seen{Epoch: 0, Nonce: other, Slot: 3}, false},
	} {
		t.Run(c.name, func(t *testing.T) { check.Equalf(t, c.seen.Beyond(st), c.beyond, "Beyond") })
	}
}

// TestOlder: a position of another address counts only for the same log, and not if it is of a restored
// copy. That of the address counts for any log.
func TestOlder(t *testing.T) {
	cluster := record.ID{9}
	st := state.Genesis(cluster, 0)
	st.Epochs = []state.Epoch{{Number: 2, Nonce: record.ID{2}}}
	st.Pos, st.Nonce = state.Position{Epoch: 2, Slot: 4}, record.ID{2}
	for _, c := range []struct {
		name            string
		seen            core.Seen
		here, elsewhere bool // the log is older
	}{
		{"at the end", core.Seen{Cluster: cluster, Epoch: 2, Nonce: record.ID{2}, Slot: 4}, false, false},
		{"behind the end", core.Seen{Cluster: cluster, Epoch: 2, Nonce: record.ID{2}, Slot: 5}, true, true},
		{"in a later epoch", core.Seen{Cluster: cluster, Epoch: 9, Nonce: record.ID{3}}, true, true},
		{"in a copy that was restored from an older backup", core.Seen{Cluster: cluster, Epoch: core.RestoredEpochs, Nonce: record.ID{3}}, true, false},
		{"in a restored copy", core.Seen{Cluster: cluster, Epoch: 2 + core.RestoredEpochs + 1, Nonce: record.ID{3}}, true, false},
		{"of another log", core.Seen{Cluster: record.ID{8}, Epoch: 1, Nonce: record.ID{3}}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			check.Equalf(t, core.Older([]core.Seen{c.seen}, st) != nil, c.elsewhere, "at another address")
			c.seen.Here = true
			check.Equalf(t, core.Older([]core.Seen{c.seen}, st) != nil, c.here, "at this address")
		})
	}
}
