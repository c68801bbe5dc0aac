package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Queues gives the messages of queues to workers (package queue). Its methods must be quick, and must
// not call the broker.
type Queues interface {
	// Committed is called for each slot of a leader, while the state is locked: records of partitions,
	// and whether topics have changed.
	Committed(index []record.IndexEntry, topics bool)
	// Riders returns the changes that the next slot takes along.
	Riders() []core.Op
}

// Serve connects the queues. It is called once.
func (b *Broker) Serve(q Queues) { b.queues.Store(&q) }

// riders is the log's hook.
func (b *Broker) riders() []core.Op {
	if q := b.queues.Load(); q != nil {
		return (*q).Riders()
	}
	return nil
}

// ReadQueue calls f with the state of a queue's partition, its first offset and its end, as committed.
// It returns false if there is no such partition.
func (b *Broker) ReadQueue(topic record.ID, partition uint32, f func(q *state.Queue, p *state.Partition)) (known bool) {
	b.log.Read(func(s *state.State) {
		if t := s.Topic(topic); t != nil && partition < uint32(t.Partitions.Len()) {
			p := t.Partitions.At(int(partition))
			f(p.QueueOf(), p)
			known = true
		}
	})
	return known
}

// Nonce returns the nonce of an epoch, which only brokers know.
func (b *Broker) Nonce(epoch uint32) (nonce record.ID, known bool) {
	b.log.Read(func(s *state.State) {
		for i := range s.Epochs {
			if s.Epochs[i].Number == epoch {
				nonce, known = s.Epochs[i].Nonce, true
			}
		}
	})
	return nonce, known
}

// QueueUpdate is a change of a queue's partition in an epoch.
type QueueUpdate struct {
	Epoch     uint32
	Topic     record.ID
	Partition uint32
	Change    *state.QueueChange
	Late      func() *state.QueueChange // instead of Change: called when the slot is made
	Placed    bool                      // Change is about the messages of the append that joins it
}

// Op returns the update as the log takes it.
func (u *QueueUpdate) Op() core.Op {
	return core.Op{
		Record: state.Record{Kind: state.QueueUpdate, Topic: u.Topic, Partition: u.Partition, Queue: u.Change},
		Own:    true, Epoch: u.Epoch, Late: u.Late, Placed: u.Placed,
	}
}

// UpdateQueue proposes a change of a queue.
func (b *Broker) UpdateQueue(u *QueueUpdate) *log.Ticket { return b.log.ProposeAll([]core.Op{u.Op()}) }

// UpdateQueueWith proposes a change of a queue with an append of whole batches. The log has both, in one
// slot, or neither. Errors: those of an append.
func (b *Broker) UpdateQueueWith(ctx context.Context, u *QueueUpdate, a *Append) (*log.Ticket, error) {
	if err := b.refuses(ctx); err != nil {
		return nil, err
	}
	head, err := b.admitClient(a)
	if err != nil {
		return nil, err
	}
	return b.log.ProposeJoined(u.Op(), &log.Append{Head: head, Data: a.Data}), nil
}

// ChangeQueue proposes a change of a queue for a client, with an audit record, and waits until it is
// committed. details are names and values in turn.
func (b *Broker) ChangeQueue(ctx context.Context, u *QueueUpdate, action, name string, details ...string) error {
	return b.propose(ctx, u.Op().Record, changeOf(action, access.Topic, name, details...))
}

// AuditQueue is Audit for what a client does with a queue.
func (b *Broker) AuditQueue(ctx context.Context, action, name string, details ...string) error {
	return b.Audit(ctx, changeOf(action, access.Topic, name, details...))
}

// EachRecord calls each for the records in [from, to) of a partition, in order, until it returns false. The record is
// valid until the next call.
func (b *Broker) EachRecord(ctx context.Context, l Lookup, from, to int64, each func(*record.Record) bool) error {
	return b.scan(ctx, l, TimeSpan{Base: from, End: to}, func(r *record.Record) bool {
		return r.Offset < to && each(r)
	})
}

// ErrQueueFull: a queue takes no more messages (QueueFullError, and queue.FullError).
var ErrQueueFull = errors.New("the queue is full")

// QueueFullError: a queue has reached its retention-bytes. Messages that are not done are never removed. It
// is ErrQueueFull.
type QueueFullError struct {
	Topic      string
	Bytes, Max int64 // of the partition
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("queue %s is full: its messages take %d bytes, and retention-bytes is %d", e.Topic, e.Bytes, e.Max)
}

// Is reports whether t is ErrQueueFull.
func (e *QueueFullError) Is(t error) bool { return t == ErrQueueFull }

// fullQueue returns the error of an append to a partition of a queue that is full, or nil.
func fullQueue(t *state.Topic, partition int) *QueueFullError {
	if _, sized := t.Settings["retention-bytes"]; !sized {
		return nil
	}
	most := state.Resolve(t.Settings).RetentionBytes
	if held := t.Partitions.At(partition).Bytes; most != state.Unlimited && held >= most {
		return &QueueFullError{t.Name, held, most}
	}
	return nil
}

// doneLongAgo returns the trims of a queue: of messages that were done keep-done ago, as all before them.
func doneLongAgo(t *state.Topic, now time.Time) (ops []core.Op) {
	settings := state.Resolve(t.Settings)
	if settings.Queue == nil || settings.Queue.KeepDone == state.Unlimited {
		return nil
	}
	for i, p := range t.Partitions.Written() {
		if start := p.QueueOf().DoneAt(now.Add(-settings.Queue.KeepDone).UnixMicro()); start > p.Start {
			ops = append(ops, core.Op{Own: true, Record: state.Record{
				Kind: state.TopicTrim, Topic: t.ID, Partition: uint32(i), Offset: start,
			}})
		}
	}
	return ops
}

// checkDone refuses to trim messages of a queue that are not done.
func (b *Broker) checkDone(id partKey, offset int64) (err error) {
	b.log.Read(func(s *state.State) {
		t := s.Topic(id.topic)
		if t == nil || !t.IsQueue() || id.partition >= uint32(t.Partitions.Len()) {
			return
		}
		if done := t.Partitions.At(int(id.partition)).QueueOf().Done; offset > done {
			err = &state.InvalidError{Field: "offset", Reason: fmt.Sprintf("%d: queue %s has messages from offset %d on that are not done: purge the queue to remove them", offset, t.Name, done)}
		}
	})
	return err
}

// checkQueue checks the settings and partitions of a topic that is a queue, and the format level.
func (b *Broker) checkQueue(settings map[string]string, partitions int) error {
	if settings[state.QueueSetting] == "" {
		return nil
	}
	if partitions > state.QueuePrioritiesMax {
		return &state.InvalidError{Field: "partitions", Reason: fmt.Sprintf("%d: those of a queue are its priorities, at most %d", partitions, state.QueuePrioritiesMax)}
	}
	needs := uint32(state.LevelQueues)
	if q := state.Resolve(settings).Queue; q != nil && q.SQS != "" {
		needs = state.LevelSigning
	}
	if has := b.Level().Now; has < needs {
		return &state.LevelError{Needs: needs, Has: has}
	}
	for _, name := range []string{"retention-time", "cleanup-policy"} {
		if v, ok := settings[name]; ok && v != "delete" && v != "unlimited" {
			return &state.InvalidError{Field: "settings", Reason: fmt.Sprintf("setting %s: %s: a queue keeps messages until they are done; see its settings keep-done and expire", name, v)}
		}
	}
	return nil
}
