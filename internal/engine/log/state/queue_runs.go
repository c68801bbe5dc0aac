package state

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
)

// QueueState is what a queue knows of a message. A message in no run of it is untouched: it was never
// given to a worker, and has no delay.
type QueueState uint8

// The states. A message that waits or is leased is ready from QueueRun.Until on.
const (
	QueueDone    QueueState = 1
	QueueWaiting QueueState = 2 // delayed, or for a retry
	QueueLeased  QueueState = 3
	// QueueUncommitted is a message of an open transaction: no worker gets it.
	QueueUncommitted QueueState = 4
)

// QueueRun is the state of consecutive messages.
type QueueRun struct {
	Base       int64 // first offset
	Span       int64
	State      QueueState
	Until      int64  // µs; 0 if done, math.MaxInt64 if uncommitted
	Deliveries uint32 // leases so far
	Epoch      uint32 // leased: the epoch of the lease, which an extended one keeps
	Producer   int64  // uncommitted: of the transaction
}

// End is the offset after the run.
func (r *QueueRun) End() int64 { return r.Base + r.Span }

// part returns the part of the run in [from, to).
func (r *QueueRun) part(from, to int64) QueueRun {
	p := *r
	p.Base = max(r.Base, from)
	p.Span = min(r.End(), to) - p.Base
	return p
}

// Follows reports whether the run continues another one, with the same state.
func (r *QueueRun) Follows(q *QueueRun) bool {
	return r.Base == q.End() && r.State == q.State && r.Until == q.Until && r.Deliveries == q.Deliveries && r.Epoch == q.Epoch && r.Producer == q.Producer
}

// queueRunRow lists the numbers of a run, as differences to the run before it.
func queueRunRow(prev, r *QueueRun, c *protobuf.Codec) {
	if prev == nil {
		prev = &QueueRun{}
	}
	protobuf.Delta(c, &r.Base, prev.End())
	protobuf.Varint(c, &r.Span)
	switch protobuf.Varint(c, &r.State); r.State {
	case QueueUncommitted:
		protobuf.Delta(c, &r.Producer, prev.Producer)
		r.Until = math.MaxInt64
	case QueueWaiting, QueueLeased:
		until := prev.Until
		if prev.State == QueueUncommitted {
			until = 0
		}
		protobuf.Delta(c, &r.Until, until)
		protobuf.Varint(c, &r.Deliveries)
	}
	if r.State == QueueLeased {
		protobuf.Delta(c, &r.Epoch, prev.Epoch)
	}
	if !c.Decoding() {
		return
	}
	if r.State < QueueDone || r.State > QueueUncommitted || r.Base < prev.End() || r.Span <= 0 || r.Span > math.MaxInt64-r.Base || r.Until < 0 {
		c.Fail(fmt.Errorf("queue at offset %d: %w", r.Base, errWire))
	}
}

// QueueRuns are runs by offset, packed: a delayed message takes about ten bytes. Views share chunks,
// which are never changed. The zero value is empty.
type QueueRuns struct {
	chunks []queueChunk // none is empty
	n      int
	bytes  int
}

// queueChunk is a packed part of the runs. Long chunks take less memory, short ones are changed faster.
type queueChunk struct {
	base, end int64
	first     int64 // smallest Until of runs that are not done; math.MaxInt64: all are done or uncommitted
	spans     QueueTally
	n         int
	rows      []byte
}

const (
	queueChunkRuns   = 128
	queueChunkMemory = 96 // besides its rows
)

// Len is the number of runs.
func (q *QueueRuns) Len() int { return q.n }

// Memory is the size of the runs in bytes.
func (q *QueueRuns) Memory() int { return q.bytes }

// packRows encodes runs, and unpack decodes them.
func packRows(runs []QueueRun) []byte {
	c := protobuf.Encoder(make([]byte, 0, 16*len(runs)))
	var prev *QueueRun
	for i := range runs {
		queueRunRow(prev, &runs[i], c)
		prev = &runs[i]
	}
	b, _ := c.Result()
	return slices.Clone(b) // without the rest of the buffer
}

func (k *queueChunk) unpack(dst []QueueRun) []QueueRun {
	c := protobuf.Decoder(k.rows)
	var prev *QueueRun
	for range k.n {
		dst = append(dst, QueueRun{})
		r := &dst[len(dst)-1]
		queueRunRow(prev, r, c)
		prev = r
	}
	if _, err := c.Result(); err != nil {
		panic(fmt.Sprintf("state: runs of a queue: %v", err)) // packRows made them
	}
	return dst
}

// chunksOf packs runs into chunks of about equal length.
func chunksOf(runs []QueueRun) (list []queueChunk) {
	for n := (len(runs) + queueChunkRuns - 1) / queueChunkRuns; n > 0; n-- {
		some := runs[:(len(runs)+n-1)/n]
		runs = runs[len(some):]
		k := queueChunk{base: some[0].Base, end: some[len(some)-1].End(), first: math.MaxInt64, n: len(some), rows: packRows(some)}
		for i := range some {
			k.spans.add(&some[i])
			if some[i].State != QueueDone {
				k.first = min(k.first, some[i].Until)
			}
		}
		list = append(list, k)
	}
	return list
}

// from returns the index of the first chunk that ends after an offset.
func (q *QueueRuns) from(offset int64) int {
	i, _ := slices.BinarySearchFunc(q.chunks, offset, func(k queueChunk, offset int64) int {
		if k.end <= offset {
			return -1
		}
		return 1
	})
	return i
}

// All yields the runs that end after an offset, in order.
func (q *QueueRuns) All(offset int64) iter.Seq[QueueRun] { return q.due(offset, math.MaxInt64) }

// Due yields the runs that are not done and ready at a time, in order.
func (q *QueueRuns) Due(until int64) iter.Seq[QueueRun] {
	return func(yield func(QueueRun) bool) {
		for r := range q.due(0, until) {
			if r.State != QueueDone && r.Until <= until && !yield(r) {
				return
			}
		}
	}
}

// due yields the runs after an offset of the chunks in which a run may be ready at a time.
func (q *QueueRuns) due(offset, until int64) iter.Seq[QueueRun] {
	return func(yield func(QueueRun) bool) {
		var runs []QueueRun
		for i := q.from(offset); i < len(q.chunks); i++ {
			if k := &q.chunks[i]; k.first <= until {
				runs = k.unpack(runs[:0])
				for _, r := range runs {
					if r.End() > offset && !yield(r) {
						return
					}
				}
			}
		}
	}
}

// NextUntil returns the earliest time after a time at which a run becomes ready; math.MaxInt64: none
// does. Chunks with runs that are ready already are unpacked.
func (q *QueueRuns) NextUntil(after int64) int64 {
	next := int64(math.MaxInt64)
	var runs []QueueRun
	for i := range q.chunks {
		switch k := &q.chunks[i]; {
		case k.first > after:
			next = min(next, k.first)
		default:
			runs = k.unpack(runs[:0])
			for _, r := range runs {
				if r.State != QueueDone && r.Until > after {
					next = min(next, r.Until)
				}
			}
		}
	}
	return next
}

// At returns the run of an offset; State 0: the message is untouched, or all up to it is done.
func (q *QueueRuns) At(offset int64) (r QueueRun) {
	for r := range q.All(offset) {
		if r.Base <= offset {
			return r
		}
		break
	}
	return QueueRun{}
}

// set changes the states of messages. changes are in order and do not overlap. q.chunks must not be
// shared with a view.
func (q *QueueRuns) set(changes []QueueRun) {
	for len(changes) > 0 {
		// The changes that touch a chunk, or chunks next to each other, are made at once.
		lo := max(0, q.from(changes[0].Base)-1) // also the chunk before: the run may continue its last one
		n, hi := 0, lo
		for n < len(changes) {
			first := max(0, q.from(changes[n].Base)-1)
			if n > 0 && first > hi {
				break
			}
			hi = max(hi, min(len(q.chunks), q.from(changes[n].End())+1))
			n++
		}
		var old []QueueRun
		for i := lo; i < hi; i++ {
			q.count(&q.chunks[i], -1)
			old = q.chunks[i].unpack(old)
		}
		chunks := chunksOf(merged(old, changes[:n]))
		for i := range chunks {
			q.count(&chunks[i], 1)
		}
		q.chunks = slices.Replace(q.chunks, lo, hi, chunks...)
		changes = changes[n:]
	}
}

// end makes the uncommitted messages of a producer from an offset on done if abort is set, and else untouched. It is made
// chunk by chunk, because a transaction may have more runs than there is memory for unpacked ones. q.chunks must not be
// shared with a view.
func (q *QueueRuns) end(producer, offset int64, abort bool) {
	first := max(0, q.from(offset)-1) // also the chunk before: a run may continue its last one
	old := q.chunks[first:]
	q.chunks = q.chunks[:first:first]
	var runs, out []QueueRun
	for i := range old {
		// A chunk may change if it has uncommitted messages. Another one stays if those next to it do not change.
		near := old[max(0, i-1):min(len(old), i+2)]
		if !slices.ContainsFunc(near, func(k queueChunk) bool { return k.spans.Uncommitted > 0 }) {
			q.add(chunksOf(out))
			q.chunks, out = append(q.chunks, old[i]), out[:0]
			continue
		}
		q.count(&old[i], -1)
		runs = old[i].unpack(runs[:0])
		for _, r := range runs {
			switch held := r.State == QueueUncommitted && r.Producer == producer; {
			case held && abort:
				r = QueueRun{Base: r.Base, Span: r.Span, State: QueueDone}
			case held:
				continue
			}
			out = appendRun(out, r)
		}
		if n := len(out) - 1; n >= queueChunkRuns { // the last run may be continued
			q.add(chunksOf(out[:n]))
			out = append(out[:0], out[n])
		}
	}
	q.add(chunksOf(out))
}

// add appends chunks.
func (q *QueueRuns) add(chunks []queueChunk) {
	for i := range chunks {
		q.count(&chunks[i], 1)
	}
	q.chunks = append(q.chunks, chunks...)
}

// appendRun appends a run to a list, or to the last run of the list if it continues that.
func appendRun(list []QueueRun, r QueueRun) []QueueRun {
	if n := len(list); n > 0 && r.Follows(&list[n-1]) {
		list[n-1].Span += r.Span
		return list
	}
	return append(list, r)
}

// merged returns old runs with changes.
func merged(old, changes []QueueRun) (list []QueueRun) {
	list = make([]QueueRun, 0, len(old)+2*len(changes))
	add := func(r QueueRun) { list = appendRun(list, r) }
	for i := range changes {
		c := &changes[i]
		for len(old) > 0 && old[0].Base < c.Base {
			add(old[0].part(0, c.Base))
			if old[0].End() > c.Base {
				old[0] = old[0].part(c.Base, math.MaxInt64)
				break
			}
			old = old[1:]
		}
		for len(old) > 0 && old[0].End() <= c.End() {
			old = old[1:]
		}
		if len(old) > 0 && old[0].Base < c.End() {
			old[0] = old[0].part(c.End(), math.MaxInt64)
		}
		add(*c)
	}
	for i := range old {
		add(old[i])
	}
	return list
}

// count adds a chunk to the sums (sign 1) or subtracts it (sign -1).
func (q *QueueRuns) count(k *queueChunk, sign int) {
	q.n += sign * k.n
	q.bytes += sign * (len(k.rows) + queueChunkMemory)
}

// cut drops the runs below an offset, and those at it that are done. It returns the offset below which
// all is done.
func (q *QueueRuns) cut(offset int64) int64 {
	for len(q.chunks) > 0 {
		k := &q.chunks[0]
		if k.base > offset {
			break
		}
		runs := k.unpack(nil)
		kept := runs
		for len(kept) > 0 && kept[0].Base <= offset && (kept[0].End() <= offset || kept[0].State == QueueDone) {
			offset = max(offset, kept[0].End())
			kept = kept[1:]
		}
		if len(kept) > 0 && kept[0].Base < offset {
			kept[0] = kept[0].part(offset, math.MaxInt64)
		} else if len(kept) == len(runs) {
			break
		}
		q.count(k, -1)
		if len(kept) > 0 {
			q.chunks[0] = chunksOf(kept)[0]
			q.count(&q.chunks[0], 1)
			break
		}
		q.chunks = q.chunks[1:]
	}
	return offset
}

// list returns all runs.
func (q *QueueRuns) list() (runs []QueueRun) {
	for i := range q.chunks {
		runs = q.chunks[i].unpack(runs)
	}
	return runs
}
