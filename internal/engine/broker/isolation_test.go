package broker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// mixed is partition 0 of topic a with transactions, and what it must contain.
type mixed struct {
	t         *testing.T
	b         *broker.Broker
	producers []*transactor
	now       []*expectedTransaction // the open transaction of each producer, or nil
	offsets   []expectedOffset
	seen      map[string]int // shapes of answers
}

// expectedOffset is one offset: a record, or a marker.
type expectedOffset struct {
	value string // "": a marker
	of    *expectedTransaction
}

type expectedTransaction struct {
	state.AbortedTransaction
	open, aborted bool
}

var isolations = []broker.Isolation{broker.Committed, broker.Uncommitted, broker.RawCommitted, broker.Raw}

func newMixed(t *testing.T, b *broker.Broker) *mixed {
	m := &mixed{t: t, b: b, seen: map[string]int{}}
	create(t, b, "a", 1)
	for i := range 3 {
		m.producers = append(m.producers, newTransactor(t, b, fmt.Sprint("p", i)))
		m.now = append(m.now, nil)
	}
	return m
}

// step appends a record, or ends a transaction.
func (m *mixed) step() {
	next := int64(len(m.offsets))
	value := fmt.Sprint(next, strings.Repeat("z", []int{1, 100, 3000, 20_000}[rand.IntN(4)]))
	i := rand.IntN(len(m.producers) + 1)
	if i == len(m.producers) {
		check.Equal(m.t, mustProduce(m.t, m.b, "a", 0, value), next)
		m.offsets = append(m.offsets, expectedOffset{value: value})
		return
	}
	p := m.producers[i]
	if x := m.now[i]; x != nil && rand.IntN(4) == 0 {
		commit := rand.IntN(2) == 0
		p.ended(commit, rand.IntN(2) == 0)
		x.open, x.aborted, x.Last = false, !commit, next
		m.now[i] = nil
		m.offsets = append(m.offsets, expectedOffset{of: x})
		return
	}
	if m.now[i] == nil {
		m.now[i] = &expectedTransaction{AbortedTransaction: state.AbortedTransaction{Producer: p.now.ID, First: next}, open: true}
	}
	check.Equal(m.t, p.sent(0, value), next)
	m.offsets = append(m.offsets, expectedOffset{value, m.now[i]})
}

// end returns the end for a reader.
func (m *mixed) end(i broker.Isolation) int64 {
	if i == broker.Committed || i == broker.RawCommitted {
		for offset := range m.offsets {
			if x := m.offsets[offset].of; x != nil && x.open {
				return int64(offset)
			}
		}
	}
	return int64(len(m.offsets))
}

// verify reads from random offsets with all isolations.
func (m *mixed) verify(rounds int) {
	m.t.Helper()
	for range rounds {
		w := broker.Want{
			Topic: "a", Offset: rand.Int64N(int64(len(m.offsets) + 1)), MaxBytes: []int{1, 500, 50_000, 10 << 20}[rand.IntN(4)],
			Isolation: isolations[rand.IntN(len(isolations))],
		}
		f := one(m.t, m.b, w)
		m.verifyOne(&w, &f.Parts[0])
		f.Release()
	}
}

func (m *mixed) verifyOne(w *broker.Want, p *broker.FetchedPart) {
	m.t.Helper()
	must.NoError(m.t, p.Err)
	end := m.end(w.Isolation)
	check.Equal(m.t, p.LastStable, m.end(broker.Committed))
	if w.Isolation == broker.Committed {
		check.Equal(m.t, p.HighWatermark, end)
	} else {
		check.Equal(m.t, p.HighWatermark, int64(len(m.offsets)))
	}
	if len(p.Chunks) == 0 {
		check.Equalf(m.t, w.Offset >= end, true, "nothing at offset %d of %d with isolation %d", w.Offset, end, w.Isolation)
		check.Equal(m.t, len(p.Aborted), 0)
		return
	}
	at, got := p.Chunks[0].Base, []string(nil)
	if at > w.Offset || p.Chunks[0].End <= w.Offset {
		m.t.Fatalf("first chunk [%d,%d) at offset %d", at, p.Chunks[0].End, w.Offset)
	}
	for i := range p.Chunks {
		c := &p.Chunks[i]
		must.Equalf(m.t, c.Base, at, "beginning of chunk %d", i)
		got = m.decode(got, w, c)
		at = c.End
	}
	if slices.ContainsFunc(p.Chunks, func(c broker.Chunk) bool { return c.Section != nil }) && (at == end || slices.ContainsFunc(p.Chunks, func(c broker.Chunk) bool { return c.Size == 0 })) {
		m.seen["cut section"]++
	}
	if at > end {
		m.t.Fatalf("chunks end at %d, want at most %d", at, end)
	}
	var want []string
	var aborted []state.AbortedTransaction
	for _, o := range m.offsets[w.Offset:at] {
		if o.value != "" && (o.of == nil || !o.of.aborted || w.Isolation != broker.Committed) {
			want = append(want, o.value)
		}
	}
	must.Equalf(m.t, strings.Join(got, " "), strings.Join(want, " "), "records of [%d,%d) with isolation %d", w.Offset, at, w.Isolation)
	for _, o := range m.offsets {
		if x := o.of; w.Isolation == broker.RawCommitted && x != nil && x.aborted && x.First < at && x.Last >= w.Offset &&
			!slices.Contains(aborted, x.AbortedTransaction) {
			aborted = append(aborted, x.AbortedTransaction)
		}
	}
	if !slices.Equal(p.Aborted, aborted) {
		m.t.Fatalf("aborted in [%d,%d): %+v, want %+v", p.Chunks[0].Base, at, p.Aborted, aborted)
	}
}

// decode appends the records of a chunk, and checks that its batches are contiguous.
func (m *mixed) decode(list []string, w *broker.Want, c *broker.Chunk) []string {
	m.t.Helper()
	data, at, records := brokertest.Bytes(m.t, c), c.Base, int64(0)
	must.Equal(m.t, int64(len(data)), c.Size)
	raw := w.Isolation == broker.Raw || w.Isolation == broker.RawCommitted
	switch {
	case c.Size == 0:
		must.Equal(m.t, raw || c.Records != 0 || c.Section != nil || len(c.Parts) > 0, false)
		m.seen["left out"]++
		return list
	case c.Section == nil:
		m.seen["memory"]++
	}
	for rest := data; len(rest) > 0; {
		var batch record.Batch
		var err error
		if batch, rest, err = record.Split(rest); err != nil {
			m.t.Fatal(err)
		}
		must.Equal(m.t, batch.BaseOffset(), at)
		if batch.Control() && !raw {
			m.t.Fatalf("a marker at offset %d", at)
		}
		at += batch.Span()
		records += int64(batch.Count())
	}
	must.Equal(m.t, at, c.End)
	check.Equalf(m.t, records <= c.Records, true, "%d records, and %d at most", records, c.Records)
	var r record.Reader
	for r.Reset(data, w.Offset); r.Next(); {
		list = append(list, string(r.Record().Value))
	}
	must.NoError(m.t, r.Err())
	return list
}

// TestIsolation: for random offsets, sizes and isolations, the tail, the store and packs return what a model of the
// partition does, while transactions are open and after they have ended.
func TestIsolation(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		b := open(t, options(s))
		m := newMixed(t, b)
		for range 200 {
			m.step()
			m.verify(5)
		}
		kill(b)
		m.b = open(t, options(s)) // with an empty tail
		for range 2 {             // the second time as sections of files, if possible
			m.verify(300)
		}
		merger := compact.Open(compact.Options{
			Log: m.b, Store: s, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Age: time.Microsecond, Small: 2},
		})
		defer merger.Close()
		sebtest.Eventually(t, "one pack", func() bool {
			must.Get(merger.Once(t.Context()))(t)
			return len(m.b.View().TopicByName("a").Partitions.At(0).Ranges) == 1
		})
		for range 2 {
			m.verify(300)
		}
		_, local := s.(*objstore.Disk)
		check.Equalf(t, m.seen["cut section"] > 0, local, "sections")
		check.Equalf(t, m.seen["left out"] > 0 && m.seen["memory"] > 0, true, "shapes of answers %v", m.seen)
	})
}

// TestFetchWaitsForTheLastStableOffset: a fetch does not return before the transaction that hides its records ends, and
// then at once, although the marker has few bytes.
func TestFetchWaitsForTheLastStableOffset(t *testing.T) {
	for _, commit := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := open(t, options(objstore.NewMemory()))
			create(t, b, "a", 1)
			x := newTransactor(t, b, "x")
			x.sent(0, "one")
			began, got := time.Now(), make(chan *broker.Fetched)
			go func() {
				f, err := b.Fetch(t.Context(), []broker.Want{{Topic: "a"}}, 1500, time.Hour)
				check.NoError(t, err)
				got <- f
			}()
			synctest.Wait()
			mustProduce(t, b, "a", 0, strings.Repeat("z", 2000))
			x.sent(0, "two")
			time.Sleep(time.Minute - time.Second) // before the timeout of the transaction
			select {
			case <-got:
				t.Fatal("the fetch ended within the transaction")
			default:
			}
			x.ended(commit, true)
			f := <-got
			defer f.Release()
			check.Equalf(t, time.Since(began) < time.Hour, true, "the fetch ended at its timeout")
			check.Equal(t, f.Parts[0].Chunks[len(f.Parts[0].Chunks)-1].End, 4)
		})
	}
}
