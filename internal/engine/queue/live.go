package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// catchUp makes the queues live that are in the log.
func (m *Queues) catchUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook.mu.Lock()
	changed := m.hook.topics
	m.hook.mu.Unlock()
	if changed && m.epoch != 0 {
		m.refresh()
	}
}

// refresh compares the queues with the topics.
func (m *Queues) refresh() {
	refs := m.b.TopicRefs()
	seen := map[record.ID]struct{}{}
	for i := range refs {
		r := &refs[i]
		if r.Settings[state.QueueSetting] == "" {
			continue
		}
		seen[r.ID] = struct{}{}
		l := m.live[r.ID]
		if l == nil {
			m.open(r, nil)
			continue
		}
		l.topic.Store(r)
		m.grow(l)
		if text := r.Settings[state.QueueSetting]; text != l.text {
			l.text = text
			m.touch(l)
			if !l.core.Configure(*state.Resolve(r.Settings).Queue) {
				m.reopen(l)
			}
		}
	}
	for id, l := range m.live { //tidy:unordered each is removed by itself
		if _, ok := seen[id]; !ok {
			m.drop(l)
		}
	}
}

// open makes a queue live. before is what it was until now; nil: its dedup IDs must be read.
func (m *Queues) open(r *broker.TopicRef, before *live) *live {
	l := &live{text: r.Settings[state.QueueSetting], totals: &Totals{}, next: math.MaxInt64, alarm: -1}
	l.topic.Store(r)
	l.core = NewCore(*state.Resolve(r.Settings).Queue, m.epoch, r.Partitions, rand.Float64)
	l.core.CountIn(&m.out)
	m.grow(l)
	m.live[r.ID] = l
	m.touch(l)
	m.share()
	m.hook.mu.Lock()
	m.hook.watch[r.ID] = struct{}{}
	m.hook.mu.Unlock()
	if before == nil {
		l.sent = m.sentOf(l)
	} else {
		l.sent, l.totals, l.core.over = before.sent, before.totals, before.core.over
	}
	m.look(l, m.now(), true)
	return l
}

func (m *Queues) grow(l *live) {
	l.core.Grow(l.ref().Partitions)
	for len(l.proposed) < l.ref().Partitions {
		l.proposed, l.burying = append(l.proposed, nil), append(l.burying, false)
		l.buryAt, l.failures = append(l.buryAt, 0), append(l.failures, 0)
	}
}

// reopen makes a queue live again with settings that need other knowledge of its messages.
func (m *Queues) reopen(l *live) {
	if l.closing != nil {
		return
	}
	l.closing = make(chan struct{})
	m.flush(l)
	l.pending++
	m.settled(l)
}

// settled notes the end of a change. A queue that is to be opened again waits for all of them, so that the
// log knows what they did, and then stores all leases.
func (m *Queues) settled(l *live) {
	if l.pending--; l.pending > 0 || l.closing == nil {
		return
	}
	if m.live[l.ref().ID] != l {
		return // end has closed it
	}
	if !l.kept {
		l.kept = true
		if m.keep(l); l.pending > 0 {
			return
		}
	}
	m.drop(l)
	if r, ok := m.b.TopicOf(l.ref().ID); ok {
		m.open(&r, l)
	}
}

// keep stores the leases of a queue.
func (m *Queues) keep(l *live) {
	for p := range l.proposed {
		if q := l.core.Leases(uint32(p)); q != nil {
			u := m.update(l, uint32(p))
			u.Change = q
			t := m.b.UpdateQueue(u)
			l.pending++
			m.busy.Go(func() {
				t.Wait(context.Background())
				m.mu.Lock()
				defer m.mu.Unlock()
				m.settled(l)
			})
		}
	}
}

// lock takes the lock and returns a queue, when it is open. Errors: those of named, and the context's.
func (m *Queues) lock(ctx context.Context, name string) (*live, error) {
	for {
		m.mu.Lock()
		l, err := m.named(name)
		wait := m.began
		switch {
		case errors.Is(err, state.ErrNotLeader) && m.epoch == 0 && m.b.Leads(): // it will begin
		case err != nil:
			m.mu.Unlock()
			return nil, err
		case l.closing == nil:
			return l, nil
		default:
			wait = l.closing
		}
		m.mu.Unlock()
		select {
		case <-wait:
		case <-m.b.Done():
			return nil, state.ErrNotLeader
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// drop forgets a queue. Its workers that wait look again.
func (m *Queues) drop(l *live) {
	m.forget(l)
	m.share()
	m.hook.mu.Lock()
	delete(m.hook.watch, l.ref().ID)
	m.hook.mu.Unlock()
	for _, w := range l.waiters {
		w.wake.Send()
	}
	m.abandon(l, ErrStale)
	if l.closing != nil {
		close(l.closing)
		l.closing = nil
	}
}

// abandon answers the workers that wait for changes of a queue which are not on their way to the log.
func (m *Queues) abandon(l *live, why error) {
	for p := range l.proposed {
		l.core.End(uint32(p), m.now(), l.proposed[p], why)
	}
}

// named returns a live queue. Errors: state.ErrNotLeader, state.ErrUnknownTopic, ErrNotQueue.
func (m *Queues) named(name string) (*live, error) {
	if m.epoch == 0 || m.ctx.Err() != nil {
		return nil, state.ErrNotLeader
	}
	r, ok := m.b.TopicNamed(name)
	switch {
	case !ok:
		return nil, state.ErrUnknownTopic
	case r.Settings[state.QueueSetting] == "":
		return nil, fmt.Errorf("%w: %s", ErrNotQueue, name)
	}
	if l := m.live[r.ID]; l != nil {
		return l, nil
	}
	return m.open(&r, nil), nil
}
