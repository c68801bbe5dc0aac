// Package outbox keeps what a publisher was given until its connection can take it: for clients whose calls wait for the
// answer. What piles up while a call is under way goes with the next one.
package outbox

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
)

// ErrClosed is what a message is done with that came after Close.
var ErrClosed = errors.New("the publisher is closed")

// Message is a message under way. Done is called once, by whoever has it.
type Message struct {
	Key, Payload []byte
	Done         func(error)
}

func (m *Message) size() int { return len(m.Key) + len(m.Payload) }

// DoneAll calls Done of each with err.
func DoneAll(list []Message, err error) {
	for i := range list {
		list[i].Done(err)
	}
}

// Bytes is how many bytes of keys and payloads there are.
func Bytes(list []Message) int {
	n := 0
	for i := range list {
		n += list[i].size()
	}
	return n
}

// Box is a queue with a limit in bytes. One goroutine calls Put, one calls Take; the others may be called from any.
type Box struct {
	limit int
	more  chan struct{} // holds one if there is something new: a message, or the end
	room  chan struct{} // holds one if something was taken, or it is the end

	mu    sync.Mutex // guards what follows
	queue []Message
	bytes int
	ended error // nil: it takes messages
}

// New returns a box that holds about so many bytes: at least one message, whatever its size.
func New(bytesMax int) *Box {
	return &Box{limit: bytesMax, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds a message as soon as there is room. If there is none before ctx ends, or the box has ended, the message is done.
func (b *Box) Put(ctx context.Context, m Message) {
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

func (b *Box) add(m Message) (bool, error) {
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

// Take waits until something is there and takes the oldest: at most so many messages, and so many bytes unless the first is
// larger. The error is io.EOF once the box has ended and is empty.
func (b *Box) Take(messagesMax, bytesMax int) ([]Message, error) {
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
func (b *Box) TakeNow(bytesMax int) []Message {
	list, _ := b.cut(math.MaxInt, bytesMax, false)
	if len(list) > 0 {
		wake(b.room)
	}
	return list
}

// cut takes messages off the queue; with first, the first of them whatever its size.
func (b *Box) cut(messagesMax, bytesMax int, first bool) (list []Message, ended bool) {
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
func (b *Box) Close() { b.end(ErrClosed) }

// Fail ends the box, and what is in it is done with err.
func (b *Box) Fail(err error) {
	b.end(err)
	b.mu.Lock()
	list := b.queue
	b.queue, b.bytes = nil, 0
	b.mu.Unlock()
	DoneAll(list, err)
}

func (b *Box) end(err error) {
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
