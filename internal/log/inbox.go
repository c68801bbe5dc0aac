package log

import (
	"sync"

	"github.com/sebbroker/seb/internal/log/core"
)

// message is one thing for the owner; the field that is set says which.
type message struct {
	submit  *Ticket
	cancel  *Ticket
	why     error // with cancel
	event   *core.Event
	body    []byte // with event: an encoded snapshot to keep
	confirm *confirmation
	readers *bool
	alive   chan<- struct{} // has room for one
}

// inbox hands messages to the owner: a slice under a mutex and one wake-up for however many, which is cheaper than a
// channel send for each. It has no bound of its own: submits are bounded by QueueBytes, answers by the core's requests,
// the rest by callers that wait.
type inbox struct {
	wake chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	msgs   []message
	sealed bool // takes nothing from callers any more
	closed bool // takes nothing at all
}

// put delivers a message, or says false once the inbox does not take it any more.
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

// take returns what is there and keeps spare, whose messages were handled, for the next ones.
func (b *inbox) take(spare []message) []message {
	clear(spare)
	b.mu.Lock()
	msgs := b.msgs
	b.msgs = spare[:0]
	b.mu.Unlock()
	return msgs
}

// seal refuses further submits and confirmations; those that are in are handled.
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
