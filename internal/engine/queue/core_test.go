package queue

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// bench is a core of one partition whose log is a table of keys. What the core changes is stored at once.
type bench struct {
	*Core
	t    *testing.T
	now  int64
	keys []uint64 // of the messages
	log  map[int64]state.QueueRun
	made *state.Queue // of log; nil: it must be made
}

func newBench(t *testing.T, settings ...string) *bench {
	given := map[string]string{"dead-letter": "d", "backoff": "1s"}
	for i := 0; i < len(settings); i += 2 {
		given[settings[i]] = settings[i+1]
	}
	_, s, err := state.CheckQueueSettings(given)
	must.NoError(t, err)
	return &bench{Core: NewCore(s, 2, 1, func() float64 { return 0.5 }), t: t, now: 1e6, log: map[int64]state.QueueRun{}}
}

// queue is the state of the partition.
func (b *bench) queue() *state.Queue {
	if b.made != nil {
		return b.made
	}
	var c state.QueueChange
	for at := range int64(len(b.keys)) {
		if r, ok := b.log[at]; ok {
			c.Runs = append(c.Runs, r)
		}
	}
	b.made = stateOf(b.t, &c)
	return b.made
}

// stateOf returns the state of a partition after a change.
func stateOf(t *testing.T, c *state.QueueChange) *state.Queue {
	s := state.Genesis(record.ID{1}, 0)
	apply := func(h record.Head, records ...state.Record) {
		h.Cluster, h.Epoch, h.Slot, h.Nonce, h.PrevCRC = s.Cluster, s.Pos.Epoch, s.Pos.Slot, s.Nonce, s.PrevCRC
		must.NoError(t, s.Apply(&h, records, nil))
	}
	topic := record.ID{7}
	apply(record.Head{Kind: record.KindSeal, NextEpoch: 1, NextNonce: record.ID{9}})
	apply(record.Head{Kind: record.KindData, Time: 1}, state.RaiseTo(state.LevelQueues), state.Record{Kind: state.TopicCreate, Topic: topic, Name: "q", Partitions: 1},
		state.Record{Kind: state.QueueUpdate, Topic: topic, Queue: c})
	return s.Topic(topic).Partitions.At(0).QueueOf()
}

func (b *bench) send(keys ...uint64) {
	b.keys = append(b.keys, keys...)
	b.Extended(0, int64(len(b.keys)))
}

// many returns n keys.
func many(n int, key uint64) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = key
	}
	return list
}

// look is what the shell does before a lease. Without all only the first some keys are read.
func (b *bench) look(some int) {
	if b.Wants(b.now, 0) {
		if seek := b.Look(b.now, 0, b.queue(), 0, int64(len(b.keys))); len(seek) > 0 {
			b.saw(seek, some)
		}
	}
}

func (b *bench) saw(seek []state.QueueRun, some int) {
	var keys []Key
	for _, r := range seek {
		for at := r.Base; at < r.End() && len(keys) < some; at++ {
			keys = append(keys, Key{at, b.keys[at], r})
		}
	}
	b.Saw(b.now, 0, keys, some == math.MaxInt)
}

func (b *bench) lease(n int) []Given {
	b.t.Helper()
	b.look(math.MaxInt)
	given, _, err := b.Lease(b.now, n, 30e6, "w")
	must.NoError(b.t, err)
	b.store(nil)
	return given
}

// store ends the changes that wait.
func (b *bench) store(err error) {
	note := func(q *state.QueueChange) {
		for _, r := range q.Runs {
			for at := r.Base; at < r.End() && err == nil; at++ {
				x := r
				b.made = nil
				x.Base, x.Span = at, 1
				b.log[at] = x
			}
		}
	}
	if q := b.Riders(0); q != nil {
		note(q)
	}
	if ch := b.Open(0); ch != nil {
		note(b.Take(ch))
		b.Done(ch, b.now, err)
	}
}

func (b *bench) settle(g Given, v Verdict) error {
	_, err := b.Settle(b.now, &Receipt{g.ID, g.Deliveries, 2}, v, "w", b.queue())
	return err
}

func (b *bench) offsets(list []Given) string {
	var at []int64
	for _, g := range list {
		at = append(at, g.Offset)
	}
	return fmt.Sprint(at)
}

var errRefused = errors.New("refused")

// TestInFlight: workers get more messages than are known at once, up to in-flight-max.
func TestInFlight(t *testing.T) {
	for _, mode := range []string{state.KeyNone, state.KeyFair, state.KeyOrder} {
		b := newBench(t, "key-mode", mode, "in-flight-max", "30000")
		b.send(make([]uint64, 50_000)...)
		n := 0
		for range 100 {
			n += len(b.lease(1000))
			if n == 30_000 {
				break
			}
		}
		must.Equalf(t, n, 30_000, "in flight with key-mode %s", mode)
	}
}

// TestRefusedExtension: a worker whose longer extension is refused has its message as before.
func TestRefusedExtension(t *testing.T) {
	b := newBench(t)
	b.send(0)
	g := b.lease(1)
	must.NoError(t, b.settle(g[0], Verdict{Do: Extend, Delay: 60e6}))
	b.store(errRefused)
	must.Equalf(t, len(b.lease(1)), 0, "messages for another worker")
	b.now += 31e6
	must.Equalf(t, len(b.lease(1)), 1, "messages after the lease")
	must.ErrorIsf(t, b.settle(g[0], Verdict{Do: Finish}), ErrStale, "the first receipt")
}

// TestReturnOfALostLease: a worker that gives back a lease which was refused does not take the message from
// the worker that has it since.
func TestReturnOfALostLease(t *testing.T) {
	b := newBench(t)
	b.send(0)
	must.NoError(t, b.settle(b.lease(1)[0], Verdict{Do: Retry}))
	b.store(nil)
	lost, wait, _ := b.Lease(b.now, 1, 30e6, "a")
	must.Equal(t, len(wait), 1)
	b.store(errRefused)
	has := b.lease(1)
	must.Equal(t, has[0].Deliveries, lost[0].Deliveries)
	b.Return(lost, 0)
	must.Equalf(t, len(b.lease(1)), 0, "messages for a third worker")
	must.NoError(t, b.settle(has[0], Verdict{Do: Finish}))
}

// TestKeysThatCannotBeRead: messages whose keys could not be read are looked for again.
func TestKeysThatCannotBeRead(t *testing.T) {
	for _, mode := range []string{state.KeyFair, state.KeyOrder} {
		b := newBench(t, "key-mode", mode)
		b.send(1, 2, 1, 3, 2)
		b.look(2)
		must.Equalf(t, b.offsets(b.lease(1)), "[0]", "mode %s", mode)
		b.look(0)
		want := "[1 2 3 4]"
		if mode == state.KeyOrder {
			want = "[1 3]"
		}
		must.Equalf(t, b.offsets(b.lease(9)), want, "mode %s", mode)
	}
}

// TestDoneDuringASearch: a message that is done while its key is read is not given again.
func TestDoneDuringASearch(t *testing.T) {
	for _, mode := range []string{state.KeyFair, state.KeyOrder} {
		b := newBench(t, "key-mode", mode)
		b.send(1, 1, 1)
		seek := b.Look(b.now, 0, b.queue(), 0, 3)
		b.Know(b.now, ID{0, 1}, 1, b.queue())
		ch := NewChange(0)
		must.NoError(t, b.Claim(b.now, ID{0, 1}, b.queue(), ch))
		b.Take(ch)
		b.Done(ch, b.now, nil)
		b.saw(seek, math.MaxInt)
		given := b.lease(9)
		if mode == state.KeyOrder {
			must.NoError(t, b.settle(given[0], Verdict{Do: Finish}))
			b.store(nil)
			given = append(given, b.lease(9)...)
		}
		must.Equalf(t, b.offsets(given), "[0 2]", "mode %s", mode)
	}
}

// TestOrderOfAnUnknownMessage: a message that is known before older ones of its key comes after them.
func TestOrderOfAnUnknownMessage(t *testing.T) {
	b := newBench(t, "key-mode", "order")
	b.send(1, 2, 1)
	b.Know(b.now, ID{0, 2}, 1, b.queue())
	b.Know(b.now, ID{0, 1}, 2, b.queue())
	given, _, _ := b.Lease(b.now, 9, 30e6, "w")
	must.Equalf(t, b.offsets(given), "[]", "before older ones are known")
	first := b.lease(9)
	must.Equal(t, b.offsets(first), "[0 1]")
	must.NoError(t, b.settle(first[0], Verdict{Do: Finish}))
	b.store(nil)
	must.Equal(t, b.offsets(b.lease(9)), "[2]")
}

// TestRetriesHoldUpNothing: messages that wait for a retry take nothing from those that workers may get.
func TestRetriesHoldUpNothing(t *testing.T) {
	b := newBench(t, "key-mode", "fair")
	b.send(make([]uint64, 2*aheadKeyed)...)
	for range 30 {
		for _, g := range b.lease(1000) {
			must.NoError(t, b.settle(g, Verdict{Do: Retry, Delay: 3600e6}))
		}
		b.store(nil)
	}
	must.Equalf(t, len(b.lease(1000)), 1000, "messages behind 30,000 that wait")
	b.now += 3601e6
	b.DueAgain(0, b.now)
	must.Equalf(t, len(b.lease(1000)), 1000, "messages after their wait")
}

// TestLookAhead: a key that waits lets others pass, as far as a core looks ahead.
func TestLookAhead(t *testing.T) {
	b := newBench(t, "key-mode", "order")
	b.send(many(aheadKeyed-10, 1)...)
	must.Equal(t, b.offsets(b.lease(9)), "[0]")
	b.send(2)
	must.Equal(t, b.offsets(b.lease(9)), fmt.Sprint([]int{aheadKeyed - 10}))
}

// TestLookPastKnownMessages: a search that finds messages which are known already passes over no others.
func TestLookPastKnownMessages(t *testing.T) {
	b := newBench(t, "key-mode", "order")
	b.Within(1) // aheadMin
	for at := range int64(aheadMin + 8) {
		b.log[at] = state.QueueRun{Base: at, Span: 1, State: state.QueueWaiting, Until: 1, Deliveries: 1}
		b.keys = append(b.keys, uint64(at+1))
	}
	b.Extended(0, aheadMin+8)
	for at := range int64(4) {
		b.Know(b.now, ID{0, at}, uint64(at+1), b.queue())
	}
	n := 0
	for range 5 {
		n += len(b.lease(1000))
	}
	must.Equal(t, n, aheadMin+8)
}

// TestLookAfterACommit: one search finds all messages of a transaction, also behind leases that the log does not know.
func TestLookAfterACommit(t *testing.T) {
	const others = 4 * aheadMin
	b := newBench(t)
	b.Within(1) // aheadMin
	b.send(many(others+2, 0)...)
	for _, at := range []int64{0, others + 1} {
		b.log[at] = state.QueueRun{Base: at, Span: 1, State: state.QueueUncommitted, Until: math.MaxInt64, Producer: 1}
	}
	b.Released(0, []state.OpenTransaction{{Producer: 1}})
	for n := 0; n < others; {
		b.look(math.MaxInt)
		given, _, err := b.Lease(b.now, others, 30e6, "w")
		must.NoError(t, err)
		n += len(given)
	}
	clear(b.log)
	b.made = nil
	b.Released(0, nil)
	must.Equal(t, b.offsets(b.lease(9)), fmt.Sprint([]int{0, others + 1}))
}

// TestForgotten: a core keeps nothing of messages that are done.
func TestForgotten(t *testing.T) {
	b := newBench(t, "key-limit", "1", "key-rate", "1", "visibility", "12h")
	for i := range 200 {
		for k := range 100 {
			b.keys = append(b.keys, uint64(1+100*i+k))
		}
		b.Extended(0, int64(len(b.keys)))
		given := b.lease(1000)
		must.Equal(t, len(given), 100)
		for _, g := range given {
			must.NoError(t, b.settle(g, Verdict{Do: Finish}))
		}
		b.store(nil)
		b.now += 100_000
	}
	b.Tick(b.now + 2e6)
	if keys := len(b.parts[0].keys); keys != 0 || len(b.timers) > 4096 || len(b.parts[0].known) != 0 {
		t.Errorf("%d keys, %d timers, %d messages", keys, len(b.timers), len(b.parts[0].known))
	}
}

// TestIdle: nothing is due in a queue whose messages wait for a worker.
func TestIdle(t *testing.T) {
	b := newBench(t, "rate", "100")
	b.send(make([]uint64, 10)...)
	b.lease(1)
	b.now += 1e6
	b.Tick(b.now)
	if next := b.Next(); next <= b.now {
		t.Errorf("due %d µs ago", b.now-next)
	}
	b = newBench(t)
	for at := range int64(3000) {
		b.log[at] = state.QueueRun{Base: at, Span: 1, State: state.QueueWaiting, Until: at + 1}
	}
	b.send(make([]uint64, 3000)...)
	for range 10 {
		must.NoError(t, b.settle(b.lease(1)[0], Verdict{Do: Finish}))
		b.store(nil)
	}
	b.Tick(b.now)
	if next := b.Next(); next <= b.now {
		t.Errorf("due %d µs ago", b.now-next)
	}
}

// TestRateIsRaised: a new rate counts at once.
func TestRateIsRaised(t *testing.T) {
	b := newBench(t, "rate", "0.001")
	b.send(0, 0, 0)
	must.Equal(t, len(b.lease(9)), 1)
	s := b.Settings
	s.Rate = 1000
	if !b.Configure(s) {
		t.Error("a rate needs another core")
	}
	must.Equal(t, len(b.lease(9)), 2)
	if s.KeyLimit = 3; b.Configure(s) {
		t.Error("a limit of keys needs no other core")
	}
}

// TestKeyRate: a key gives its messages as its rate allows, however many wait.
func TestKeyRate(t *testing.T) {
	b := newBench(t, "key-rate", "100")
	b.send(many(1000, 7)...)
	n, from := 0, b.now
	for n < 300 {
		n += len(b.lease(1000))
		if len(b.timers) > 500 {
			t.Fatalf("%d timers", len(b.timers))
		}
		next := b.Next()
		must.Equalf(t, next > b.now, true, "next is later")
		b.now = max(next, b.now+10_000)
	}
	if took := b.now - from; took < 2_800_000 || took > 3_200_000 {
		t.Errorf("%d messages of a key in %d ms", n, took/1000)
	}
}

// TestExpireOfForeignTimes: a message whose timestamp is no time does not expire.
func TestExpireOfForeignTimes(t *testing.T) {
	s := &state.QueueSettings{Expire: time.Hour}
	const now = 1e15
	for _, ms := range []int64{-1, math.MinInt64, math.MaxInt64, 1 << 55} {
		if at := expires(s, &record.Record{Timestamp: ms}); at <= now {
			t.Errorf("a message of %d expires at %d", ms, at)
		}
		header := record.Header{Key: HeaderExpire, Value: fmt.Append(nil, ms)}
		if at := expires(s, &record.Record{Timestamp: now / 1000, Headers: []record.Header{header}}); at <= now {
			t.Errorf("a message with the header %s expires at %d", header.Value, at)
		}
	}
}

// TestLookAheadIsFull: with order the queue says that it waits when it knows as many messages of a key as it may,
// and more follow.
func TestLookAheadIsFull(t *testing.T) {
	b := newBench(t, "key-mode", "order")
	b.Within(aheadMin)
	b.send(many(aheadMin, 1)...)
	first := b.lease(2)
	if len(first) != 1 || b.Blocked() {
		t.Fatalf("%d messages of a key, blocked %t: all are known", len(first), b.Blocked())
	}
	b.send(1, 1, 2)
	b.look(math.MaxInt)
	if again := b.lease(1); len(again) != 0 || !b.Blocked() {
		t.Fatalf("%d messages given, blocked %t, want the queue to wait", len(again), b.Blocked())
	}
	b.Tick(first[0].Until)
	if b.Blocked() {
		t.Error("blocked although a message is ready")
	}
	plain := newBench(t)
	plain.Within(aheadMin)
	plain.send(many(3*aheadMin, 1)...)
	if got := plain.lease(10 * aheadMin); len(got) != aheadMin || plain.Blocked() {
		t.Errorf("without keys: %d given, blocked %t", len(got), plain.Blocked())
	}
}

// TestNoRoomForRetries: without memory for another try a worker keeps its message. One that failed too often
// can go.
func TestNoRoomForRetries(t *testing.T) {
	full := errors.New("full")
	b := newBench(t, "max-deliveries", "2", "dead-letter", "dead")
	b.send(0)
	g := b.lease(1)
	must.ErrorIsf(t, b.settle(g[0], Verdict{Do: Retry, Full: full}), full, "a retry")
	must.NoError(t, b.settle(g[0], Verdict{Do: Retry}))
	b.store(nil)
	b.now += 3600e6
	g = b.lease(1)
	b.store(nil)
	must.NoError(t, b.settle(g[0], Verdict{Do: Retry, Full: full}))
	must.Equal(t, b.DyingCount(), 1)
}

// TestRecordsAreCopied: a message does not change with the buffer from which it was read.
func TestRecordsAreCopied(t *testing.T) {
	batch, _ := must.Get2(record.Append(nil, []record.Record{{Key: []byte("key"), Value: []byte("value"), Headers: []record.Header{{Key: "name", Value: []byte("text")}}}}, record.EncodeOptions{}))(t)
	var r record.Reader
	r.Reset(batch, 0)
	must.Equal(t, r.Next(), true)
	m := cloned(r.Record())
	clear(batch)
	must.Equal(t, fmt.Sprintf("%s %s %s %s", m.Key, m.Value, m.Headers[0].Key, m.Headers[0].Value), "key value name text")
}
