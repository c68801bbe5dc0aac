package broker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// transactor is a transactional producer of one record per batch.
type transactor struct {
	t        testing.TB
	b        *broker.Broker
	id       string
	now      state.ProducerEpoch
	next     map[int]int32 // sequences by partition of topic a, of the epoch
	sequence state.ProducerEpoch
}

func newTransactor(t testing.TB, b *broker.Broker, id string) *transactor {
	t.Helper()
	x := &transactor{t: t, b: b, id: id, now: state.ProducerEpoch{ID: -1}}
	x.init()
	return x
}

func (x *transactor) init() {
	x.t.Helper()
	x.now = must.Get(x.b.InitTransactions(context.Background(), broker.InitTransactions{ID: x.id, Timeout: time.Minute, Was: x.now}))(x.t)
}

func (x *transactor) send(partition int, value string) broker.Result {
	x.t.Helper()
	if x.sequence != x.now {
		x.sequence, x.next = x.now, map[int]int32{}
	}
	a := brokertest.AppendWith("a", partition, record.EncodeOptions{
		Transactional: true, Producer: &record.Producer{ID: x.now.ID, Epoch: x.now.Epoch, Sequence: x.next[partition]},
	}, record.Record{Value: []byte(value)})
	r := submitted(x.t, x.b, a)[0]
	if r.Err == nil {
		x.next[partition]++
	}
	return r
}

func (x *transactor) sent(partition int, value string) int64 {
	x.t.Helper()
	r := x.send(partition, value)
	must.NoError(x.t, r.Err)
	return r.Base
}

func (x *transactor) end(commit, next bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	now, err := x.b.EndTransaction(ctx, broker.EndTransaction{ID: x.id, Producer: x.now, Commit: commit, Next: next})
	if err == nil {
		x.now = now
	}
	return err
}

func (x *transactor) ended(commit, next bool) {
	x.t.Helper()
	must.NoError(x.t, x.end(commit, next))
}

func bounds(t testing.TB, b *broker.Broker, topic string, partition int32) broker.Bounds {
	t.Helper()
	ref, _ := b.TopicNamed(topic)
	return must.Get(b.Bounds(ref.ID, partition))(t)
}

func TestTransactions(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		for _, next := range []bool{false, true} {
			t.Run(fmt.Sprint("version 2: ", next), func(t *testing.T) { testTransactions(t, s, next) })
		}
	})
}

func testTransactions(t *testing.T, s objstore.Store, next bool) {
	b := open(t, options(s))
	name := fmt.Sprint("tx", next)
	x := newTransactor(t, b, name)
	if next == false {
		create(t, b, "a", 2)
	}
	first := bounds(t, b, "a", 0).Next
	check.Equal(t, x.sent(0, "one"), first)
	mustProduce(t, b, "a", 0, "other")
	x.sent(0, "two")
	other := bounds(t, b, "a", 1).Next
	check.Equal(t, x.sent(1, "three"), other)
	check.Equal(t, bounds(t, b, "a", 0).Stable, first)
	check.Equal(t, bounds(t, b, "a", 0).Next, first+3)

	before := x.now
	x.ended(true, next)
	check.Equal(t, x.now != before, next)
	check.Equal(t, bounds(t, b, "a", 0), broker.Bounds{Next: first + 4, Stable: first + 4, Epoch: b.Epoch()})
	check.Equal(t, bounds(t, b, "a", 1).Stable, other+2)
	again := *x
	again.now = before
	check.NoErrorf(t, again.end(true, next), "a repeated end")
	check.Equal(t, again.now, x.now)
	again.now = before
	check.ErrorIs(t, again.end(false, next), state.ErrTransactionState)

	x.sent(0, "aborted")
	check.Equal(t, bounds(t, b, "a", 0).Stable, first+4)
	second := open(t, options(s)) // a takeover in the middle
	x.b, b = second, second
	x.sent(0, "aborted, too")
	x.ended(false, next)
	check.Equal(t, bounds(t, b, "a", 0).Stable, first+7)
	x.sent(1, "left open")
	zombie := *x
	x = newTransactor(t, b, name) // fences it, and aborts what was open
	check.Equal(t, bounds(t, b, "a", 1).Stable, other+4)
	check.ErrorIs(t, zombie.send(1, "late").Err, state.ErrProducerFenced)
	check.ErrorIs(t, zombie.end(true, next), state.ErrTransactionFenced)
	x.sent(1, "again")
	x.ended(true, next)
	kill(b)
	b = open(t, options(s))
	info, known := b.Transaction(name)
	check.Equal(t, known && info.Started.IsZero() && info.Ended == state.EndedCommitted, true)
	kill(b)
}

func TestTransactionTimeout(t *testing.T) {
	o := options(disk(t))
	o.TransactionsEvery = time.Millisecond
	b := open(t, o)
	create(t, b, "a", 1)
	x := newTransactor(t, b, "slow")
	x.now = must.Get(b.InitTransactions(t.Context(), broker.InitTransactions{ID: "slow", Timeout: 20 * time.Millisecond, Was: x.now}))(t)
	x.sent(0, "one")
	sebtest.Eventually(t, "the abort", func() bool { i, _ := b.Transaction("slow"); return i.Started.IsZero() })
	check.ErrorIs(t, x.end(true, true), state.ErrTransactionEnded)
	check.ErrorIs(t, x.send(0, "two").Err, state.ErrTransactionEnded)
	x.init() // the client recovers
	x.sent(0, "three")
	x.ended(true, true)
}

// TestAbortOfADescribedTransaction checks that an operator does not abort a later transaction of the same producer.
func TestAbortOfADescribedTransaction(t *testing.T) {
	for _, next := range []bool{false, true} { // in version 1 both have the same epoch
		b := open(t, options(disk(t)))
		create(t, b, "a", 1)
		x := newTransactor(t, b, "tx")
		describe := func() *broker.TransactionInfo {
			info, _ := b.Transaction("tx")
			return &info
		}
		check.ErrorIsf(t, b.AbortDescribed(t.Context(), describe()), state.ErrTransactionState, "none is open")
		x.sent(0, "one")
		first := describe()
		x.ended(true, next)
		check.ErrorIsf(t, b.AbortDescribed(t.Context(), first), state.ErrTransactionState, "it has ended")
		x.sent(0, "two")
		check.ErrorIsf(t, b.AbortDescribed(t.Context(), first), state.ErrTransactionState, "another one is open")
		check.Equalf(t, describe().Started.IsZero(), false, "the second one has ended")
		check.NoErrorf(t, b.AbortDescribed(t.Context(), describe()), "the open one")
		check.Equal(t, describe().Ended, state.EndedForced)
	}
}

// TestManyTransactionTimeouts checks that transactions which are overdue together end together, and not in a slot each.
func TestManyTransactionTimeouts(t *testing.T) {
	const n = 50
	o := options(disk(t))
	o.TransactionsEvery = time.Millisecond
	b := open(t, o)
	create(t, b, "a", 1)
	var batches []broker.Append
	for i := range n {
		p := must.Get(b.InitTransactions(t.Context(), broker.InitTransactions{ID: fmt.Sprint(i), Timeout: 20 * time.Millisecond, Was: state.ProducerEpoch{ID: -1}}))(t)
		batches = append(batches, brokertest.AppendWith("a", 0, record.EncodeOptions{Transactional: true, Producer: &record.Producer{ID: p.ID}}, record.Record{Value: []byte("v")}))
	}
	for _, r := range submitted(t, b, batches...) {
		must.NoError(t, r.Err)
	}
	sebtest.Eventually(t, "the aborts", func() bool { open, _ := b.OpenTransactions(nil); return open == 0 })
	slots := map[time.Time]bool{}
	for _, x := range b.Transactions() {
		slots[x.Changed] = true
	}
	if len(slots) > 5 { // the first look can come between the slots of the batches
		t.Errorf("%d transactions were aborted in %d slots", n, len(slots))
	}
}

// TestEndsOfManyPartitions checks that the markers of ends count towards the size of an object: transactions with many
// partitions that end together do so in several slots.
func TestEndsOfManyPartitions(t *testing.T) {
	const n, partitions, most = 5, 1000, 200 << 10
	s := objstore.NewMemory()
	o := options(s)
	o.Batch.Wait, o.Batch.BytesMax = 100*time.Millisecond, most // so that the ends come together
	b := open(t, o)
	create(t, b, "a", partitions)
	var producers [n]state.ProducerEpoch
	for i := range n {
		p := must.Get(b.InitTransactions(t.Context(), broker.InitTransactions{ID: fmt.Sprint(i), Timeout: time.Hour, Was: state.ProducerEpoch{ID: -1}}))(t)
		producers[i] = p
		var batches []broker.Append
		for part := range partitions {
			batches = append(batches, brokertest.AppendWith("a", part, record.EncodeOptions{Transactional: true, Producer: &record.Producer{ID: p.ID}}, record.Record{Value: []byte("v")}))
		}
		for _, r := range submitted(t, b, batches...) {
			must.NoError(t, r.Err)
		}
	}
	var all sync.WaitGroup
	for i, p := range producers {
		all.Go(func() {
			_, err := b.EndTransaction(t.Context(), broker.EndTransaction{ID: fmt.Sprint(i), Producer: p})
			check.NoError(t, err)
		})
	}
	all.Wait()
	largest, markers := int64(0), int64(partitions*(record.MarkerSize+record.IndexEntrySize))
	entries, _ := must.Get2(s.List(t.Context(), objstore.ListOptions{Prefix: "s0000/wal/"}))(t)
	for _, e := range entries {
		largest = max(largest, e.Size)
	}
	if largest < markers || largest > most+markers {
		t.Errorf("the largest object has %d bytes, want at least the %d of an end, and at most as many beyond the limit of %d", largest, markers, most)
	}
}

func TestTransactionOffsets(t *testing.T) {
	b := open(t, options(disk(t)))
	create(t, b, "a", 2)
	x := newTransactor(t, b, "tx")
	stage := func(offset int64) {
		t.Helper()
		for _, err := range b.StageOffsets(t.Context(), broker.StageOffsets{ID: "tx", Producer: x.now, Group: "g", Commits: []broker.OffsetCommit{{Topic: "a", Partition: 1, Offset: offset, Metadata: "m"}}}) {
			must.NoError(t, err)
		}
	}
	stage(5)
	check.Equal(t, len(b.Staged("g")), 1)
	_, err := b.Group(t.Context(), "g", false)
	check.ErrorIs(t, err, state.ErrUnknownGroup)
	x.ended(false, true)
	_, err = b.Group(t.Context(), "g", false)
	check.ErrorIs(t, err, state.ErrUnknownGroup)
	check.Equal(t, len(b.Staged("g")), 0)
	stage(6)
	stage(7)
	x.ended(true, true)
	g := must.Get(b.Group(t.Context(), "g", false))(t)
	check.Equal(t, len(g.Offsets), 1)
	check.Equal(t, g.Offsets[0].Offset, 7)
	check.Equal(t, g.Offsets[0].Metadata, "m")
}

// TestTransactionsAndRemoval: a trim passes an open transaction, and a topic is deleted within one. It then ends
// as its producer wants, and the next one is whole.
func TestTransactionsAndRemoval(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprint("commit: ", commit), func(t *testing.T) {
			s := disk(t)
			b := open(t, options(s))
			create(t, b, "a", 2)
			create(t, b, "b", 1)
			x := newTransactor(t, b, "tx")
			x.sent(0, "trimmed")
			x.sent(0, "not trimmed")
			x.sent(1, "trimmed")
			in := brokertest.AppendWith("b", 0, record.EncodeOptions{
				Transactional: true, Producer: &record.Producer{ID: x.now.ID, Epoch: x.now.Epoch},
			}, record.Record{Value: []byte("deleted")})
			must.NoError(t, submitted(t, b, in)[0].Err)
			must.Get(b.Trim(t.Context(), "a", 0, 1))(t)
			must.Get(b.Trim(t.Context(), "a", 1, 1))(t)
			must.NoError(t, b.DeleteTopic(t.Context(), "b"))
			check.Equal(t, bounds(t, b, "a", 0), broker.Bounds{Start: 1, Next: 2, Stable: 1, Epoch: b.Epoch()})
			check.Equal(t, bounds(t, b, "a", 1), broker.Bounds{Start: 1, Next: 1, Stable: 1, Epoch: b.Epoch()})
			kill(b)
			b = open(t, options(s))
			x.b = b
			x.ended(commit, true)
			want := map[bool]string{true: "[1 not trimmed]", false: "[]"}[commit]
			check.Equal(t, committedIn(t, b, "a", 0, 1, 3), want)
			check.Equal(t, committedIn(t, b, "a", 1, 1, 2), "[]")
			x.sent(0, "next")
			x.ended(true, true)
			check.Equal(t, committedIn(t, b, "a", 0, 3, 5), "[3 next]")
			kill(b)
		})
	}
}

// committedIn lists the committed records of a partition from an offset to its last stable one, which must be to.
func committedIn(t testing.TB, b *broker.Broker, topic string, partition int, from, to int64) string {
	t.Helper()
	var got []any
	for from < to {
		f := must.Get(b.Fetch(context.Background(), []broker.Want{{Topic: topic, Partition: int32(partition), Offset: from}}, 1, sebtest.Limit))(t)
		must.NoError(t, f.Parts[0].Err)
		for i := range f.Parts[0].Chunks {
			var r record.Reader
			c := &f.Parts[0].Chunks[i]
			for r.Reset(brokertest.Bytes(t, c), from); r.Next(); {
				got = append(got, r.Offset(), string(r.Record().Value))
			}
			must.NoError(t, r.Err())
			from = c.End
		}
		f.Release()
	}
	check.Equal(t, bounds(t, b, topic, int32(partition)).Stable, to)
	return fmt.Sprint(got)
}

// TestTransactionSlots: a transaction costs two slots, one for its records and one for its end, however many
// partitions it has. What comes with them costs none.
func TestTransactionSlots(t *testing.T) {
	b := open(t, options(disk(t)))
	create(t, b, "a", 50)
	x := newTransactor(t, b, "tx")
	slot := func() uint64 {
		_, end := b.Chain()
		return end.Slot
	}
	before := slot()
	appends := make([]broker.Append, 50)
	for i := range appends {
		appends[i] = brokertest.AppendWith("a", i, record.EncodeOptions{Transactional: true, Producer: &record.Producer{ID: x.now.ID, Epoch: x.now.Epoch}},
			record.Record{Value: []byte("one")}, record.Record{Value: []byte("two")})
	}
	for _, r := range submitted(t, b, appends...) {
		must.NoError(t, r.Err)
	}
	check.Equal(t, slot()-before, 1)
	x.ended(true, true)
	check.Equal(t, slot()-before, 2)
	for i := range int32(50) {
		check.Equal(t, bounds(t, b, "a", i).Stable, 3)
	}
}
