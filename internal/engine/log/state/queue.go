package state

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/record"
)

// Bounds on what a queue remembers.
const (
	// QueueTriesMax bounds the tries of a message that are remembered, QueueTriesAll those of a partition.
	QueueTriesMax = 8
	QueueTriesAll = 4096
	queueMarksMax = 32
)

// QueueChange is the content of a QueueUpdate record: what happens to messages of one partition.
type QueueChange struct {
	Runs []QueueRun // new states, by offset
	// Tries are those of messages in Runs that failed. Their time is that of the slot.
	Tries []QueueTry
	// Sent, if not nil, is remembered.
	Sent *QueueSent
	// Schedule, if not nil, replaces the one of its name.
	Schedule *QueueSchedule
}

// Place adds an offset to those of the change.
func (q *QueueChange) Place(base int64) {
	for i := range q.Runs {
		q.Runs[i].Base += base
	}
	if q.Sent != nil {
		q.Sent.Offset += base
	}
}

// QueueTry is a failed try of a message.
type QueueTry struct {
	Offset int64
	Time   int64  // µs
	By     string // principal of the worker
	Reason string
}

// QueueSent is the identity of a message, which is not sent again before a time.
type QueueSent struct {
	Hash   record.ID
	Offset int64
	Until  int64 // µs
}

// QueueSchedule sends a message at times. Without a Spec it is deleted.
type QueueSchedule struct {
	Name string
	Spec string // of package queue
	Next int64  // µs
}

// Queue is the state of the messages of a partition. Read-only outside this package.
type Queue struct {
	Done      int64 // all messages below are done
	Runs      QueueRuns
	Marks     []Mark      // offsets that Done reached, with the time, ascending
	Tries     []QueueTry  // by offset, then time
	Sent      []QueueSent // in the order of the log
	Schedules []QueueSchedule
	gen       uint64
}

// noQueue is the state of a partition without a change.
var noQueue = &Queue{}

// QueueOf returns the state of a queue's messages in a partition.
func (p *Partition) QueueOf() *Queue {
	if p.queue == nil {
		return noQueue
	}
	return p.queue
}

// Of returns what is known of a message. The messages below Done are done.
func (q *Queue) Of(offset int64) QueueRun {
	if offset < q.Done {
		return QueueRun{Base: offset, Span: 1, State: QueueDone}
	}
	return q.Runs.At(offset)
}

// Snapshot returns a copy that stays as it is. It shares packed runs, so it takes about a byte for each.
func (q *Queue) Snapshot() *Queue {
	n := *q
	n.Runs.chunks = slices.Clone(q.Runs.chunks)
	n.Marks, n.Tries, n.Schedules = slices.Clone(q.Marks), slices.Clone(q.Tries), slices.Clone(q.Schedules)
	n.Sent = slices.Clip(q.Sent) // only appended to, and cut
	return &n
}

// Left yields the messages in [from, to) that are committed and not done, in order: those with one state at a time,
// State 0 if they are untouched.
func (q *Queue) Left(from, to int64) iter.Seq[QueueRun] {
	return func(yield func(QueueRun) bool) {
		at := max(from, q.Done)
		for r := range q.Runs.All(at) {
			if r.Base >= to {
				break
			}
			if at < r.Base && !yield(QueueRun{Base: at, Span: r.Base - at}) {
				return
			}
			if r.State != QueueDone && r.State != QueueUncommitted && !yield(r.part(max(at, r.Base), to)) {
				return
			}
			at = r.End()
		}
		if at < to {
			yield(QueueRun{Base: at, Span: to - at})
		}
	}
}

// TriesOf returns the tries of a message.
func (q *Queue) TriesOf(offset int64) []QueueTry {
	return q.Tries[q.tryFrom(offset):q.tryFrom(offset+1)]
}

// SentAt returns what is remembered of the message with an offset, or nil.
func (q *Queue) SentAt(offset int64) *QueueSent {
	i, found := slices.BinarySearchFunc(q.Sent, offset, func(s QueueSent, offset int64) int { return cmp.Compare(s.Offset, offset) })
	if !found {
		return nil
	}
	return &q.Sent[i]
}

// DoneAt returns the offset below which all messages were done at a time, as far as it is known.
func (q *Queue) DoneAt(time int64) (offset int64) {
	for i := range q.Marks {
		if q.Marks[i].Time <= time {
			offset = q.Marks[i].Offset
		}
	}
	return offset
}

// memory is the size of the state in bytes.
func (q *Queue) memory() int {
	n := queueMemory + q.Runs.Memory() + len(q.Sent)*queueSentMemory
	for i := range q.Tries {
		n += queueTryMemory + len(q.Tries[i].By) + len(q.Tries[i].Reason)
	}
	for i := range q.Schedules {
		n += queueTryMemory + len(q.Schedules[i].Name) + len(q.Schedules[i].Spec)
	}
	return n
}

// updateQueue applies a QueueUpdate record.
func (s *State) updateQueue(r *Record) {
	p := s.partitionForWrite(s.topicForWrite(r.Topic), r.Partition)
	if s.noRange {
		return
	}
	q := p.queueForWrite(s.gen)
	q.apply(r.Queue, s.slotTime)
	q.trimmed(p.Start, s.slotTime)
	s.countQueue(p)
}

// queueForWrite returns a queue that no view shares.
func (p *Partition) queueForWrite(gen uint64) *Queue {
	if p.queue != nil && p.queue.gen == gen {
		return p.queue
	}
	p.queue = p.QueueOf().Snapshot()
	p.queue.gen = gen
	return p.queue
}

func (q *Queue) apply(c *QueueChange, time int64) {
	runs := make([]QueueRun, 0, len(c.Runs))
	for _, r := range c.Runs {
		if r = r.part(q.Done, r.End()); r.Span <= 0 { // done meanwhile, by a trim
			continue
		}
		if r.State == QueueDone {
			q.dropTries(r.Base, r.End())
		}
		runs = append(runs, r)
	}
	q.Runs.set(runs)
	for _, t := range c.Tries {
		t.Time = time
		q.addTry(t)
	}
	for len(q.Sent) > 0 && q.Sent[0].Until <= time {
		q.Sent = q.Sent[1:]
	}
	if c.Sent != nil {
		q.Sent = append(q.Sent, *c.Sent)
	}
	if c.Schedule != nil {
		q.setSchedule(*c.Schedule)
	}
}

// trimmed applies a new start of the partition, and raises Done.
func (q *Queue) trimmed(start, time int64) {
	done := q.Runs.cut(max(q.Done, start))
	if done == q.Done {
		return
	}
	q.Done = done
	q.dropTries(0, done)
	if n := len(q.Marks); n > 0 && time-q.Marks[n-1].Time < q.markEvery(time) {
		return
	}
	if len(q.Marks) == queueMarksMax { // keep every second one
		kept := q.Marks[:0]
		for i := 1; i < queueMarksMax; i += 2 {
			kept = append(kept, q.Marks[i])
		}
		q.Marks = kept
	}
	q.Marks = append(q.Marks, Mark{Offset: done, Time: time})
}

// markEvery is the time between marks: it grows with the time that they cover, from a second on.
func (q *Queue) markEvery(time int64) int64 {
	return max(1e6, (time-q.Marks[0].Time)/queueMarksMax)
}

func (q *Queue) dropTries(from, to int64) {
	q.Tries = slices.Delete(q.Tries, q.tryFrom(from), q.tryFrom(to))
}

// tryFrom returns the index of the first try of an offset or a later one.
func (q *Queue) tryFrom(offset int64) int {
	i, _ := slices.BinarySearchFunc(q.Tries, offset, func(t QueueTry, offset int64) int { return cmp.Compare(t.Offset, offset) })
	return i
}

// addTry remembers a try, instead of an older one of the message if there are too many of it.
func (q *Queue) addTry(t QueueTry) {
	from, to := q.tryFrom(t.Offset), q.tryFrom(t.Offset+1)
	switch {
	case to-from >= QueueTriesMax:
		q.Tries = slices.Delete(q.Tries, from, from+1)
		to--
	case len(q.Tries) >= QueueTriesAll:
		return
	}
	q.Tries = slices.Insert(q.Tries, to, t)
}

func (q *Queue) setSchedule(n QueueSchedule) {
	i, found := slices.BinarySearchFunc(q.Schedules, n, func(a, b QueueSchedule) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case found && n.Spec == "":
		q.Schedules = slices.Delete(q.Schedules, i, i+1)
	case found:
		q.Schedules[i] = n
	case n.Spec != "":
		q.Schedules = slices.Insert(q.Schedules, i, n)
	}
}

// resetTime ends leases, retries and dedup IDs of a wrong clock as long after a TimeReset as they would have
// ended after the last slot. A delay ends at the time that it has.
func (q *Queue) resetTime(from, to int64) {
	var runs []QueueRun
	for r := range q.Runs.All(0) {
		if r.Until > to && r.Deliveries > 0 {
			r.Until = to + max(0, r.Until-from)
			runs = append(runs, r)
		}
	}
	q.Runs.set(runs)
	q.Sent = slices.Clone(q.Sent) // views share it
	for i := range q.Sent {
		if x := &q.Sent[i]; x.Until > to {
			x.Until = to + max(0, x.Until-from)
		}
	}
	for i := range q.Marks {
		q.Marks[i].Time = min(q.Marks[i].Time, to)
	}
}

// resetQueues applies a TimeReset to all queues.
func (s *State) resetQueues(to int64) {
	if s.noRange {
		return
	}
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			if p.queue != nil {
				p = s.partitionForWrite(s.topicForWrite(t.ID), uint32(i))
				p.queueForWrite(s.gen).resetTime(s.AppendTime, to)
				s.countQueue(p)
			}
		}
	}
}

// queueLost makes the messages of a queue done that no object holds any more.
func (s *State) queueLost(t *Topic, p *Partition, from int64) {
	if s.noRange || s.Level < LevelQueues || !t.IsQueue() {
		return
	}
	q := p.queueForWrite(s.gen)
	q.apply(&QueueChange{Runs: []QueueRun{{Base: from, Span: p.Next - from, State: QueueDone}}}, s.AppendTime)
	q.trimmed(p.Start, s.AppendTime)
	s.countQueue(p)
}

// sentIn holds the messages of a batch back until its transaction ends.
func (s *State) sentIn(p *Partition, producer, base int64, span uint32) {
	p.queueForWrite(s.gen).put(QueueRun{Base: base, Span: int64(span), State: QueueUncommitted, Until: math.MaxInt64, Producer: producer})
	s.countQueue(p)
}

// endSent ends a transaction in a queue: its messages from an offset on may be given to workers, or they are done.
// marker is the offset of its marker; negative: there is none.
func (s *State) endSent(p *Partition, producer, from, marker int64, abort bool) {
	q := p.queueForWrite(s.gen)
	if q.Runs.end(producer, from, abort); marker >= 0 {
		q.put(QueueRun{Base: marker, Span: 1, State: QueueDone})
	}
	q.trimmed(p.Start, s.slotTime)
	s.countQueue(p)
}

// put sets the state of messages of a transaction. In a forged log they may be anywhere.
func (q *Queue) put(r QueueRun) {
	if r = r.part(q.Done, r.End()); r.Span > 0 && r.End() > r.Base {
		q.Runs.set([]QueueRun{r})
	}
}

// countQueue counts the memory of a partition's queue after a change.
func (s *State) countQueue(p *Partition) {
	s.tally.queues -= p.queueMemory
	p.queueMemory = p.queue.memory()
	s.tally.queues += p.queueMemory
}

func (q *QueueChange) fields(c *protobuf.Codec) {
	protobuf.Rows(c, 1, "runs", &q.Runs, queueRunRow)
	if c.Decoding() && slices.ContainsFunc(q.Runs, func(r QueueRun) bool { return r.State == QueueUncommitted }) {
		c.Fail(fmt.Errorf("a queue update of a transaction: %w", errWire))
	}
	protobuf.Messages(c, 2, "tries", &q.Tries, (*QueueTry).fields)
	protobuf.Optional(c, 3, "sent", &q.Sent, (*QueueSent).fields)
	protobuf.Optional(c, 4, "schedule", &q.Schedule, (*QueueSchedule).fields)
}

func (t *QueueTry) fields(c *protobuf.Codec) {
	protobuf.Int(c, 1, "offset", &t.Offset)
	protobuf.Int(c, 2, "time", &t.Time)
	c.String(3, "by", &t.By)
	c.String(4, "reason", &t.Reason)
}

func (t *QueueSent) fields(c *protobuf.Codec) {
	c.Fixed(1, "hash", t.Hash[:])
	protobuf.Int(c, 2, "offset", &t.Offset)
	protobuf.Int(c, 3, "until", &t.Until)
}

func (t *QueueSchedule) fields(c *protobuf.Codec) {
	c.String(1, "name", &t.Name)
	c.String(2, "spec", &t.Spec)
	protobuf.Int(c, 3, "next", &t.Next)
}

// fields lists the fields of a partition's queue in a snapshot.
func (q *Queue) fields(c *protobuf.Codec) {
	protobuf.Int(c, 1, "done", &q.Done)
	var runs []QueueRun
	if !c.Decoding() {
		runs = q.Runs.list()
	}
	if protobuf.Rows(c, 2, "runs", &runs, queueRunRow); c.Decoding() {
		q.Runs.set(runs)
	}
	protobuf.Rows(c, 3, "marks", &q.Marks, markRow)
	protobuf.Messages(c, 4, "tries", &q.Tries, (*QueueTry).fields)
	protobuf.Messages(c, 5, "sent", &q.Sent, (*QueueSent).fields)
	if protobuf.Messages(c, 6, "schedules", &q.Schedules, (*QueueSchedule).fields); c.Done() {
		if len(q.Marks) > queueMarksMax || len(q.Tries) > QueueTriesAll || q.Runs.n > 0 && q.Runs.chunks[0].base < q.Done {
			c.Fail(fmt.Errorf("queue with %d marks, %d tries, done up to %d: %w", len(q.Marks), len(q.Tries), q.Done, errWire))
		}
	}
}
