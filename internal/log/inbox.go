package log

import (
	"sync"

	"github.com/sebbroker/seb/internal/log/core"
)

// message is one item for the owner; the field that is set gives its kind.
type message struct {
	submit  *Ticket
	cancel  *Ticket
	why     error // with cancel
	event   *core.Event
	body    []byte // with event: an encoded snapshot for later attempts
	confirm *confirmation
	readers *bool
	alive   chan<- struct{} // capacity 1
}

// inbox passes messages to the owner: a slice under a mutex with one wake-up for any number of
// messages, which is cheaper than a channel send for each. It has no bound of its own: QueueBytes
// bounds submits, the core's requests bound answers, and the other messages have a waiting caller
// each.
type inbox struct {
	wake chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	msgs   []message
	sealed bool // accepts nothing more from callers
	closed bool // accepts nothing more
}

// put delivers a message, or returns false if the inbox no longer accepts it.
func (b *inbox) put(m message) bool {
	b.mu.Lock()
	if b.closed || b.sealed && (m.submit != nil || m.confirm != nil) {
		b.mu.Unlock()
		return false
	}
	b.msgs = append(b.msgs, m)
	first := len(b.msgs) == 1
	b.mu.Unlock()
	if first {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns the queued messages and reuses spare, whose messages were handled, for the next
// ones.
func (b *inbox) take(spare []message) []message {
	clear(spare)
	b.mu.Lock()
	msgs := b.msgs
	b.msgs = spare[:0]
	b.mu.Unlock()
	return msgs
}

// seal refuses further submits and confirmations; queued ones are still handled.
func (b *inbox) seal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
}

// close refuses all further messages and returns the last ones.
func (b *inbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	msgs := b.msgs
	b.msgs = nil
	return msgs
}
