package queue

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

var (
	seeds = flag.Uint64("seeds", 100, "worlds of TestModel")
	first = flag.Uint64("seed", 0, "first world of TestModel")
)

// world is a queue, its workers and its log, with leaders that end at any moment. Slots of the log are in
// flight until they are committed, in order; a takeover commits some of them, and the others are lost.
type world struct {
	t    testing.TB
	seed uint64
	r    *rand.Rand
	set  state.QueueSettings

	log   *state.State // committed
	now   int64
	epoch uint32
	core  *Core
	next  []int64 // end of each partition, with what is in flight
	slots []*slot

	messages [][]*told // by partition
	given    []worker
	dead     map[ID]int // committed copies
	burying  []bool
	lost     int // leases that a takeover may have lost
}

// told is what the test knows of a message.
type told struct {
	key      uint64
	finished bool  // a worker has said that it is done
	stored   bool  // and was answered
	over     bool  // it was cancelled, or purged
	until    int64 // end of the newest stored lease, unless that was settled
	leases   int
}

type worker struct {
	Given
	r Receipt
}

// slot is in flight.
type slot struct {
	head    record.Head
	records []state.Record
	index   []record.IndexEntry
	then    func(committed bool) // for the leader, while it leads
	always  func()               // at the commit
}

const topicByte = 7

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 2)), now: 1_000_000, dead: map[ID]int{}}
	_, set, err := state.CheckQueueSettings(map[string]string{"dead-letter": "d", "visibility": "30s", "max-deliveries": fmt.Sprint(2 + w.r.IntN(4)), "backoff": "1s,5s"})
	if err != nil {
		t.Fatal(err)
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
		state.RaiseTo(state.LevelQueues),
		{Kind: state.TopicCreate, Topic: record.ID{topicByte}, Name: "q", Partitions: uint32(partitions)},
	}})
	w.commit()
	w.lead()
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, epoch %d, at %d: %s", w.seed, w.epoch, w.now, fmt.Sprintf(format, args...))
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
			w.core.Extended(uint32(p), w.partition(p).Next)
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
	if s.always != nil {
		s.always()
	}
}

func (w *world) partition(p int) *state.Partition {
	return w.log.Topic(record.ID{topicByte}).Partitions.At(p)
}

// lead begins an epoch.
func (w *world) lead() {
	w.core = NewCore(w.set, w.epoch, len(w.messages), w.r.Float64)
	for p := range w.messages {
		w.core.Extended(uint32(p), w.partition(p).Next)
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
	w.lead()
}

// freeze makes a slot of the open changes and the leases that no record has.
func (w *world) freeze(also ...state.Record) *slot {
	s := &slot{}
	var taken []*Change
	for p := range w.messages {
		if q := w.core.Riders(uint32(p)); q != nil {
			s.records = append(s.records, w.update(p, q))
		}
		if ch := w.core.Open(uint32(p)); ch != nil {
			s.records = append(s.records, w.update(p, w.core.Take(ch)))
			taken = append(taken, ch)
		}
	}
	s.records = append(s.records, also...)
	c := w.core
	s.then = func(bool) {
		for _, ch := range taken {
			c.Done(ch, w.now, nil)
		}
	}
	w.slot(s)
	return s
}

func (w *world) update(p int, q *state.QueueChange) state.Record {
	return state.Record{Kind: state.QueueUpdate, Topic: record.ID{topicByte}, Partition: uint32(p), Queue: q}
}

// send appends messages, some of them delayed.
func (w *world) send() {
	p := w.r.IntN(len(w.next))
	n := 1 + w.r.IntN(8)
	base := w.next[p]
	e := record.IndexEntry{Topic: record.ID{topicByte}, Partition: uint32(p), Base: base, Span: uint32(n), Records: uint32(n), Len: 10}
	var also []state.Record
	due := int64(math.MaxInt64)
	if w.set.KeyMode != state.KeyOrder && w.r.IntN(3) == 0 {
		run := state.QueueRun{Base: base, Span: int64(n), State: state.QueueWaiting, Until: w.now + w.r.Int64N(20_000_000)}
		also = append(also, w.update(p, &state.QueueChange{Runs: []state.QueueRun{run}}))
		due = run.Until
	}
	w.next[p] += int64(n)
	for range n {
		w.messages[p] = append(w.messages[p], &told{key: w.r.Uint64N(5)})
	}
	s := w.freeze(also...)
	s.index = append(s.index, e)
	then, c := s.then, w.core
	s.then = func(ok bool) { then(ok); c.DueAgain(uint32(p), due) }
}

// look passes the committed state to the core, and later the keys that it asks for.
func (w *world) look() {
	for p := range w.messages {
		part := w.partition(p)
		if !w.core.Wants(w.now, uint32(p)) {
			continue
		}
		var keys []Key
		seek := w.core.Look(w.now, uint32(p), part.QueueOf(), part.Start, part.Next)
		for _, run := range seek {
			for at := run.Base; at < run.End(); at++ {
				keys = append(keys, Key{at, w.messages[p][at].key, run})
			}
		}
		if len(seek) > 0 {
			w.core.Saw(w.now, uint32(p), keys)
		}
	}
}

func (w *world) lease() {
	w.look()
	given, wait, err := w.core.Lease(w.now, 1+w.r.IntN(6), 30e6, "worker")
	if err != nil {
		w.fail("%v", err)
	}
	for _, g := range given {
		w.check(g)
	}
	epoch := w.epoch
	give := func() {
		for _, g := range given {
			m := w.messages[g.Partition][g.Offset]
			m.leases++
			w.given = append(w.given, worker{g, Receipt{g.ID, g.Deliveries, epoch}})
		}
	}
	if len(wait) == 0 {
		give()
		return
	}
	for _, ch := range wait {
		if ch.taken {
			w.fail("a lease waits for a change that is taken")
		}
	}
	s := w.freeze()
	then := s.then
	s.then = func(ok bool) { then(ok); give() }
	for _, g := range given {
		s.always = chain(s.always, func() { w.messages[g.Partition][g.Offset].until = g.Until })
	}
}

func chain(a, b func()) func() {
	return func() {
		if a != nil {
			a()
		}
		b()
	}
}

// check checks that a message may be given.
func (w *world) check(g Given) {
	m := w.messages[g.Partition][g.Offset]
	run := w.partition(int(g.Partition)).QueueOf().Of(g.Offset)
	switch {
	case m.stored || m.over || run.State == state.QueueDone:
		w.fail("message %v is given, but it is done", g.ID)
	case run.State == state.QueueLeased && run.Until > w.now && m.until > w.now:
		w.fail("message %v is given, but it is leased until %d", g.ID, run.Until)
	case run.State == state.QueueWaiting && run.Until > w.now:
		w.fail("message %v is given before its time %d", g.ID, run.Until)
	case m.leases >= w.set.MaxDeliveries+w.lost:
		w.fail("message %v is given %d times, and %d leaders have ended", g.ID, m.leases+1, w.lost)
	case w.set.KeyMode == state.KeyOrder && m.key != 0:
		for at := range g.Offset {
			if older := w.messages[g.Partition][at]; older.key == m.key && w.partition(int(g.Partition)).QueueOf().Of(at).State != state.QueueDone {
				w.fail("message %v is given before %d, which has its key", g.ID, at)
			}
		}
	}
}

func (w *world) settle() {
	if len(w.given) == 0 {
		return
	}
	i := w.r.IntN(len(w.given))
	g := w.given[i]
	v := Verdict{Do: Finish, Delay: -1, Reason: "because"}
	switch w.r.IntN(6) {
	case 0:
		v.Do = Retry
	case 1:
		v.Do, v.Delay = Retry, w.r.Int64N(3_000_000)
	case 2:
		v.Do = Kill
	case 3:
		v.Do, v.Delay = Extend, w.r.Int64N(60_000_000)
	}
	part := w.partition(int(g.Partition))
	w.core.Extended(g.Partition, part.Next)
	m := w.messages[g.Partition][g.Offset]
	ch, err := w.core.Settle(w.now, &g.r, v, "worker", part.QueueOf())
	if err == errUnread {
		w.core.Know(w.now, g.ID, m.key, part.QueueOf())
		ch, err = w.core.Settle(w.now, &g.r, v, "worker", part.QueueOf())
	}
	if v.Do != Extend {
		w.given = slices.Delete(w.given, i, i+1)
	}
	if err != nil {
		if err != ErrStale {
			w.fail("settle: %v", err)
		}
		return
	}
	switch v.Do {
	case Finish:
		m.finished = true
	case Extend:
		m.leases-- // the same lease
		m.leases++
		if m.until = 0; ch == nil {
			return
		}
	}
	if ch == w.core.Open(g.Partition) && ch != nil {
		s := w.freeze()
		s.always = func() { m.until = 0 }
		if v.Do == Finish {
			then := s.then
			s.then = func(ok bool) { then(ok); m.stored = true }
		}
	}
}

// bury moves dying messages of a partition.
func (w *world) bury() {
	for p := range w.messages {
		list := w.core.Dying(uint32(p), 3)
		if len(list) == 0 || w.burying[p] {
			continue
		}
		q := &state.QueueChange{}
		slices.SortFunc(list, func(a, b Dead) int { return int(a.Offset - b.Offset) })
		for _, d := range list {
			q.Runs = append(q.Runs, state.QueueRun{Base: d.Offset, Span: 1, State: state.QueueDone})
		}
		c, n := w.core, len(list)
		w.burying[p] = true
		w.slot(&slot{
			records: []state.Record{w.update(p, q)},
			then: func(bool) {
				c.Buried(uint32(p), n)
				w.burying[p] = false
			},
			always: func() {
				for _, d := range list {
					if w.dead[d.ID]++; w.dead[d.ID] > 1 {
						w.fail("message %v is dead twice", d.ID)
					}
				}
			},
		})
	}
}

func (w *world) cancel() {
	p := w.r.IntN(len(w.messages))
	if w.partition(p).Next == 0 {
		return
	}
	at := w.r.Int64N(w.partition(p).Next)
	w.core.Extended(uint32(p), w.partition(p).Next)
	m := w.messages[p][at]
	_, err := w.core.Cancel(w.now, ID{uint32(p), at}, w.partition(p).QueueOf())
	if err == errUnread {
		w.core.Know(w.now, ID{uint32(p), at}, m.key, w.partition(p).QueueOf())
		_, err = w.core.Cancel(w.now, ID{uint32(p), at}, w.partition(p).QueueOf())
	}
	if err != nil {
		return
	}
	s := w.freeze()
	s.always = func() { m.over = true }
}

func (w *world) step() {
	switch n := w.r.IntN(100); {
	case n < 12:
		w.send()
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
	}
}

// finish lets workers do all that is left, and checks that nothing is.
func (w *world) finish() {
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
	for p := range w.messages {
		q := w.partition(p).QueueOf()
		a := &w.core.parts[p]
		w.t.Logf("partition %d: done up to %d of %d, run %+v; %+v; cursor %d, end %d, due at %d, sought %v, %d known, settings %+v", p, q.Done, w.partition(p).Next, q.Of(q.Done), a.known[q.Done], a.cursor, a.next, a.due, a.sought, len(a.known), w.set)
	}
	w.fail("messages are left: %+v, next at %d", w.core.Counts(), w.core.Next())
}

// result checks that each message is done by the word of a worker, or dead, and not both without need.
func (w *world) result() {
	for p := range w.messages {
		for at := range w.messages[p] {
			m := w.messages[p][at]
			if n := w.dead[ID{uint32(p), int64(at)}]; !m.finished && !m.over && n == 0 {
				w.fail("message %d-%d is done without a word", p, at)
			} else if m.stored && n > 0 {
				w.fail("message %d-%d is done, and dead", p, at)
			}
		}
	}
	if n := w.core.Counts(); n != (Counts{}) {
		w.fail("counts of an empty queue: %+v", n)
	}
}

// TestModel runs queues with workers, clocks and takeovers at random.
func TestModel(t *testing.T) {
	for seed := *first; seed < *first+*seeds; seed++ {
		w := newWorld(t, seed)
		for range 600 {
			w.step()
		}
		w.finish()
	}
}
