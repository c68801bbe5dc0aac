package group

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestNothingIsUsedTwice: member IDs and generations are unique, in a coordinator and across
// coordinators.
func TestNothingIsUsedTwice(t *testing.T) {
	seen, last := map[string]bool{}, int32(0)
	for _, epoch := range []uint32{0, 1, 2, 17, 100_000} {
		cfg := config()
		cfg.Epoch = epoch
		b := newBenchWith(t, cfg)
		for range 5 {
			all := b.stable(request("", ""), request("", "i"))
			for _, a := range all {
				if seen[a.Member] || a.Generation <= last {
					t.Fatalf("epoch %d: members%s after generation %d", epoch, ids(all), last)
				}
				seen[a.Member] = true
			}
			last = all[0].Generation
			b.leave(all...)
			b.gone()
		}
	}
	cfg := config()
	cfg.Epoch = math.MaxUint32
	if a := newBenchWith(t, cfg).stable(request("", ""))[0]; a.Generation <= 0 || !strings.HasPrefix(a.Member, "c-ffffffff-") {
		t.Fatalf("%+v", a)
	}
}

func TestMemoryOfGroupsIsBounded(t *testing.T) {
	cfg := config()
	cfg.BytesMax = 20_000
	b := newBenchWith(t, cfg)
	for i := range 100 { // each a group
		r := request("", "")
		r.Group, r.TwoSteps = fmt.Sprint("g", i), i%2 == 0
		b.join(r)
		if b.c.Bytes() > cfg.BytesMax {
			t.Fatalf("groups take %d bytes, limit %d", b.c.Bytes(), cfg.BytesMax)
		}
	}
	if n := len(b.c.groups); n < 8 || n > 20 {
		t.Fatalf("%d groups fit, want 8 to 20", n)
	}
	b.pass(1000 * second)
	b.gone()
}
