package webhook

import (
	"fmt"
	"testing"
)

// TestBodiesOfOneTrigger: a trigger that builds many large bodies at once leaves bytes to others.
func TestBodiesOfOneTrigger(t *testing.T) {
	const body = 64 << 10
	s := newSlots(100, 2<<20)
	for s.take("many", slotBytes) {
	}
	for range s.sum {
		if !s.grow("many", body) {
			s.release("many", slotBytes)
		}
	}
	for i := range 4 {
		trigger := fmt.Sprint("other ", i)
		if !s.take(trigger, slotBytes) || !s.grow(trigger, body) {
			t.Fatalf("no room for the first message of trigger %d: %d slots, %d of %d bytes are taken", i, s.sum, s.filled, s.bytes)
		}
	}
}
