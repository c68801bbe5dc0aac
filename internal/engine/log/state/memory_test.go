package state_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestMemory compares the estimate of a state's memory with the heap: the state and a leader's
// catalog.
func TestMemory(t *testing.T) {
	topic := func(i int) record.ID { return record.ID{byte(i >> 8), byte(i), 1} }
	numbered := func(i, parts int) state.Record {
		return state.Record{
			Kind: state.TopicCreate, Topic: topic(i), Name: fmt.Sprint("topic-", i), Partitions: uint32(parts),
			Settings: map[string]string{"retention-time": fmt.Sprint(i, "h")},
		}
	}
	written := func(l *log, parts, times int) {
		for time := range times {
			for p := range parts {
				l.must(nil, entry(1, uint32(p), int64(time), 1))
			}
		}
	}
	for _, c := range []struct {
		name  string
		first func(*log)
		grow  func(*log)
	}{
		{"topics", nil, many(2000, func(i int) state.Record { return numbered(i, 1) })},
		{"partitions", nil, many(20, func(i int) state.Record { return numbered(i, state.PartitionsMax) })},
		{"written partitions", func(l *log) { l.must([]state.Record{create(1, "t", 5000)}) }, func(l *log) { written(l, 5000, 1) }},
		{"ranges", func(l *log) { l.must([]state.Record{create(1, "t", 10)}) }, func(l *log) { written(l, 10, 3000) }},
		{"groups", func(l *log) { l.must([]state.Record{create(1, "t", 1)}) }, many(3000, func(i int) state.Record {
			return state.Record{Kind: state.OffsetCommit, Topic: record.ID{1}, Name: fmt.Sprint("group-", i), Offset: 1}
		})},
		{"offsets", func(l *log) { l.must([]state.Record{create(1, "t", 10_000)}) }, many(10_000, func(i int) state.Record {
			return state.Record{Kind: state.OffsetCommit, Topic: record.ID{1}, Name: "g", Partition: uint32(i), Offset: 1, Metadata: strings.Repeat("m", 100)}
		})},
		{"producers", producing(100), many(8000, producer(100, 1))},
		{"producers, one for each partition", producing(5000), many(5000, producer(5000, 1))},
		{"producers of one partition, in no order", producing(1), many(20_000, producer(1, 7919))},
		{"principals", atAccess, many(2000, principal)},
		{"rules", atAccess, many(5000, rule)},
		{"quotas", atAccess, many(5000, func(i int) state.Record {
			q := access.Quota{Principal: fmt.Sprint("service-", i), ProduceBytes: 1}
			return state.Record{Kind: state.AccessChange, Access: &access.Change{PutQuotas: []access.Quota{q}}}
		})},
	} {
		t.Run(c.name, func(t *testing.T) { compareMemory(t, c.first, c.grow) })
	}
}

// compareMemory compares what a log grows by in memory with the estimate.
func compareMemory(t *testing.T, first, grow func(*log)) {
	t.Helper()
	l := newLog(t)
	if first != nil {
		first(l)
	}
	catalog := l.s.Catalog()
	empty, before := sebtest.Heap(), l.s.Memory().Sum()
	runtime.KeepAlive(catalog)
	grow(l)
	catalog = l.s.Catalog()
	held, estimate := sebtest.Heap()-empty, l.s.Memory().Sum()-before
	t.Logf("%d bytes in memory, estimate %d", held, estimate)
	if held > estimate+estimate/10+64<<10 {
		t.Errorf("%d bytes in memory, but the estimate is %d", held, estimate)
	}
	if counted := recounted(t, l.s); l.s.Memory() != counted || catalog.Memory().Tables != counted.Tables {
		t.Errorf("%+v, counted %+v, catalog %+v", l.s.Memory(), counted, catalog.Memory())
	}
	runtime.KeepAlive(catalog)
}

// TestTransactionMemory is TestMemory of transactions.
func TestTransactionMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func(*log)
		grow  func(*log)
	}{
		{"transactional IDs", atAccess, many(state.TransactionsMax, newID)},
		{"partitions of open transactions", func(l *log) {
			producing(5000)(l)
			many(4, newID)(l)
		}, many(20_000, func(i int) state.Record {
			r := producer(5000, 1)(i)
			r.Producer.ID, r.Transactional = int64(i/5000), true
			return r
		})},
		{"offsets of open transactions", func(l *log) {
			producing(5000)(l)
			many(10, newID)(l)
		}, many(10_000, func(i int) state.Record {
			o := state.StagedOffset{Group: "a-group", PartitionID: state.PartitionID{Topic: record.ID{1}, Partition: uint32(i % 1000)}, Offset: 1, Metadata: strings.Repeat("m", 100)}
			return update(fmt.Sprint("transactional-id-", i/1000), state.TransactionChange{Kind: state.TransactionOffsets, Offsets: []state.StagedOffset{o}})
		})},
		{"aborted transactions", func(l *log) {
			producing(100)(l)
			many(1, newID)(l)
		}, func(l *log) {
			for i := range 10_000 {
				part := state.PartitionID{Topic: record.ID{1}, Partition: uint32(i % 100)}
				r := producer(100, 1)(i)
				r.Producer.ID, r.Transactional = 0, true
				l.must([]state.Record{r, update("transactional-id-0", state.TransactionChange{
					Kind: state.TransactionAbort, Marks: []state.TransactionMark{{PartitionID: part, Offset: int64(i)}},
				})})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { compareMemory(t, c.first, c.grow) })
	}
}

// newID gives a transactional ID to a producer.
func newID(i int) state.Record {
	return update(fmt.Sprint("transactional-id-", i), state.TransactionChange{Kind: state.TransactionInit, Producer: state.ProducerEpoch{ID: int64(i)}})
}

func atAccess(l *log) { l.must([]state.Record{state.RaiseTo(state.LevelMax)}) }

// producing creates a topic whose partitions have records.
func producing(parts int) func(*log) {
	return func(l *log) {
		l.must([]state.Record{state.RaiseTo(state.LevelMax), create(1, "t", uint32(parts))})
		for p := range parts {
			l.must(nil, entry(1, uint32(p), 0, 1))
		}
	}
}

// producer is the batch of another producer, with IDs that are multiples of step.
func producer(parts, step int) func(i int) state.Record {
	return func(i int) state.Record {
		return state.Record{Kind: state.ProducerAppend, Topic: record.ID{1}, Partition: uint32(i % parts), Owner: 1, Producer: state.ProducerBatch{ID: int64(i * step % 100_003), Span: 1}}
	}
}

// many grows a log by n records.
func many(n int, f func(i int) state.Record) func(l *log) {
	return func(l *log) {
		for i := range n {
			l.must([]state.Record{f(i)})
		}
	}
}

// principal creates a principal with a token and its verifiers.
func principal(i int) state.Record {
	p := access.Principal{ID: fmt.Sprint("service-", i), Created: 1, Secrets: []access.Secret{{ID: uint64(i + 1), Hash: [32]byte{1}}}}
	for _, m := range []access.Mechanism{access.SCRAMSHA256, access.SCRAMSHA512} {
		key := make([]byte, 32*int(m))
		p.Secrets[0].Scram = append(p.Secrets[0].Scram, access.Scram{Mechanism: m, Iterations: 8192, Salt: make([]byte, 16), StoredKey: key, ServerKey: key})
	}
	return state.Record{Kind: state.AccessChange, Access: &access.Change{Put: []access.Principal{p}}}
}

// rule allows one of the principals to read a topic.
func rule(i int) state.Record {
	r := access.Rule{Principal: fmt.Sprint("service-", i/5), Resource: access.Topic, Name: fmt.Sprint("topic-", i), Operation: access.Read, Host: access.Any}
	return state.Record{Kind: state.AccessChange, Access: &access.Change{PutRules: []access.Rule{r}}}
}

// recounted is the memory of a copy of a state: decoding counts its parts from the beginning.
func recounted(t testing.TB, s *state.State) state.Memory {
	t.Helper()
	return must.Get(state.DecodeMessage(state.EncodeMessage(s)))(t).Memory()
}

// TestQueueMemory compares the estimate for queues with the heap. A delayed message takes at most 16 bytes.
func TestQueueMemory(t *testing.T) {
	const messages = 50_000
	for name, change := range map[string]func(i int) *state.QueueChange{
		"delayed": func(i int) *state.QueueChange {
			return &state.QueueChange{Runs: []state.QueueRun{{Base: int64(i), Span: 1, State: state.QueueWaiting, Until: 1e15 + int64(i*7919%messages)*1e6}}}
		},
		"done in another order": func(i int) *state.QueueChange {
			return &state.QueueChange{Runs: []state.QueueRun{{Base: int64(2 * (i * 7919 % messages)), Span: 1, State: state.QueueDone}}}
		},
		"dedup IDs": func(i int) *state.QueueChange {
			return &state.QueueChange{Sent: &state.QueueSent{Hash: record.NewID(), Offset: int64(i), Until: 1 << 60}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.must([]state.Record{state.RaiseTo(state.LevelMax), create(1, "t", 1)})
			empty, before := sebtest.Heap(), l.s.Memory().Queues
			for i := range messages {
				l.must([]state.Record{{Kind: state.QueueUpdate, Topic: record.ID{1}, Queue: change(i)}})
			}
			held, estimate := sebtest.Heap()-empty, l.s.Memory().Queues-before
			t.Logf("%d bytes in memory for a message, estimate %d", held/messages, estimate/messages)
			if held > estimate+estimate/10+64<<10 || name == "delayed" && estimate > 16*messages {
				t.Errorf("%d bytes in memory, but the estimate is %d", held, estimate)
			}
			runtime.KeepAlive(l)
		})
	}
}
