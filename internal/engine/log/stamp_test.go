package log_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// stampedTopic creates a topic with timestamp-type=LogAppendTime.
func stampedTopic(t testing.TB, l *log.Log, name string, partitions uint32) record.ID {
	t.Helper()
	id := record.NewID()
	r := wait(t, l.Propose(state.Record{
		Kind: state.TopicCreate, Topic: id, Name: name, Partitions: partitions,
		Settings: map[string]string{"timestamp-type": state.TimestampAppend},
	}))
	must.NoError(t, r[0].Err())
	return id
}

// TestAppendTimeIsStampedOnce stores objects with stamped and other batches, small and large,
// compressed, several at once, at the first or a later attempt. Their content is right and every
// attempt sends the same bytes.
func TestAppendTimeIsStampedOnce(t *testing.T) {
	store := newHooked(objstore.NewMemory())
	o := options(store)
	o.Budget = budget.New(64 << 20)
	o.Checksums = true
	l := open(t, o)
	stamped, plain := stampedTopic(t, l, "stamped", 3), topic(t, l, "plain", 3)
	store.set(func(_ context.Context, key string, _ objstore.Body, pass func() error) error {
		switch n := len(store.attempts(key)); {
		case n == 1:
			return fmt.Errorf("put: %w: not sent", objstore.ErrNoVerdict)
		case n == 2:
			if err := pass(); err != nil {
				return err
			}
			return fmt.Errorf("put: %w: connection reset", objstore.ErrNoVerdict)
		}
		return pass()
	})
	const each = 12
	var wg sync.WaitGroup
	for _, id := range []record.ID{stamped, plain} {
		for p := range uint32(3) {
			wg.Go(func() {
				for i := range each {
					k := l.Submit([]log.Append{several(t, id, p, i), batch(t, id, p, fmt.Sprint(i))})
					for _, r := range wait(t, k) {
						check.NoError(t, r.Err())
					}
				}
			})
		}
	}
	wg.Wait()
	for key, attempts := range store.puts {
		for _, b := range attempts {
			must.Equalf(t, string(b), string(attempts[0]), "attempts for %s differ", key)
		}
	}
	slots := 0
	records := map[record.ID]int{}
	last := map[uint32]int64{}
	l.Read(func(s *state.State) {
		for slot := uint64(0); slot < s.Pos.Slot; slot++ {
			object := must.Get(record.DecodeObject(whole(t, store, s.Key(s.Pos.Epoch, slot))))(t)
			slots++
			for i := range object.Index {
				e := &object.Index[i]
				n := checkStamps(t, object.Head.Time, e, object.Batches(i), e.Topic == stamped)
				if e.Topic == stamped && e.MaxTime < last[e.Partition] {
					t.Errorf("partition %d: append time goes back from %d to %d", e.Partition, last[e.Partition], e.MaxTime)
				}
				last[e.Partition] = max(last[e.Partition], e.MaxTime)
				records[e.Topic] += n
			}
		}
	})
	if want := 3 * each * (severalRecords + 1); records[stamped] != want || records[plain] != want || slots < each {
		t.Fatalf("%d and %d records in %d slots, want %d each", records[stamped], records[plain], slots, want)
	}
}

// severalRecords is the number of records that several makes.
const severalRecords = 6

// several returns an append of several batches, small or large, with the i-th codec.
func several(t testing.TB, id record.ID, partition uint32, i int) log.Append {
	t.Helper()
	size := 10
	if i%2 == 1 {
		size = 10_000
	}
	var data []byte
	for n := range 3 {
		recs := []record.Record{
			{Timestamp: 1000 + int64(n), Value: []byte(strings.Repeat("x", size))}, {Timestamp: 5, Value: []byte{byte(n)}},
		}
		var err error
		if data, _, err = record.Append(data, recs, record.EncodeOptions{Compression: record.Compression(i % 5)}); err != nil {
			t.Fatal(err)
		}
	}
	return log.Append{Data: data, Head: core.Append{
		Topic: id, Partition: partition, Span: severalRecords, Records: severalRecords, Bytes: uint32(len(data)), MinTime: 5, MaxTime: 1002, Expected: -1,
	}}
}

// checkStamps checks the batches of one entry of a slot and the times in the entry. It returns the
// number of records.
func checkStamps(t *testing.T, slot int64, e *record.IndexEntry, batches []byte, stamped bool) int {
	t.Helper()
	sum, err := record.Verify(batches)
	must.NoError(t, err)
	low, high := int64(5), int64(1002)
	if stamped {
		low, high = slot/1000, slot/1000
		if sum.MinTimestamp != low || sum.MaxTimestamp != high {
			t.Errorf("batches from %d to %d in a slot of %d", sum.MinTimestamp, sum.MaxTimestamp, slot)
		}
	}
	for rest := batches; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Split(rest); err != nil {
			t.Fatal(err)
		}
		check.Equalf(t, b.Attributes()&record.AttrLogAppendTime != 0, stamped, "attributes %x", b.Attributes())
	}
	n := 0
	var r record.Reader
	for r.Reset(batches, e.Base); r.Next(); n++ {
		if at := r.Record().Timestamp; at < low || at > high {
			t.Errorf("a record has timestamp %d", at)
		}
	}
	must.NoError(t, r.Err())
	if e.MinTime < low || e.MaxTime > high || stamped && e.MinTime != e.MaxTime {
		t.Errorf("the index has times %d to %d", e.MinTime, e.MaxTime)
	}
	return n
}

// TestRetriesOfStampedBatches checks that a producer's retry is a duplicate by its sequence,
// although the stored bytes and checksum differ from the sent ones. Nothing is stamped again.
func TestRetriesOfStampedBatches(t *testing.T) {
	store := objstore.NewMemory()
	l := open(t, options(store))
	id := stampedTopic(t, l, "a", 1)
	send := func(sequence int32, value string) log.Result {
		t.Helper()
		data, sum := recordtest.Encode([]record.Record{{Timestamp: 3, Value: []byte(value)}},
			record.EncodeOptions{Producer: &record.Producer{ID: 9, Sequence: sequence}})
		sent := string(data)
		r := wait(t, l.Submit([]log.Append{{Data: data, Head: core.Append{
			Span: 1, Records: 1, Bytes: uint32(len(data)), MinTime: sum.MinTimestamp, MaxTime: sum.MaxTimestamp, Expected: -1, Topic: id,
			Idempotent: true, Producer: state.ProducerBatch{ID: 9, Sequence: sequence, Span: 1},
		}}}))[0]
		must.NoError(t, r.Err())
		if changed := string(data) != sent; changed == r.Duplicate {
			t.Errorf("duplicate %v, bytes changed %v", r.Duplicate, changed)
		}
		return r
	}
	first, second := send(0, "a"), send(1, "b")
	stored := stampsOf(t, l, store, id)
	for i, want := range []log.Result{first, second} {
		if got := send(int32(i), "a"); !got.Duplicate || got.Base != want.Base {
			t.Errorf("retry of %+v gives %+v", want, got)
		}
		check.Equalf(t, stored[i], want.Time/1000, "record %d has timestamp, append time is %d", i, want.Time)
	}
	again := stampsOf(t, l, store, id)
	if fmt.Sprint(again) != fmt.Sprint(stored) || len(stored) != 2 {
		t.Errorf("%v, then %v", stored, again)
	}
	l.Kill()
	l = open(t, options(store)) // duplicates are recognized by the log, not by memory
	if got := send(1, "b"); !got.Duplicate || got.Base != second.Base {
		t.Errorf("%+v", got)
	}
}

// stampsOf returns the timestamps of a topic's records.
func stampsOf(t *testing.T, l *log.Log, s objstore.Store, id record.ID) (stamps []int64) {
	t.Helper()
	l.Read(func(st *state.State) {
		for _, g := range st.Topic(id).Partitions.At(0).Ranges {
			b := whole(t, s, st.RangeKey(&g))[g.Pos:][:g.Len]
			var r record.Reader
			for r.Reset(b, g.Base); r.Next(); {
				stamps = append(stamps, r.Record().Timestamp)
			}
			must.NoError(t, r.Err())
		}
	})
	return stamps
}
