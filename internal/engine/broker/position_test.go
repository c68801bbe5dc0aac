package broker_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// TestPassed: positions of this log, of another log, and beyond the end.
func TestPassed(t *testing.T) {
	o := options(objstore.NewMemory())
	b := open(t, o)
	passed := func(pos state.Position, nonce record.ID, want bool) {
		t.Helper()
		if b.Passed(pos, nonce) != want {
			t.Errorf("%+v of %s: not %v", pos, nonce, want)
		}
	}
	before, nonce, known := b.LogPosition()
	if !known {
		t.Fatal("no position is known")
	}
	create(t, b, "t", 1)
	mustProduce(t, b, "t", 0, "x")
	now, same, _ := b.LogPosition()
	if same != nonce || !before.Less(now) {
		t.Fatalf("%+v, then %+v", before, now)
	}
	next := state.Position{Epoch: now.Epoch, Slot: now.Slot + 1}
	for range 2 { // the second time, of an ended epoch
		passed(before, nonce, true)
		passed(now, nonce, true)
		passed(next, nonce, false)
		passed(before, record.NewID(), false)
		passed(state.Position{Epoch: now.Epoch + 2}, nonce, false)
		b.Close(t.Context())
		b = open(t, o)
	}
	if after, _, _ := b.LogPosition(); after.Epoch <= now.Epoch {
		t.Fatalf("%+v, then %+v", now, after)
	}
}
