package state_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

func TestNamesRoundTrip(t *testing.T) {
	nonce := record.NewID()
	for _, n := range []uint64{0, 1, 19, math.MaxUint64} {
		epoch := uint32(n)
		slot, pack := state.SlotKey(7, epoch, nonce, n), state.PackKey(7, epoch, nonce, n)
		if e, id, s, ok := state.ParseSlotKey(7, slot); !ok || e != epoch || id != nonce || s != n {
			t.Errorf("%s: %d %s %d %v", slot, e, id, s, ok)
		}
		if e, id, s, ok := state.ParsePackKey(7, pack); !ok || e != epoch || id != nonce || s != n {
			t.Errorf("%s: %d %s %d %v", pack, e, id, s, ok)
		}
		if !strings.HasPrefix(slot, state.SlotPrefix(7, epoch, nonce)) || !strings.HasPrefix(slot, state.WALPrefix(7)) || !strings.HasPrefix(pack, state.PackPrefix(7)) {
			t.Errorf("%s, %s", slot, pack)
		}
	}
	pos := state.Position{Epoch: 3, Slot: 44}
	snap := state.SnapKey(0, pos, nonce)
	if p, id, ok := state.ParseSnapKey(0, snap); !ok || p != pos || id != nonce || snap != "s0000/snap/4294967292-18446744073709551571-"+nonce.String() {
		t.Errorf("%s: %v %s %v", snap, p, id, ok)
	}
	for _, bad := range []string{"", snap[1:], snap + "0", snap[:len(snap)-1], strings.Replace(snap, "4294967292", "9999999999", 1)} {
		if _, _, ok := state.ParseSnapKey(0, bad); ok {
			t.Errorf("%q parses", bad)
		}
	}
	want := "s0000/pack/0000000003-" + nonce.String() + "-00000000000000000044"
	check.Equal(t, state.PackKey(0, 3, nonce, 44), want)
}

func TestOtherNamesDoNotParse(t *testing.T) {
	nonce := record.ID{0xab}
	good := state.SlotKey(0, 3, nonce, 44)
	for _, key := range []string{
		"", good[1:], good + "0", good[:len(good)-1], strings.ToUpper(good), strings.Replace(good, "-", "+", 1),
		strings.Replace(good, "0000000003", "9999999999", 1), strings.Replace(good, "0000000003", "-000000003", 1),
		strings.Replace(good, "00000000000000000044", "99999999999999999999", 1),
		strings.Replace(good, "00000000000000000044", "+0000000000000000044", 1), state.PackKey(0, 3, nonce, 44), state.SlotKey(1, 3, nonce, 44),
	} {
		if _, _, _, ok := state.ParseSlotKey(0, key); ok {
			t.Errorf("%q parses", key)
		}
		if _, _, _, ok := state.ParsePackKey(0, key); ok && key != state.PackKey(0, 3, nonce, 44) {
			t.Errorf("%q parses as a pack", key)
		}
	}
}

func BenchmarkNames(b *testing.B) {
	nonce := record.NewID()
	for i := range b.N {
		if _, _, _, ok := state.ParseSlotKey(0, state.SlotKey(0, 3, nonce, uint64(i))); !ok {
			b.Fatal("does not parse")
		}
	}
}
