// A queue between a publisher and its connection, for clients whose calls wait for the response.
// Messages that arrive during a call are sent with the next one.

package sut

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
)

// ErrClosed is the error for messages sent after Close.
var ErrClosed = errors.New("the publisher is closed")

// Queued is a message in the queue. Its holder calls Done exactly once.
type Queued struct {
	Key, Payload []byte
	Done         func(error)
}

func (m *Queued) size() int { return len(m.Key) + len(m.Payload) }

// DoneAll calls Done of each message with err.
func DoneAll(list []Queued, err error) {
	for i := range list {
		list[i].Done(err)
	}
}

// QueuedBytes returns the total size of keys and payloads.
func QueuedBytes(list []Queued) int {
	n := 0
	for i := range list {
		n += list[i].size()
	}
	return n
}

// Outbox is a queue with a limit in bytes. One goroutine calls Put and one calls Take; the other
// methods may be called from any goroutine.
type Outbox struct {
	limit int
	more  chan struct{} // holds one element if there is something new: a message, or the end
	room  chan struct{} // holds one element if a message was taken, or the queue has ended

	mu    sync.Mutex // guards the following fields
	queue []Queued
	bytes int
	ended error // nil: accepts messages
}

// NewOutbox returns an Outbox that holds about bytesMax bytes, and at least one message of any
// size.
func NewOutbox(bytesMax int) *Outbox {
	return &Outbox{limit: bytesMax, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds a message as soon as there is space. If ctx ends first or the Outbox has ended, it calls
// Done of the message with an error.
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

// Take waits for messages and takes the oldest: at most messagesMax messages and bytesMax bytes,
// but at least one message. The error is io.EOF when the Outbox has ended and is empty.
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

// TakeNow takes the messages that are queued, in order: at most bytesMax bytes, possibly none.
func (b *Outbox) TakeNow(bytesMax int) []Queued {
	list, _ := b.cut(math.MaxInt, bytesMax, false)
	if len(list) > 0 {
		wake(b.room)
	}
	return list
}

// cut removes messages from the queue; with first, it takes the first one whatever its size.
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
		b.queue = nil // list owns the array now
	}
	b.bytes -= bytes
	return list, b.ended != nil
}

// Close makes Put fail. Queued messages can still be taken.
func (b *Outbox) Close() { b.end(ErrClosed) }

// Fail makes Put fail, and calls Done of all queued messages with err.
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
