package fsck_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// starts is the number of consecutive brokers in manyStarts, far above the epochs that a state
// holds.
const starts = 60

// manyStarts makes a log that has had many leaders. Only one record of the first leader remains.
func manyStarts(t *testing.T) objstore.Store {
	t.Helper()
	s := objstore.NewMemory()
	for run := range starts {
		o := options(s, 4)
		o.Core.GarbageWait = 10e6 // 10 ms
		b := open(t, o)
		if run == 0 {
			create(t, b, "a", 1)
			create(t, b, "kept", 1)
			produce(t, b, "kept", 0, "permanent")
		}
		for i := range 3 {
			produce(t, b, "a", 0, fmt.Sprint(run, i))
		}
		must.Get(b.Trim(t.Context(), "a", 0, int64(3*run)))(t)
		if run == starts-1 {
			sebtest.Eventually(t, "old commit objects are deleted", func() bool { return len(walOf(t, s)) <= starts+10 })
			closeBroker(t, b)
		}
		kill(b)
	}
	settled(t, s)
	return s
}

// walOf lists the names of commit objects.
func walOf(t *testing.T, s objstore.Store) []string {
	t.Helper()
	all := slices.Collect(maps.Keys(keys(t, s)))
	return slices.DeleteFunc(all, func(k string) bool { return !strings.HasPrefix(k, "s0000/wal/") })
}

func newest(t *testing.T, s objstore.Store) *state.State {
	t.Helper()
	st := must.Get(state.DecodeSnapshot(read(t, s, snapshots(t, s)[0])))(t)
	return st
}

// sealsOfForgotten lists the SEALs of epochs that the newest snapshot does not know.
func sealsOfForgotten(t *testing.T, s objstore.Store) []string {
	t.Helper()
	st := newest(t, s)
	return slices.DeleteFunc(slots(t, s, record.KindSeal), func(key string) bool {
		return slices.ContainsFunc(st.Epochs, func(e state.Epoch) bool {
			return strings.HasPrefix(key, state.SlotPrefix(0, e.Number, e.Nonce))
		})
	})
}

// TestForgottenEpochs: the SEALs of epochs that no snapshot knows are found and linked.
func TestForgottenEpochs(t *testing.T) {
	t.Parallel()
	s := manyStarts(t)
	if n := len(newest(t, s).Epochs); n > state.EpochsKept+2 {
		t.Fatalf("the state knows %d epochs", n)
	}
	if n := len(sealsOfForgotten(t, s)); n < starts/2 {
		t.Fatalf("%d epochs are forgotten", n)
	}
	if r := clean(t, s); r.Seals != starts || r.Orphans.Objects != 0 {
		t.Errorf("%d starts: %+v", starts, r)
	}
}

func TestDamageInForgottenEpochs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  string
		plant func(t *testing.T, s objstore.Store, seal string)
	}{
		"missing": {"missing seal", func(t *testing.T, s objstore.Store, seal string) { remove(t, s, seal) }},
		"head": {"missing seal", func(t *testing.T, s objstore.Store, seal string) {
			change(t, s, seal, flip(40))
		}},
		"body": {"corrupt object", func(t *testing.T, s objstore.Store, seal string) {
			change(t, s, seal, func(b []byte) []byte { return flip(len(b) - 1)(b) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := manyStarts(t)
			seals := sealsOfForgotten(t, s)
			c.plant(t, s, seals[len(seals)/2])
			r, found, err := verify(t, fsck.Options{Store: s})
			if err != nil || r.Damages != 1 || !slices.ContainsFunc(found, func(f fsck.Finding) bool {
				return f.Severity == fsck.Damage && f.Kind == c.kind
			}) {
				t.Errorf("%+v %v", found, err)
			}
		})
	}
}

// TestOrphansInForgottenEpochs: DATA in flight at the end of its epoch is garbage. SEALs always
// stay.
func TestOrphansInForgottenEpochs(t *testing.T) {
	t.Parallel()
	s := manyStarts(t)
	st := newest(t, s)
	old := must.Get(record.DecodeHead(read(t, s, sealsOfForgotten(t, s)[5])[:record.HeadSize]))(t)
	object := func(kind record.Kind, nonce record.ID, slot uint64) string {
		h := record.Head{Kind: kind, Time: 1, Cluster: st.Cluster, Epoch: old.Epoch, Nonce: nonce, Slot: slot}
		if kind == record.KindSeal {
			h.NextEpoch, h.NextNonce = h.Epoch+1, record.NewID()
		}
		b := must.Get(record.EncodeObject(&h, nil, nil, nil))(t)
		key := state.SlotKey(0, h.Epoch, nonce, slot)
		put(t, s, key, b)
		return key
	}
	off := record.NewID()
	garbage := []string{object(record.KindData, old.Nonce, old.Slot+1)}
	stays := []string{object(record.KindSeal, old.Nonce, old.Slot+2), object(record.KindSeal, off, 1)}
	if r := clean(t, s); r.Seals != starts || int(r.Orphans.Objects) != len(stays) || int(r.Superseded.Objects) < len(garbage) {
		t.Errorf("%+v", r)
	}
	must.Get2(verify(t, fsck.Options{Store: s, Repair: true, Quiet: time.Millisecond}))(t)
	after := keys(t, s)
	for _, key := range garbage {
		if _, there := after[key]; there {
			t.Errorf("%s was not removed", key)
		}
	}
	for _, key := range stays {
		if _, there := after[key]; !there {
			t.Errorf("%s was removed", key)
		}
	}
	clean(t, s)
}
