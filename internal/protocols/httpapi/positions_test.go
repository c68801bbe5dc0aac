package httpapi

import (
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
)

func mustPosition(t testing.TB, text string) state.Position {
	t.Helper()
	pos, ok := positionOf(text)
	if !ok {
		t.Fatalf("%q is no position", text)
	}
	return pos
}

// TestFloors: a read is not answered below what was relayed about its names, and nothing is kept of
// what is applied.
func TestFloors(t *testing.T) {
	var f floors
	at := func(slot uint64) state.Position { return state.Position{Epoch: 1, Slot: slot} }
	f.note([]string{"topic a"}, at(5))
	f.note([]string{"topic a"}, at(3))
	f.note([]string{"topic b", "group g"}, at(7))
	for _, c := range []struct {
		names []string
		want  uint64
	}{{[]string{"topic a"}, 5}, {[]string{"topic c"}, 0}, {[]string{"topic a", "group g"}, 7}, {nil, 7}} {
		check.Equalf(t, f.of(c.names, at(2)).Slot, c.want, "%v: floor", c.names)
	}
	f.note(nil, at(6))
	check.Equalf(t, f.of([]string{"topic c"}, at(2)).Slot, 6, "after a request without a name: floor")
	for i := range 2 * floorsMax {
		f.note([]string{fmt.Sprint("topic ", i)}, at(uint64(100+i)))
	}
	if len(f.names) > floorsMax {
		t.Errorf("%d names are kept, want %d at most", len(f.names), floorsMax)
	}
	last := fmt.Sprint("topic ", 2*floorsMax-1)
	if got, want := f.of([]string{last}, at(2)), uint64(100+2*floorsMax-1); got.Slot != want {
		t.Errorf("%s: floor %d, want %d", last, got.Slot, want)
	}
	if got := f.of([]string{last}, at(10000)); got.Slot != 0 || f.names != nil || f.some.Load() {
		t.Errorf("everything is applied: floor %d, %d names", got.Slot, len(f.names))
	}
}
