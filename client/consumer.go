package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/sebbroker/seb/record"
)

// ConsumerOptions configure a Consumer. The zero value reads all partitions to their end and
// commits every second.
type ConsumerOptions struct {
	Partitions []int32 // nil: all; with Follow also partitions that are added later
	// Start is the offset for partitions without a committed offset: Earliest (also 0) or Latest.
	// The consumer commits a Latest at once.
	Start int64
	// Follow waits for new records at the end. Without it the consumer stops in each partition at
	// the end that it had when the read began.
	Follow bool
	// CommitEvery is the interval of commits. 0 means one second; with a negative value only Commit and
	// CommitPositions commit.
	CommitEvery time.Duration
	// MaxBytes bounds one fetch of a partition, which is kept in memory; 0 means 1 MiB.
	MaxBytes int
}

const (
	commitEveryDefault   = time.Second
	consumerBytesDefault = 1 << 20
	// partitionsEvery is the interval at which a following consumer looks for new partitions.
	partitionsEvery = 30 * time.Second
)

// Message is a record that Next returned. It is valid until the next call.
type Message struct {
	*record.Record
	Partition int32
}

// Consumer reads a topic for a consumer group. It reads the partitions concurrently, each in order
// from the group's committed offset. A record is finished when Next returns the following one, or
// by Done. The consumer commits only finished records. After a crash the group therefore reads
// every unfinished record again, and possibly some finished ones (at least once). Two consumers of
// the same group and partition would both get its records.
//
// Call Next and Done from one goroutine, and use the records there. The other methods may be called
// from any goroutine.
type Consumer struct {
	c     *Client
	group string
	topic string
	o     ConsumerOptions

	stop   context.CancelFunc
	wg     sync.WaitGroup
	queue  chan *prefetched
	ended  chan struct{} // closed when all partitions are read to their end
	failed chan error    // has the first error

	current *prefetched // used by Next's goroutine only
	err     error

	mu        sync.Mutex // guards finished, committed and open
	finished  Positions
	committed Positions
	open      map[int32]bool // partitions being read
	committer sync.Mutex     // serializes commits, so that an older one cannot overtake a newer one
}

// Positions are offsets by partition, each of the next record to read.
type Positions map[int32]int64

// Consumer begins to read a topic for a group. ctx covers only the start; Close ends the consumer.
// Errors: ErrUnknownTopic, ErrUnknownPartition.
func (c *Client) Consumer(ctx context.Context, group, topic string, o ConsumerOptions) (*Consumer, error) {
	o.Start = cmp.Or(o.Start, Earliest)
	if o.Start != Earliest && o.Start != Latest {
		return nil, &Error{NextOffset: -1, Start: -1, Committed: -1, Err: fmt.Errorf("start %d: want Earliest or Latest", o.Start)}
	}
	o.CommitEvery = cmp.Or(o.CommitEvery, commitEveryDefault)
	o.MaxBytes = cmp.Or(o.MaxBytes, consumerBytesDefault)
	k := &Consumer{
		c: c, group: group, topic: topic, o: o, queue: make(chan *prefetched), ended: make(chan struct{}), failed: make(chan error, 1),
		finished: Positions{}, committed: Positions{}, open: map[int32]bool{},
	}
	from, err := k.startPositions(ctx)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop = stop
	k.run(running, from)
	return k, nil
}

// run starts the readers of the partitions, the commits and the search for new partitions.
func (k *Consumer) run(ctx context.Context, from Positions) {
	var readers sync.WaitGroup
	read := func(from Positions) {
		for p, offset := range from {
			k.mu.Lock()
			known := k.open[p]
			k.open[p] = true
			k.mu.Unlock()
			if !known {
				readers.Go(func() { k.fail(k.read(ctx, p, offset)) })
			}
		}
	}
	read(from)
	if k.o.Follow && k.o.Partitions == nil {
		readers.Go(func() {
			every(ctx, partitionsEvery, func() {
				more, err := k.startPositions(ctx)
				if err != nil {
					k.fail(err)
					return
				}
				read(more)
			})
		})
	}
	k.wg.Go(func() {
		readers.Wait()
		close(k.ended)
	})
	if k.o.CommitEvery > 0 {
		k.wg.Go(func() {
			every(ctx, k.o.CommitEvery, func() { k.fail(k.Commit(ctx)) })
		})
	}
}

// every calls f periodically until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// fail keeps the first error for Next.
func (k *Consumer) fail(err error) {
	if err == nil {
		return
	}
	select {
	case k.failed <- err:
	default:
	}
}

// startPositions returns the offset at which the group continues in each partition.
func (k *Consumer) startPositions(ctx context.Context) (Positions, error) {
	t, err := k.c.Topic(ctx, k.topic)
	if err != nil {
		return nil, err
	}
	there := map[int32]Partition{}
	for _, p := range t.Partitions {
		there[p.Partition] = p
	}
	wanted := k.o.Partitions
	if wanted == nil {
		for _, p := range t.Partitions {
			wanted = append(wanted, p.Partition)
		}
	}
	from, err := k.committedOffsets(ctx)
	if err != nil {
		return nil, err
	}
	// A group with committed offsets reads new partitions from their start, so that it misses no
	// records.
	latest := k.o.Start == Latest && len(from) == 0
	for p := range from {
		if _, ok := there[p]; !ok {
			delete(from, p)
		}
	}
	out := Positions{}
	var begin []OffsetCommit
	for _, p := range wanted {
		if _, ok := there[p]; !ok {
			return nil, &Error{NextOffset: -1, Start: -1, Committed: -1, Code: string(ErrUnknownPartition.(codeError)), Detail: fmt.Sprintf("topic %s has %d partitions", k.topic, len(t.Partitions))}
		}
		offset, ok := from[p]
		switch {
		case ok:
		case latest:
			offset = there[p].Next
			begin = append(begin, OffsetCommit{Topic: k.topic, Partition: p, Offset: offset, Expected: new(int64(-1))})
		default:
			offset = there[p].Start
		}
		out[p] = offset
	}
	// Without this commit a crash before the first commit would skip the records that arrived
	// meanwhile.
	err = k.c.CommitOffsets(ctx, k.group, begin...)
	var e *Error
	if errors.Is(err, ErrOffsetMismatch) || errors.As(err, &e) && len(e.Offsets) > 0 {
		// Another consumer of the group started concurrently and has committed offsets.
		return k.startPositions(ctx)
	}
	return out, err
}

func (k *Consumer) committedOffsets(ctx context.Context) (Positions, error) {
	list, err := k.c.Offsets(ctx, k.group, k.topic)
	if err != nil {
		return nil, err
	}
	m := Positions{}
	for _, o := range list {
		m[o.Partition] = o.Offset
	}
	return m, nil
}

// Next finishes the previous record and returns the next one of any partition. It waits for a
// record. If ctx ends it returns ctx's error and may be called again. Without Follow it returns
// io.EOF at the end of all partitions. Other errors end the consumer: ErrBelowStart if unread
// records of the group were removed (commit another offset to continue), or the error of a failed
// commit.
func (k *Consumer) Next(ctx context.Context) (Message, error) {
	k.Done()
	for k.err == nil {
		if k.current != nil {
			r, err := k.current.take()
			if r != nil {
				return Message{Record: r, Partition: k.current.partition}, nil
			}
			if next := k.current.f.ResumeOffset(); next > k.current.from {
				k.finish(k.current.partition, next)
			}
			k.current.done <- err
			k.current = nil
		}
		if err := k.wait(ctx); err != nil {
			return Message{}, err
		}
	}
	return Message{}, k.err
}

// wait waits for the next answer. Errors other than ctx's end the consumer.
func (k *Consumer) wait(ctx context.Context) error {
	select {
	case k.err = <-k.failed:
		return nil
	default:
	}
	select {
	case k.current = <-k.queue:
	case k.err = <-k.failed:
	case <-k.ended:
		select {
		case k.err = <-k.failed:
		default:
			k.err = io.EOF
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Records yields the records of Next until all are read or ctx ends, which is not an error. An
// error is the last element.
func (k *Consumer) Records(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for {
			m, err := k.Next(ctx)
			if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
				return
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// Done finishes the last record that Next returned.
func (k *Consumer) Done() {
	if k.current != nil && k.current.next > 0 {
		k.finish(k.current.partition, k.current.next)
	}
}

func (k *Consumer) finish(partition int32, next int64) {
	k.mu.Lock()
	k.finished[partition] = next
	k.mu.Unlock()
}

// Positions returns the finished positions for CommitPositions. Take them before a step that must
// precede the commit, such as flushing a buffer.
func (k *Consumer) Positions() Positions {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.finished)
}

// Commit commits all finished records and returns when that is durable.
func (k *Consumer) Commit(ctx context.Context) error { return k.CommitPositions(ctx, k.Positions()) }

// CommitPositions commits earlier Positions. It skips offsets that are already committed.
func (k *Consumer) CommitPositions(ctx context.Context, m Positions) error {
	k.committer.Lock()
	defer k.committer.Unlock()
	var list []OffsetCommit
	for p, offset := range m {
		if at, ok := k.committed[p]; !ok || at < offset {
			list = append(list, OffsetCommit{Topic: k.topic, Partition: p, Offset: offset})
		}
	}
	if err := k.c.CommitOffsets(ctx, k.group, list...); err != nil {
		return err
	}
	for _, o := range list {
		k.committed[o.Partition] = o.Offset
	}
	return nil
}

// Close ends the consumer and commits the finished records, unless CommitEvery is negative. Next
// must not be running, and must not be called again. Close may be called twice.
func (k *Consumer) Close(ctx context.Context) error {
	k.stop()
	if k.current != nil {
		k.current.done <- nil
		k.current = nil
	}
	k.wg.Wait()
	if k.o.CommitEvery < 0 {
		return nil
	}
	return k.Commit(ctx)
}
