package log

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/test/check"
)

// queue is an alternative implementation of an inbox.
type queue interface {
	put(message)
	drain(handle func(*message)) // waits for at least one message
}

type inboxQueue struct {
	inbox
	spare []message
}

func (q *inboxQueue) put(m message) { q.inbox.put(m) }

func (q *inboxQueue) drain(handle func(*message)) {
	<-q.wake
	q.spare = q.take(q.spare)
	for i := range q.spare {
		handle(&q.spare[i])
	}
}

type channelQueue struct {
	c    chan message
	last message
}

func (q *channelQueue) put(m message) { q.c <- m }

func (q *channelQueue) drain(handle func(*message)) {
	q.last = <-q.c
	handle(&q.last)
}

// ringQueue is a bounded lock-free ring for many producers and one consumer: a sequence number in
// each cell names its owner. Both sides yield while they wait. With pad each cell has its own cache
// line.
type ringQueue[C cell] struct {
	_     [64]byte
	head  atomic.Uint64 // next cell to write
	_     [64]byte
	tail  uint64 // next cell to read
	cells []C
	at    func(*C) *ringCell
}

type ringCell struct {
	turn atomic.Uint64
	m    message
}

type paddedCell struct {
	ringCell
	_ [128]byte
}

type cell interface{ ringCell | paddedCell }

func newRing[C cell](n int, at func(*C) *ringCell) *ringQueue[C] {
	q := &ringQueue[C]{cells: make([]C, n), at: at}
	for i := range q.cells {
		at(&q.cells[i]).turn.Store(uint64(i))
	}
	return q
}

func (q *ringQueue[C]) put(m message) {
	i := q.head.Add(1) - 1
	c := q.at(&q.cells[i%uint64(len(q.cells))])
	for c.turn.Load() != i {
		runtime.Gosched()
	}
	c.m = m
	c.turn.Store(i + 1)
}

func (q *ringQueue[C]) drain(handle func(*message)) {
	for n := 0; ; n++ {
		c := q.at(&q.cells[q.tail%uint64(len(q.cells))])
		for c.turn.Load() != q.tail+1 {
			if n > 0 {
				return
			}
			runtime.Gosched()
		}
		handle(&c.m)
		c.m = message{}
		c.turn.Store(q.tail + uint64(len(q.cells)))
		q.tail++
	}
}

// BenchmarkInbox compares the inbox with a channel and with a ring, for one and for many producers.
func BenchmarkInbox(b *testing.B) {
	for _, producers := range []int{1, 8, 256} {
		for _, kind := range []struct {
			name string
			make func() queue
		}{
			{"inbox", func() queue { return &inboxQueue{inbox: inbox{wake: make(chan struct{}, 1)}} }},
			{"channel", func() queue { return &channelQueue{c: make(chan message, 1024)} }},
			{"ring", func() queue { return newRing(1024, func(c *ringCell) *ringCell { return c }) }},
			{"ring-padded", func() queue { return newRing(1024, func(c *paddedCell) *ringCell { return &c.ringCell }) }},
		} {
			b.Run(fmt.Sprintf("%s-%d", kind.name, producers), func(b *testing.B) {
				q := kind.make()
				ticket := new(Ticket)
				var left atomic.Int64
				left.Store(int64(b.N))
				for range producers {
					go func() {
						for left.Add(-1) >= 0 {
							q.put(message{submit: ticket})
						}
					}()
				}
				b.ReportAllocs()
				for n := 0; n < b.N; {
					q.drain(func(m *message) {
						if m.submit != ticket {
							b.Error("received another message than was sent")
						}
						n++
					})
				}
			})
		}
	}
}

// TestSubmitsWithinTheLimitsDoNotWake: after rest, only a message that the owner must see wakes it.
func TestSubmitsWithinTheLimitsDoNotWake(t *testing.T) {
	submit := func(bytes int64, members int) message {
		return message{submit: &Ticket{bytes: bytes, members: make([]member, members)}}
	}
	for name, c := range map[string]struct {
		rest  bool
		msgs  []message
		wakes bool
	}{
		"without rest":          {false, []message{submit(1, 1)}, true},
		"within the limits":     {true, []message{submit(40, 1), submit(59, 1)}, false},
		"at the limit of bytes": {true, []message{submit(40, 1), submit(60, 1)}, true},
		"at the limit of items": {true, []message{submit(1, 1), submit(1, 2)}, true},
		"another message":       {true, []message{submit(1, 1), {cancel: &Ticket{}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := inbox{wake: make(chan struct{}, 1)}
			if c.rest {
				b.rest(100, 3)
			}
			for _, m := range c.msgs {
				b.put(m)
			}
			check.Equalf(t, len(b.wake) > 0, c.wakes, "woken")
			check.Equalf(t, len(b.take(nil)), len(c.msgs), "messages")
			if len(b.wake) > 0 {
				<-b.wake
			}
			if b.put(submit(1, 1)); len(b.wake) != 1 {
				t.Error("a submit after take does not wake")
			}
		})
	}
}
