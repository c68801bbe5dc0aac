// A queue between a publisher and its connection, for clients whose calls wait for the answer. What
// arrives while a call is under way goes with the next one.

package sut

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
)

// ErrClosed is what a message is done with that came after Close.
var ErrClosed = errors.New("the publisher is closed")

// Queued is a message under way. Done is called once, by whoever has it.
type Queued struct {
	Key, Payload []byte
	Done         func(error)
}

func (m *Queued) size() int { return len(m.Key) + len(m.Payload) }

// DoneAll calls Done of each with err.
func DoneAll(list []Queued, err error) {
	for i := range list {
		list[i].Done(err)
	}
}

// QueuedBytes is how many bytes of keys and payloads there are.
func QueuedBytes(list []Queued) int {
	n := 0
	for i := range list {
		n += list[i].size()
	}
	return n
}

// Outbox is a queue with a limit in bytes. One goroutine calls Put, one calls Take; the others may
// be called from any.
type Outbox struct {
	limit int
	more  chan struct{} // holds one if there is something new: a message, or the end
	room  chan struct{} // holds one if something was taken, or it is the end

	mu    sync.Mutex // guards what follows
	queue []Queued
	bytes int
	ended error // nil: it takes messages
}

// NewOutbox returns a box that holds about so many bytes: at least one message, whatever its size.
func NewOutbox(bytesMax int) *Outbox {
	return &Outbox{limit: bytesMax, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds a message as soon as there is room. If there is none before ctx ends, or the box has
// ended, the message is done.
func (b *Outbox) Put(ctx context.Context, m Queued) {
	for {
		added, err := b.add(m)
		if err != nil {
			m.Done(err)
			return
		}
		if added {
			wake(b.more)
			return
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			m.Done(context.Cause(ctx))
			return
		}
	}
}

func (b *Outbox) add(m Queued) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return false, b.ended
	}
	if len(b.queue) > 0 && b.bytes+m.size() > b.limit {
		return false, nil
	}
	b.queue = append(b.queue, m)
	b.bytes += m.size()
	return true, nil
}

// Take waits until something is there and takes the oldest: at most so many messages, and so many
// bytes unless the first is larger. The error is io.EOF once the box has ended and is empty.
func (b *Outbox) Take(messagesMax, bytesMax int) ([]Queued, error) {
	for {
		list, ended := b.cut(messagesMax, bytesMax, true)
		if len(list) > 0 {
			wake(b.room)
			return list, nil
		}
		if ended {
			return nil, io.EOF
		}
		<-b.more
	}
}

// TakeNow takes what is there, in order: at most so many bytes, perhaps nothing.
func (b *Outbox) TakeNow(bytesMax int) []Queued {
	list, _ := b.cut(math.MaxInt, bytesMax, false)
	if len(list) > 0 {
		wake(b.room)
	}
	return list
}

// cut takes messages off the queue; with first, the first of them whatever its size.
func (b *Outbox) cut(messagesMax, bytesMax int, first bool) (list []Queued, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	for n < len(b.queue) && n < messagesMax && (first && n == 0 || bytes+b.queue[n].size() <= bytesMax) {
		bytes += b.queue[n].size()
		n++
	}
	list = b.queue[:n:n]
	b.queue = b.queue[n:]
	if len(b.queue) == 0 {
		b.queue = nil // list has the memory
	}
	b.bytes -= bytes
	return list, b.ended != nil
}

// Close ends the box for Put. What is in it can still be taken.
func (b *Outbox) Close() { b.end(ErrClosed) }

// Fail ends the box, and what is in it is done with err.
func (b *Outbox) Fail(err error) {
	b.end(err)
	b.mu.Lock()
	list := b.queue
	b.queue, b.bytes = nil, 0
	b.mu.Unlock()
	DoneAll(list, err)
}

func (b *Outbox) end(err error) {
	b.mu.Lock()
	if b.ended == nil {
		b.ended = err
	}
	b.mu.Unlock()
	wake(b.more)
	wake(b.room)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
