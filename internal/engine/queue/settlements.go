package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Settlement is what a worker says about the message of a receipt. Delay is that of Retry, nil: by backoff;
// or of Extend, nil: the visibility of the queue.
type Settlement struct {
	Receipt string
	Do      Do
	Delay   *time.Duration
	Reason  string
	InTime  bool // ErrStale after the end of a lease of this leader, also if the message was not given again
}

// ReasonMax bounds the reason of a settlement in bytes.
const ReasonMax = 512

func (s *Settlement) check() error {
	switch {
	case s.Do < Finish || s.Do > Extend:
		return &state.InvalidError{Field: "do", Reason: "want done, retry, dead or extend"}
	case len(s.Reason) > ReasonMax:
		return &state.InvalidError{Field: "reason", Reason: fmt.Sprintf("%d bytes, limit %d", len(s.Reason), ReasonMax)}
	case s.Delay == nil:
	case s.Do != Retry && s.Do != Extend:
		return &state.InvalidError{Field: "delay", Reason: "only with retry and extend"}
	case *s.Delay < 0 || s.Do == Retry && *s.Delay > state.QueueDelayMax:
		return &state.InvalidError{Field: "delay", Reason: fmt.Sprintf("%s is not between 0s and 365d", *s.Delay)}
	case s.Do == Extend && *s.Delay > state.QueueVisibilityMax:
		return &state.InvalidError{Field: "delay", Reason: fmt.Sprintf("%s is not between 0s and 12h", *s.Delay)}
	}
	return nil
}

// Settle says what happens to messages, and waits until that is stored. Each settlement has its own
// result: nil, ErrReceipt, ErrStale, ErrNoDeadLetter, ErrInvalid, or an error of an append. The error is
// that of the queue, as of Lease.
func (m *Queues) Settle(ctx context.Context, queue, by string, list []Settlement) ([]error, error) {
	results := make([]error, len(list))
	changes := make([]*Change, len(list))
	for i := range list {
		if results[i] = list[i].check(); results[i] != nil {
			continue
		}
		ch, err := m.settle(ctx, queue, by, &list[i])
		if i == 0 && (errors.Is(err, state.ErrUnknownTopic) || errors.Is(err, ErrNotQueue) || errors.Is(err, state.ErrNotLeader)) {
			return nil, err
		}
		changes[i], results[i] = ch, err
	}
	totals := &Totals{}
	m.mu.Lock()
	if l, err := m.named(queue); err == nil {
		totals = l.totals
		m.flush(l)
		m.notify(l)
		m.touch(l)
	}
	m.mu.Unlock()
	for i, ch := range changes {
		if ch == nil {
			continue
		}
		select {
		case <-ch.Stored:
			results[i] = ch.Err
		case <-m.b.Done():
			results[i] = state.ErrOutcomeUnknown
		case <-ctx.Done():
			results[i] = fmt.Errorf("%w: %w", state.ErrOutcomeUnknown, context.Cause(ctx))
		}
		if results[i] == nil {
			m.countSettled(totals, list[i].Do)
		}
	}
	return results, nil
}

func (m *Queues) countSettled(t *Totals, do Do) {
	switch do {
	case Finish:
		m.met.done.Inc()
		t.Done.Add(1)
	case Retry:
		m.met.retried.Inc()
		t.Retried.Add(1)
	}
}

func (m *Queues) settle(ctx context.Context, queue, by string, s *Settlement) (*Change, error) {
	for {
		l, r, ch, err := m.settleKnown(ctx, queue, by, s)
		if err != ErrUnread {
			return ch, err
		}
		if err := m.know(ctx, l, r.ID); err != nil {
			return nil, err
		}
	}
}

func (m *Queues) settleKnown(ctx context.Context, queue, by string, s *Settlement) (l *live, r Receipt, ch *Change, err error) {
	if l, err = m.lock(ctx, queue); err != nil {
		return nil, r, nil, err
	}
	defer m.mu.Unlock()
	if r, err = ParseReceipt(s.Receipt, l.ref().ID, m.b.Nonce); err != nil {
		return nil, r, nil, err
	}
	v := Verdict{Do: s.Do, Delay: -1, Reason: s.Reason, InTime: s.InTime}
	if s.Do == Retry {
		v.Full = m.full()
	}
	switch {
	case s.Delay != nil:
		v.Delay = micros(*s.Delay)
	case s.Do == Extend:
		v.Delay = micros(l.core.Settings.Visibility)
	}
	err = ErrStale
	m.b.ReadQueue(l.ref().ID, r.Partition, func(q *state.Queue, p *state.Partition) {
		l.core.Extended(r.Partition, p.Next)
		ch, err = l.core.Settle(m.now(), &r, v, by, q)
	})
	return l, r, ch, err
}

// know reads the key of a message for the core.
func (m *Queues) know(ctx context.Context, l *live, id ID) error {
	found, hash := false, uint64(0)
	err := m.b.EachRecord(ctx, l.at(id.Partition), id.Offset, id.Offset+1, func(r *record.Record) bool {
		if r.Offset == id.Offset {
			found, hash = true, hashOf(r.Key)
		}
		return !found
	})
	if err != nil {
		return err
	}
	if !found {
		return ErrUnknownMessage
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b.ReadQueue(l.ref().ID, id.Partition, func(q *state.Queue, _ *state.Partition) { l.core.Know(m.now(), id, hash, q) })
	return nil
}
