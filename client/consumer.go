package client

import (
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

// ConsumerOptions say what a Consumer reads. The zero value reads all partitions to their end and commits every second.
type ConsumerOptions struct {
	Partitions []int32 // nil: all, with Follow also those that are added later
	// Start is where to begin in a partition in which the group has committed nothing: Earliest, which 0 means too, or
	// Latest. A Latest is committed at once.
	Start int64
	// Follow waits for new records at the end. Without it the consumer ends at what were the partitions' ends when it
	// began to read each.
	Follow bool
	// CommitEvery is how often what is finished is committed: 0 means every second, negative only by Commit and Close.
	CommitEvery time.Duration
	// MaxBytes is how much is asked for at once of each partition, and kept in memory; 0 means 1 MiB.
	MaxBytes int
}

const (
	commitEveryDefault   = time.Second
	consumerBytesDefault = 1 << 20
	// partitionsEvery is how often a consumer that follows looks for new partitions.
	partitionsEvery = 30 * time.Second
)

// Message is a record that a Consumer hands out. Like those of Records it is valid until the next one is taken.
type Message struct {
	*record.Record
	Partition int32
}

// Consumer reads a topic for a consumer group: each partition from where the group has got to, in order, the partitions
// side by side. Only finished records are committed, so whoever takes over the group after a crash at whatever moment
// gets every record that was not finished, and perhaps some again that were: at least once. A record is finished when
// the next one is taken, or by Done. Two consumers of one group and partition at a time would both get its records.
//
// Next and Done belong to one goroutine, as the records do; the other methods may be called from any.
type Consumer struct {
	c     *Client
	group string
	topic string
	o     ConsumerOptions

	stop       context.CancelFunc
	wg         sync.WaitGroup
	deliveries chan *delivery
	ended      chan struct{} // closed when all partitions are read to their end
	failed     chan error    // of one

	current *delivery // of Next's goroutine
	err     error

	mu        sync.Mutex // guards what follows
	finished  Marks
	committed Marks
	open      map[int32]bool // partitions being read
	committer sync.Mutex     // held while committing, so that commits do not overtake one another
}

// Marks are offsets by partition: that of the next record to be read in each.
type Marks map[int32]int64

// Consumer begins to read a topic for a group. ctx is for the beginning only; Close ends it. ErrUnknownTopic,
// ErrUnknownPartition.
func (c *Client) Consumer(ctx context.Context, group, topic string, o ConsumerOptions) (*Consumer, error) {
	if o.Start == 0 {
		o.Start = Earliest
	}
	if o.Start != Earliest && o.Start != Latest {
		return nil, &Error{NextOffset: -1, Start: -1, Committed: -1, Err: fmt.Errorf("start %d: want Earliest or Latest", o.Start)}
	}
	if o.CommitEvery == 0 {
		o.CommitEvery = commitEveryDefault
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = consumerBytesDefault
	}
	k := &Consumer{
		c: c, group: group, topic: topic, o: o, deliveries: make(chan *delivery), ended: make(chan struct{}), failed: make(chan error, 1),
		finished: Marks{}, committed: Marks{}, open: map[int32]bool{},
	}
	from, err := k.positions(ctx)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop = stop
	k.run(life, from)
	return k, nil
}

// run starts the readers of the partitions, and what goes on beside them.
func (k *Consumer) run(ctx context.Context, from Marks) {
	var readers sync.WaitGroup
	read := func(from Marks) {
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
				more, err := k.positions(ctx)
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

// every calls f again and again until ctx ends.
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

// fail keeps the first error, for Next.
func (k *Consumer) fail(err error) {
	if err == nil {
		return
	}
	select {
	case k.failed <- err:
	default:
	}
}

// positions says where the group is to go on in each partition.
func (k *Consumer) positions(ctx context.Context) (Marks, error) {
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
	// A group that has begun finds new partitions from their beginning: it misses nothing.
	latest := k.o.Start == Latest && len(from) == 0
	for p := range from {
		if _, ok := there[p]; !ok {
			delete(from, p)
		}
	}
	out := Marks{}
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
	// Otherwise a crash before the first commit would skip what came meanwhile.
	err = k.c.CommitOffsets(ctx, k.group, begin...)
	var e *Error
	if errors.Is(err, ErrOffsetMismatch) || errors.As(err, &e) && len(e.Offsets) > 0 {
		return k.positions(ctx) // another consumer of the group began at the same time, and its offsets are there now
	}
	return out, err
}

func (k *Consumer) committedOffsets(ctx context.Context) (Marks, error) {
	list, err := k.c.Offsets(ctx, k.group, k.topic)
	if err != nil {
		return nil, err
	}
	m := Marks{}
	for _, o := range list {
		m[o.Partition] = o.Offset
	}
	return m, nil
}

// Next takes the next record, of whatever partition has one; with that the one before is finished. It waits until there
// is one, or returns ctx's error, after which it may be called again; io.EOF at the end of all partitions, without Follow;
// or what ended the consumer: ErrBelowStart if records that the group has not read are gone (a commit of another offset
// puts that right), or that its offsets could not be committed.
func (k *Consumer) Next(ctx context.Context) (Message, error) {
	k.Done()
	for k.err == nil {
		if k.current != nil {
			r, err := k.current.take()
			if r != nil {
				return Message{Record: r, Partition: k.current.partition}, nil
			}
			k.exhausted()
			k.current.done <- err
			k.current = nil
		}
		if err := k.wait(ctx); err != nil {
			return Message{}, err
		}
	}
	return Message{}, k.err
}

// wait waits for the next delivery. An error is ctx's; others end the consumer.
func (k *Consumer) wait(ctx context.Context) error {
	select {
	case k.err = <-k.failed:
		return nil
	default:
	}
	select {
	case k.current = <-k.deliveries:
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

// Records gives what Next gives, until ctx ends, which is no error, or all is read, or the last element is an error.
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

// Done finishes the record that Next returned last.
func (k *Consumer) Done() {
	if k.current != nil && k.current.next > 0 {
		k.finish(k.current.partition, k.current.next)
	}
}

// exhausted finishes the offsets at the end of an answer that have no record any more.
func (k *Consumer) exhausted() {
	if next := k.current.f.Next(); next > k.current.from {
		k.finish(k.current.partition, next)
	}
}

func (k *Consumer) finish(partition int32, next int64) {
	k.mu.Lock()
	k.finished[partition] = next
	k.mu.Unlock()
}

// Marks returns what is finished, for CommitMarks: whoever must do something else first, such as flush a buffer, takes
// them before that.
func (k *Consumer) Marks() Marks {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.finished)
}

// Commit stores how far the group has got: all that is finished. It returns when that is durable.
func (k *Consumer) Commit(ctx context.Context) error { return k.CommitMarks(ctx, k.Marks()) }

// CommitMarks stores earlier Marks. What is committed already is left out.
func (k *Consumer) CommitMarks(ctx context.Context, m Marks) error {
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

// Close ends the consumer and commits what is finished, unless CommitEvery is negative. Next must not be under way, nor
// be called again. It may be called twice.
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
