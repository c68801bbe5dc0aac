package drivers

import (
	"context"
	"io"
	"math"
	"sync"
)

// queued is a message in the queue. Its holder calls Done exactly once.
type queued struct {
	Key, Payload []byte
	Done         func(error)
}

func (m *queued) size() int { return len(m.Key) + len(m.Payload) }

// doneAll calls Done of each message with err.
func doneAll(list []queued, err error) {
	for i := range list {
		list[i].Done(err)
	}
}

// queuedBytes returns the total size of keys and payloads.
func queuedBytes(list []queued) int {
	n := 0
	for i := range list {
		n += list[i].size()
	}
	return n
}

// outbox is a queue with a limit in bytes. One goroutine calls Put and one calls Take; the other
// methods may be called from any goroutine.
type outbox struct {
	limit int
	batch int           // messages that are taken together, as far as the limits of Take allow
	more  chan struct{} // holds one element if there is something new: a message, or the end
	room  chan struct{} // holds one element if a message was taken, or the queue has ended

	mu    sync.Mutex // guards the following fields
	queue []queued
	added uint64 // messages so far
	bytes int
	ended error // nil: accepts messages
}

// newOutbox returns an outbox that holds about bytesMax bytes, and at least one message of any
// size. A message is not taken before its batch is complete, and a batch that is begun is accepted
// beyond the limit. batch may be 0 for messages that do not wait for others.
func newOutbox(bytesMax, batch int) *outbox {
	return &outbox{limit: bytesMax, batch: max(batch, 1), more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Put adds a message as soon as there is space. If ctx ends first or the outbox has ended, it calls
// Done of the message with an error.
func (b *outbox) Put(ctx context.Context, m queued) {
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

func (b *outbox) add(m queued) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return false, b.ended
	}
	if len(b.queue) > 0 && b.bytes+m.size() > b.limit && b.added%uint64(b.batch) == 0 {
		return false, nil
	}
	b.queue = append(b.queue, m)
	b.added++
	b.bytes += m.size()
	return true, nil
}

// Take waits for messages and takes the oldest: at most messagesMax messages and bytesMax bytes,
// but at least one message. The error is io.EOF when the outbox has ended and is empty.
func (b *outbox) Take(messagesMax, bytesMax int) ([]queued, error) {
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
func (b *outbox) TakeNow(bytesMax int) []queued {
	list, _ := b.cut(math.MaxInt, bytesMax, false)
	if len(list) > 0 {
		wake(b.room)
	}
	return list
}

// cut removes messages from the queue; with first, it takes the first one whatever its size.
func (b *outbox) cut(messagesMax, bytesMax int, first bool) (list []queued, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	complete := len(b.queue)
	if b.ended == nil {
		complete -= min(complete, int(b.added%uint64(b.batch)))
	}
	n, bytes := 0, 0
	for n < complete && n < messagesMax && (first && n == 0 || bytes+b.queue[n].size() <= bytesMax) {
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

// Close makes Put fail. queued messages can still be taken.
func (b *outbox) Close() { b.end(errClosed) }

// Fail makes Put fail, and calls Done of all queued messages with err.
func (b *outbox) Fail(err error) {
	b.end(err)
	b.mu.Lock()
	list := b.queue
	b.queue, b.bytes = nil, 0
	b.mu.Unlock()
	doneAll(list, err)
}

func (b *outbox) end(err error) {
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
