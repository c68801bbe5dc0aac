package queues

import (
	"errors"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMessageIsRead(t *testing.T) {
	m := encode(3, 17, 1234, filler(newRandom(3)))
	producer, number, at, err := decode(m)
	must.NoError(t, err)
	if producer != 3 || number != 17 || at != 1234 || len(m) != messageBytes {
		t.Errorf("producer %d, number %d, time %d, %d bytes", producer, number, at, len(m))
	}
	for _, i := range []int{0, headerBytes - 1, headerBytes, messageBytes - 1} {
		bad := append([]byte(nil), m...)
		bad[i] ^= 1
		if _, _, _, err := decode(bad); !errors.Is(err, errDamaged) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	if _, _, _, err := decode(m[:10]); !errors.Is(err, errDamaged) {
		t.Errorf("10 bytes: %v", err)
	}
}

// TestLedger: a message is lost if it was acknowledged and no worker has begun with it.
func TestLedger(t *testing.T) {
	l := newLedger(2)
	fill := filler(newRandom(0))
	for i := range 4 {
		check.Equal(t, l.sent(1), i)
	}
	l.acked(1, 0, 3)
	for _, c := range []struct {
		number int
		first  bool
	}{{0, true}, {3, true}, {0, false}} {
		at, first := l.worked(encode(1, c.number, 5, fill))
		if first != c.first || at != 5 {
			t.Errorf("message %d: sent at %d, first %v, want %v", c.number, at, first, c.first)
		}
	}
	if all, lost := l.count(); all != 3 || lost != 2 || l.again != 1 || len(l.faults) != 0 {
		t.Errorf("%d acknowledged, %d lost, %d again, %v", all, lost, l.again, l.faults)
	}
	l.worked(encode(1, 4, 5, fill))
	l.worked(encode(2, 0, 5, fill))
	l.worked([]byte("x"))
	check.Equal(t, len(l.faults), 3)
}
