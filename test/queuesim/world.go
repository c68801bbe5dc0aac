// Package queuesim simulates queues: workers, clocks and leaders that end at any moment, with the core of
// package queue and the fold of its records in package state. It checks that each message is done by the
// word of a worker or is one dead letter, that an answered settlement stays, that leases exclude each other,
// and that the messages of a key keep their order.
package queuesim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

// world is a queue, its workers and its log, with leaders that end at any moment. Slots of the log are in
// flight until they are committed, in order; a takeover commits some of them, and the others are lost.
type world struct {
	seed uint64
	r    *rand.Rand
	set  state.QueueSettings

	log   *state.State // committed
	now   int64
	epoch uint32
	core  *queue.Core
	next  []int64 // end of each partition, with what is in flight
	slots []*slot

	messages [][]*told // by partition
	open     [transactions]transaction
	given    []worker
	dead     map[queue.ID]int // committed copies
	burying  []bool
	lost     int // leases that a takeover may have lost
	seeks    []seek
}

// seek is keys that are being read.
type seek struct {
	partition uint32
	keys      []queue.Key
}

var errRefused = errors.New("refused")

// told is what the test knows of a message.
type told struct {
	key      uint64
	finished bool  // a worker has said that it is done
	stored   bool  // and was answered
	over     bool  // it was cancelled, or purged
	until    int64 // no other worker has it before
	leases   int
	back     uint32 // its leases up to this one were given back
	in       int    // the transactional ID + 1, until its transaction ends; 0: none
	number   int    // of the transaction
}

type worker struct {
	queue.Given
	r queue.Receipt
}

// slot is in flight.
type slot struct {
	records []state.Record
	index   []record.IndexEntry
	then    func(committed bool) // for the leader, while it leads
	always  func()               // at the commit
}

const topicByte = 7

var isQueue = map[string]string{state.QueueSetting: "{}"}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, r: rand.New(rand.NewPCG(seed, 2)), now: 1_000_000, dead: map[queue.ID]int{}}
	_, set, err := state.CheckQueueSettings(map[string]string{"dead-letter": "d", "visibility": "30s", "max-deliveries": fmt.Sprint(2 + w.r.IntN(4)), "backoff": "1s,5s"})
	if err != nil {
		panic(err) // constants
	}
	w.set = set
	switch w.r.IntN(4) {
	case 0:
		w.set.KeyMode = state.KeyOrder
	case 1:
		w.set.KeyMode = state.KeyFair
	case 2:
		w.set.KeyLimit = 1 + w.r.IntN(3)
	}
	if w.r.IntN(4) == 0 {
		w.set.KeyRate = 2
	}
	partitions := 1 + w.r.IntN(3)
	w.messages, w.next, w.burying = make([][]*told, partitions), make([]int64, partitions), make([]bool, partitions)
	w.log = state.Genesis(record.ID{1}, 0)
	w.seal()
	w.slot(&slot{records: []state.Record{
		state.RaiseTo(state.LevelTransactions),
		{Kind: state.TopicCreate, Topic: record.ID{topicByte}, Name: "q", Partitions: uint32(partitions), Settings: isQueue},
	}})
	w.commit()
	w.begin()
	w.lead()
	return w
}

// violation is the panic of fail.
type violation struct{ error }

// fail ends the run: an invariant is broken.
func (w *world) fail(format string, args ...any) {
	panic(violation{fmt.Errorf("seed %d, epoch %d, at %d: %w", w.seed, w.epoch, w.now, fmt.Errorf(format, args...))})
}

func (w *world) seal() {
	s := w.log
	w.epoch++
	h := record.Head{Kind: record.KindSeal, Cluster: s.Cluster, Epoch: s.Pos.Epoch, Slot: s.Pos.Slot, Nonce: s.Nonce, PrevCRC: s.PrevCRC, NextEpoch: w.epoch, NextNonce: record.ID{9, byte(w.epoch)}}
	if err := s.Apply(&h, nil, nil); err != nil {
		w.fail("%v", err)
	}
}

// slot puts a slot in flight.
func (w *world) slot(s *slot) {
	for i := range s.records { // as the log stores them
		list, err := state.DecodeRecords(state.EncodeRecords(nil, s.records[i:i+1]))
		if err != nil {
			w.fail("record %+v: %v", s.records[i], err)
		}
		s.records[i] = list[0]
	}
	w.slots = append(w.slots, s)
}

// commit commits the oldest slot in flight.
func (w *world) commit() {
	s := w.slots[0]
	w.slots = w.slots[1:]
	w.apply(s)
	if s.then != nil {
		s.then(true)
	}
	for p := range w.messages {
		if w.core != nil {
			w.reach(p)
		}
	}
}

func (w *world) apply(s *slot) {
	l := w.log
	w.now = max(w.now, l.AppendTime+1)
	h := record.Head{Kind: record.KindData, Cluster: l.Cluster, Epoch: l.Pos.Epoch, Slot: l.Pos.Slot, Nonce: l.Nonce, PrevCRC: l.PrevCRC, Time: w.now}
	if err := l.Apply(&h, s.records, s.index); err != nil {
		w.fail("%v", err)
	}
	for i := range s.records {
		if r := &s.records[i]; r.Queue != nil {
			w.note(r)
		}
	}
	if s.always != nil {
		s.always()
	}
}

// note notes what a committed record says.
func (w *world) note(r *state.Record) {
	for _, run := range r.Queue.Runs {
		for at := run.Base; at < run.End() && at < int64(len(w.messages[r.Partition])); at++ {
			if m := w.messages[r.Partition][at]; run.State == state.QueueLeased && run.Deliveries <= m.back {
				m.until = 0
			} else {
				m.until = run.Until
			}
		}
	}
}

func (w *world) partition(p int) *state.Partition {
	return w.log.Topic(record.ID{topicByte}).Partitions.At(p)
}

// lead begins an epoch.
func (w *world) lead() {
	w.seeks = nil
	w.core = queue.NewCore(w.set, w.epoch, len(w.messages), w.r.Float64)
	if w.r.IntN(2) == 0 {
		w.core.Within(1)
	}
	for p := range w.messages {
		w.reach(p)
	}
}

// takeover ends the leader: some slots in flight are committed, without a word to anyone.
func (w *world) takeover() {
	for n := w.r.IntN(len(w.slots) + 1); n > 0; n-- {
		w.apply(w.slots[0])
		w.slots = w.slots[1:]
	}
	w.slots = nil
	for p := range w.next {
		w.next[p] = w.partition(p).Next
		w.messages[p] = w.messages[p][:w.next[p]]
	}
	w.given = slices.DeleteFunc(w.given, func(g worker) bool { return g.Offset >= w.next[g.Partition] })
	clear(w.burying)
	w.seal()
	if w.r.IntN(2) == 0 {
		s, err := state.DecodeMessage(state.EncodeMessage(w.log.View()))
		if err != nil {
			w.fail("snapshot: %v", err)
		}
		w.log = s
	}
	w.lost++
	w.reopened()
	w.lead()
}

// take takes the open changes and the leases that no record has, as records.
func (w *world) take() (records []state.Record, taken []*queue.Change) {
	for p := range w.messages {
		if q := w.core.Riders(uint32(p)); q != nil {
			records = append(records, w.update(p, q))
		}
		if ch := w.core.Open(uint32(p)); ch != nil {
			records = append(records, w.update(p, w.core.Take(ch)))
			taken = append(taken, ch)
		}
	}
	return records, taken
}

// freeze makes a slot of what take returns.
func (w *world) freeze(also ...state.Record) *slot {
	records, taken := w.take()
	s := &slot{records: append(records, also...)}
	c := w.core
	s.then = func(bool) {
		for _, ch := range taken {
			c.Done(ch, w.now, nil)
		}
	}
	w.slot(s)
	return s
}

// refuse lets the log refuse what take returns.
func (w *world) refuse() {
	_, taken := w.take()
	for _, ch := range taken {
		w.core.Done(ch, w.now, errRefused)
	}
}

// quiet lets everything that is on its way be stored.
func (w *world) quiet() {
	w.freeze()
	for len(w.slots) > 0 {
		w.commit()
	}
	var leases []state.Record
	for p := range w.messages {
		if q := w.core.Leases(uint32(p)); q != nil {
			leases = append(leases, w.update(p, q))
		}
	}
	w.freeze(leases...)
	for len(w.slots) > 0 {
		w.commit()
	}
}

// reopen lets other settings count, and sometimes ends all messages or adds a partition.
func (w *world) reopen() {
	w.quiet()
	set := w.set
	switch w.r.IntN(5) {
	case 0:
		if set.KeyMode != state.KeyOrder {
			set.KeyLimit = w.r.IntN(4)
		}
	case 1:
		set.KeyRate = float64(2 * w.r.IntN(2))
	case 2:
		set.Rate = float64(5 * w.r.IntN(2))
	case 3:
		for p := range w.messages {
			w.purge(p)
		}
		w.lead()
		return
	case 4:
		if len(w.messages) < 5 {
			w.slot(&slot{records: []state.Record{{Kind: state.TopicChange, Topic: record.ID{topicByte}, Partitions: uint32(len(w.messages) + 1), Settings: isQueue}}})
			w.messages, w.next, w.burying = append(w.messages, nil), append(w.next, 0), append(w.burying, false)
			w.core.Grow(len(w.messages))
			w.commit()
		}
		return
	}
	if w.set = set; !w.core.Configure(set) {
		clear(w.burying)
		w.lead()
	}
}

func (w *world) update(p int, q *state.QueueChange) state.Record {
	return state.Record{Kind: state.QueueUpdate, Topic: record.ID{topicByte}, Partition: uint32(p), Queue: q}
}

// send appends messages, some of them delayed or in a transaction.
func (w *world) send() {
	p := w.r.IntN(len(w.next))
	n := 1 + w.r.IntN(8)
	base := w.next[p]
	e := record.IndexEntry{Topic: record.ID{topicByte}, Partition: uint32(p), Base: base, Span: uint32(n), Records: uint32(n), Len: 10}
	var also []state.Record
	due := int64(math.MaxInt64)
	within := w.r.IntN(4) == 0
	if !within && w.set.KeyMode != state.KeyOrder && w.r.IntN(3) == 0 {
		run := state.QueueRun{Base: base, Span: int64(n), State: state.QueueWaiting, Until: w.now + w.r.Int64N(20_000_000)}
		also = append(also, w.update(p, &state.QueueChange{Runs: []state.QueueRun{run}}))
		due = run.Until
	}
	w.next[p] += int64(n)
	for range n {
		w.messages[p] = append(w.messages[p], &told{key: w.r.Uint64N(5)})
	}
	if within {
		also = append(also, w.sendIn(w.r.IntN(transactions), p, n, base))
	}
	s := w.freeze(also...)
	s.index = append(s.index, e)
	then, c := s.then, w.core
	s.then = func(ok bool) { then(ok); c.DueAgain(uint32(p), due) }
}

// look passes the committed state to the core, and later the keys that it asks for.
func (w *world) look() {
	for p := range w.messages {
		part, next := w.partition(p), w.reach(p)
		if !w.core.Wants(w.now, uint32(p)) {
			continue
		}
		var keys []queue.Key
		seeks := w.core.Look(w.now, uint32(p), part.QueueOf(), part.Start, next)
		for _, run := range seeks {
			for at := run.Base; at < run.End(); at++ {
				keys = append(keys, queue.Key{Offset: at, Hash: w.messages[p][at].key, Run: run})
			}
		}
		if len(seeks) > 0 {
			w.seeks = append(w.seeks, seek{uint32(p), keys})
		}
	}
}

// saw ends the reads of keys, some of which fail.
func (w *world) saw() {
	for _, s := range w.seeks {
		if n := w.r.IntN(len(s.keys) + 1); w.r.IntN(4) == 0 && n < len(s.keys) {
			w.core.Saw(w.now, s.partition, s.keys[:n], false)
		} else {
			w.core.Saw(w.now, s.partition, s.keys, true)
		}
	}
	w.seeks = nil
}

func (w *world) step() {
	switch n := w.r.IntN(100); {
	case n < 10:
		w.send()
	case n < 12:
		w.end(w.r.IntN(transactions))
	case n < 40:
		w.lease()
	case n < 65:
		w.settle()
	case n < 75:
		w.now += w.r.Int64N(4_000_000)
	case n < 77:
		w.now += 31_000_000
	case n < 95:
		if len(w.slots) > 0 {
			w.commit()
		}
	case n < 97:
		w.bury()
	case n < 98:
		w.cancel()
	case n < 99 && w.r.IntN(2) == 0:
		w.takeover()
	case n == 99 && w.r.IntN(4) == 0:
		w.reopen()
	case n == 99:
		w.refuse()
	}
}

// finish lets workers do all that is left, and checks that nothing is.
func (w *world) finish() {
	for id := range w.open {
		w.end(id)
	}
	for range 3000 {
		for len(w.slots) > 0 {
			w.commit()
		}
		left := 0
		for p := range w.messages {
			left += int(w.partition(p).Next - w.partition(p).QueueOf().Done)
		}
		if left == 0 {
			w.result()
			return
		}
		w.look()
		w.saw()
		w.lease()
		for len(w.slots) > 0 {
			w.commit()
		}
		for len(w.given) > 0 {
			w.settle()
		}
		w.bury()
		if next := w.core.Next(); next != math.MaxInt64 {
			w.now = max(w.now+1, min(next, w.now+40_000_000))
		}
		w.core.Tick(w.now)
	}
	w.fail("messages are left: %+v, next at %d", w.core.Counts(), w.core.Next())
}

// result checks that each message is done by the word of a worker, or dead, and not both without need.
func (w *world) result() {
	for p := range w.messages {
		for at := range w.messages[p] {
			m := w.messages[p][at]
			if n := w.dead[queue.ID{Partition: uint32(p), Offset: int64(at)}]; !m.finished && !m.over && n == 0 {
				w.fail("message %d-%d is done without a word", p, at)
			} else if m.stored && n > 0 {
				w.fail("message %d-%d is done, and dead", p, at)
			}
		}
	}
	if n := w.core.Counts(); n != (queue.Counts{}) {
		w.fail("counts of an empty queue: %+v", n)
	}
}

// Run runs the world of a seed, and returns the violated invariant.
func Run(seed uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(violation)
			if !ok {
				panic(r)
			}
			err = v.error
		}
	}()
	w := newWorld(seed)
	for range 600 {
		w.step()
	}
	w.finish()
	return nil
}
