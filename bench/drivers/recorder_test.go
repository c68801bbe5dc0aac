package drivers_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
)

// payloadOf returns the content of message i of publisher p: both numbers, and noise that they
// determine; for a single byte, i.
func payloadOf(p, i, size int) []byte {
	b := make([]byte, size)
	if size < 8 {
		b[0] = byte(i)
		return b
	}
	binary.BigEndian.PutUint32(b, uint32(p))
	binary.BigEndian.PutUint32(b[4:], uint32(i))
	noise := rand.New(rand.NewPCG(uint64(p), uint64(i)))
	for at := 8; at+8 <= size; at += 8 {
		binary.BigEndian.PutUint64(b[at:], noise.Uint64())
	}
	return b
}

// recorder records received messages.
type recorder struct {
	l    load
	more chan struct{} // capacity 1: something is new

	mu     sync.Mutex // guards the fields below
	total  int
	got    []map[int][]int // message numbers by subscriber and publisher, in order of arrival
	faults []string
}

func newRecorder(l load) *recorder {
	r := &recorder{l: l, more: make(chan struct{}, 1), got: make([]map[int][]int, l.subscribers)}
	for i := range r.got {
		r.got[i] = map[int][]int{}
	}
	return r
}

func (r *recorder) add(subscriber int, payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		select {
		case r.more <- struct{}{}:
		default:
		}
	}()
	r.total++
	if r.l.bytes < 8 {
		if len(payload) != r.l.bytes {
			r.faults = append(r.faults, "a message of another size")
			return
		}
		r.got[subscriber][0] = append(r.got[subscriber][0], int(payload[0]))
		return
	}
	if len(payload) != r.l.bytes {
		r.faults = append(r.faults, "a message of another size")
		return
	}
	p, i := int(binary.BigEndian.Uint32(payload)), int(binary.BigEndian.Uint32(payload[4:]))
	if !bytes.Equal(payload, payloadOf(p, i, r.l.bytes)) {
		r.faults = append(r.faults, "a message that is not as it was sent")
		return
	}
	r.got[subscriber][p] = append(r.got[subscriber][p], i)
}

// want returns the number of messages for all subscribers together.
func (r *recorder) want() int {
	if r.l.shared {
		return r.l.publishers * r.l.messages
	}
	return r.l.publishers * r.l.messages * r.l.subscribers
}

func (r *recorder) have() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// wait waits for all messages.
func (r *recorder) wait(t *testing.T, ctx context.Context) { r.until(t, ctx, r.want()) }

// some waits for any message.
func (r *recorder) some(t *testing.T, ctx context.Context) { r.until(t, ctx, 1) }

func (r *recorder) until(t *testing.T, ctx context.Context, n int) {
	t.Helper()
	for r.have() < n {
		select {
		case <-r.more:
		case <-ctx.Done():
			t.Fatalf("%d of %d messages arrived: %v", r.have(), n, context.Cause(ctx))
		}
	}
}

// check reports faults of the received messages.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fault := range r.faults {
		t.Error(fault)
	}
	if r.l.shared {
		r.checkShared(t)
		return
	}
	for s, by := range r.got {
		for p := range r.l.publishers {
			r.checkAll(t, s, p, by[p])
		}
		if len(by) > r.l.publishers {
			t.Errorf("subscriber %d: messages of %d publishers, want %d", s, len(by), r.l.publishers)
		}
	}
}

// checkAll checks that every message of a publisher arrived once, and those of a key (all of them
// without keys) in order.
func (r *recorder) checkAll(t *testing.T, s, p int, got []int) {
	t.Helper()
	counts := make([]int, r.l.messages)
	last := map[int]int{}
	for _, i := range got {
		if i >= len(counts) {
			t.Errorf("subscriber %d, publisher %d: message %d was never sent", s, p, i)
			return
		}
		counts[i]++
		key := 0
		if r.l.keys > 0 {
			key = i % r.l.keys
		}
		if before, ok := last[key]; ok && before >= i {
			t.Errorf("subscriber %d, publisher %d: message %d came after %d", s, p, i, before)
			return
		}
		last[key] = i
	}
	for i, n := range counts {
		if n != 1 {
			t.Errorf("subscriber %d, publisher %d: message %d came %d times", s, p, i, n)
			return
		}
	}
}

// checkShared checks that every message arrived once at one of the subscribers.
func (r *recorder) checkShared(t *testing.T) {
	t.Helper()
	for p := range r.l.publishers {
		counts := make([]int, r.l.messages)
		for _, by := range r.got {
			for _, i := range by[p] {
				counts[i]++
			}
		}
		for i, n := range counts {
			if n != 1 {
				t.Errorf("publisher %d: message %d came %d times", p, i, n)
				return
			}
		}
	}
}
