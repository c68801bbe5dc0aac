package sim_test

import (
	"bytes"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/sim"
)

func batchesOf(t *testing.T, values ...string) (b []byte) {
	t.Helper()
	for i, v := range values {
		var err error
		if b, _, err = record.Append(b, []record.Record{{Timestamp: int64(i), Value: []byte(v)}}, record.EncodeOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestEveryByteCounts: each byte of a batch in the log is as sent, except those that the log sets.
func TestEveryByteCounts(t *testing.T) {
	s := sim.NewSentBatches()
	plain := batchesOf(t, "a", "b")
	s.Note(plain)
	s.Note(batchesOf(t, "another"))
	record.Patch(plain, 1<<40, 7)
	stamped := bytes.Clone(plain)
	record.StampAppendTime(stamped, 99)
	for _, c := range []struct {
		b       []byte
		stamped bool
		right   bool
	}{{plain, false, true}, {stamped, true, true}, {stamped, false, false}, {batchesOf(t, "d"), false, false}, {batchesOf(t, "d"), true, false}} {
		if err := s.Check(c.b, c.stamped); (err == nil) != c.right {
			t.Errorf("stamped %v: %v", c.stamped, err)
		}
	}
	free := func(at int, stamped bool) bool {
		given := at < 8 || at >= 12 && at < 16
		return given || stamped && (at >= 17 && at < 21 || at >= 35 && at < 43)
	}
	first, _, _ := record.Split(plain)
	for at := range len(first) {
		for bit := range 8 {
			for _, is := range []bool{false, true} {
				b := bytes.Clone(plain)
				if is {
					b = bytes.Clone(stamped)
				}
				b[at] ^= 1 << bit
				want := !free(at, is) && !(is && at == 22 && bit == 3)
				if err := s.Check(b, is); (err != nil) != want {
					t.Errorf("stamped %v, byte %d, bit %d: %v", is, at, bit, err)
				}
			}
		}
	}
}
