package fsck_test

import (
	"maps"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestRecoveryDecides: a recovery next to an unreadable slot decides for that slot permanently. The
// slot may become readable again, or its object may be deleted, and the snapshots after the recovery
// may be lost. Every role then still comes by the recovery, and no offset is used twice.
func TestRecoveryDecides(t *testing.T) {
	t.Parallel()
	h := newHistory(t, manyEpochs(t))
	var lost string // the last DATA to which other objects refer
	for _, key := range h.chain {
		left := maps.Clone(h.whole)
		delete(left, key)
		if at, proven, _ := h.cut(left); at == key && proven && h.heads[key].Kind == record.KindData {
			lost = key
		}
	}
	later := map[string]func(s objstore.Store){
		"stays":           func(objstore.Store) {},
		"is put back":     func(s objstore.Store) { remove(t, s, lost); put(t, s, lost, h.whole[lost]) },
		"becomes another": func(s objstore.Store) { remove(t, s, lost); put(t, s, lost, h.whole[h.chain[0]]) },
		"is deleted":      func(s objstore.Store) { remove(t, s, lost) },
	}
	for name, change := range later {
		for _, written := range []bool{false, true} {
			t.Run(map[bool]string{false: "", true: "with later records, "}[written]+"the slot "+name, func(t *testing.T) {
				s := h.recovered(t, lost, written)
				before := start(t, s, true)
				must.NoError(t, before.err)
				change(s)
				comesByRecovery(t, s, before.seen)
			})
		}
	}
}

// recovered returns a bucket in which a recovery has accepted the loss of an unreadable slot, and whose
// snapshots after that are lost.
func (h *history) recovered(t *testing.T, lost string, written bool) *objstore.Memory {
	s := h.whole.store(t)
	change(t, s, lost, func(b []byte) []byte { return b[:record.HeadSize/2] })
	at := state.Position{Epoch: h.heads[lost].Epoch, Slot: h.heads[lost].Slot}
	must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: &at}))(t)
	if written {
		b := open(t, options(s, 1000))
		produce(t, b, "a", 0, "after")
		closeBroker(t, b)
	}
	for key := range keys(t, s) {
		if pos, _, ok := state.ParseSnapKey(0, key); ok && at.Less(pos) {
			remove(t, s, key)
		}
	}
	return s
}

func comesByRecovery(t *testing.T, s *objstore.Memory, before *reading) {
	if r, found, err := verify(t, fsck.Options{Store: s}); err != nil || r.Damages != 0 {
		t.Errorf("%d damages, %v: %v", r.Damages, err, found)
	}
	for _, readOnly := range []bool{true, false} {
		r := start(t, s, readOnly)
		if r.err != nil {
			t.Fatalf("read-only %t: %v", readOnly, r.err)
		}
		if !maps.Equal(r.seen.values, before.values) || !maps.Equal(r.seen.next, before.next) {
			t.Errorf("read-only %t: %d records, ends %v; before %d, %v", readOnly, len(r.seen.values), r.seen.next, len(before.values), before.next)
		}
		for partition, next := range r.at {
			if next < before.next[partition] {
				t.Errorf("%s got offset %d, and the recovery has burnt those below %d", partition, next, before.next[partition])
			}
		}
	}
}
