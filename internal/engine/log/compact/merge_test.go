package compact_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// config merges early: packs of 64 KiB, at once.
var config = compact.Policy{Target: 64 << 10, Age: time.Microsecond, Small: 3}

func openBroker(t *testing.T, store objstore.Store) *broker.Broker {
	t.Helper()
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Options:    log.Options{Store: store, Core: core.Config{SnapshotSlots: 20}, Batch: log.Config{Wait: time.Microsecond}},
		AutoCreate: true,
	}))(t)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func newMerger(t *testing.T, b *broker.Broker, store objstore.Store) *compact.Merger {
	m := compact.Open(compact.Options{Log: b, Store: store, TempDir: t.TempDir(), Policy: config, Every: time.Hour, Checksums: true})
	t.Cleanup(m.Close)
	return m
}

// written is the acknowledged values of each topic, in order.
type written map[string][]string

// write appends to several topics; some partitions get much more data than others.
func (w written) write(t *testing.T, b *broker.Broker, n int) {
	t.Helper()
	for i := range n {
		topic := fmt.Sprint("t", i%5)
		must.NoError(t, b.EnsureTopic(t.Context(), topic))
		size := 20
		if i%5 == 0 {
			size = 3000
		}
		v := fmt.Sprintf("%s-%d-%s", topic, len(w[topic]), strings.Repeat("x", rand.IntN(size)))
		brokertest.Produce(t, b, topic, 0, record.Record{Value: []byte(v), Timestamp: 1})
		w[topic] = append(w[topic], v)
	}
}

// check reads everything back.
func (w written) check(t *testing.T, b *broker.Broker) {
	t.Helper()
	for topic, want := range w {
		next := int64(0)
		end := brokertest.Each(t, b, topic, 0, 0, func(r *record.Record) {
			if r.Offset != next || string(r.Value) != want[next] {
				t.Fatalf("%s offset %d (want %d) is %.40q", topic, r.Offset, next, r.Value)
			}
			next++
		})
		if next != end || end != int64(len(want)) {
			t.Fatalf("%s: %d records up to %d, want %d", topic, next, end, len(want))
		}
	}
}

func mergeAll(t *testing.T, m *compact.Merger) (n int) {
	t.Helper()
	for range 1000 {
		made := must.Get(m.Once(t.Context()))(t)
		if !made {
			return n
		}
		n++
	}
	t.Fatal("merging does not end")
	return n
}

func count(t *testing.T, store objstore.Store, prefix string) int {
	t.Helper()
	n, o := 0, objstore.ListOptions{Prefix: prefix}
	for {
		entries, more := must.Get2(store.List(t.Context(), o))(t)
		if n += len(entries); !more {
			return n
		}
		o.After = entries[len(entries)-1].Key
	}
}

func ranges(b *broker.Broker) (n int) {
	view := b.View()
	if view == nil {
		return 0
	}
	for _, t := range view.Topics() {
		for _, p := range t.Partitions.All() {
			n += len(p.Ranges)
		}
	}
	return n
}

func stores(t *testing.T) map[string]objstore.Store {
	if testing.Short() {
		return map[string]objstore.Store{"memory": objstore.NewMemory()}
	}
	disk := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { disk.Close() })
	return map[string]objstore.Store{"memory": objstore.NewMemory(), "disk": disk}
}

// TestMergedDataReadsTheSame reads before and after merging, after a restart, and while commit
// objects are collected.
func TestMergedDataReadsTheSame(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w := written{}
			var b *broker.Broker
			for round := range 4 {
				b = openBroker(t, store)
				m := newMerger(t, b, store)
				w.write(t, b, 120)
				if n := mergeAll(t, m); n == 0 {
					t.Fatalf("round %d: nothing was merged", round)
				}
				w.check(t, b)
				w.write(t, b, 60) // triggers snapshots and collections
				w.check(t, b)
				m.Close()
				if round < 3 {
					b.Close(t.Context())
				}
			}
			mergeAll(t, newMerger(t, b, store))
			if n := ranges(b); n > 5*12+config.Small*5 {
				t.Errorf("%d ranges remain for five topics", n)
			}
			b.Close(t.Context())
			b = openBroker(t, store)
			w.check(t, b)
		})
	}
}

// TestMergingFreesObjects checks that the number of commit objects does not grow with the data.
func TestMergingFreesObjects(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	m := newMerger(t, b, store)
	w := written{}
	for range 12 {
		w.write(t, b, 100)
		mergeAll(t, m)
	}
	w.write(t, b, 45)
	deadline := time.Now().Add(30 * time.Second)
	for count(t, store, "s0000/wal/") > 150 {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 1245 commit objects remain", count(t, store, "s0000/wal/"))
		}
		w.write(t, b, 25) // commits trigger snapshots and collections
		// a collection needs time to overtake the writer on a busy machine
		time.Sleep(20 * time.Millisecond)
	}
	for count(t, store, "s0000/snap/") > 4 {
		if time.Now().After(deadline) {
			t.Fatalf("%d snapshots remain", count(t, store, "s0000/snap/"))
		}
		w.write(t, b, 25)
		time.Sleep(20 * time.Millisecond)
	}
	w.check(t, b)
}

// TestDamagedSourceIsNotMoved checks that other ranges are merged around an object that is damaged or
// has lost bytes, that it is tried once, and that it is not deleted.
func TestDamagedSourceIsNotMoved(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"a flipped bit":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"another offset": func(b []byte) []byte { b[record.HeadSize+record.IndexEntrySize+7] ^= 1; return b },
		"without a byte": func(b []byte) []byte { return b[:len(b)-1] },
		"without data":   func(b []byte) []byte { return b[:record.HeadSize] },
		"empty":          func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			store := objstore.NewMemory()
			b := openBroker(t, store)
			w := written{}
			w.write(t, b, 30)
			v := b.View()
			bad := v.TopicByName("t2").Partitions.At(0).Ranges[2]
			key := v.RangeKey(&bad)
			obj := must.Get(store.Get(t.Context(), key, objstore.Whole))(t)
			body := must.Get(io.ReadAll(obj.Body))(t)
			must.NoError(t, store.Delete(t.Context(), key))
			must.NoError(t, store.Put(t.Context(), key, objstore.NewBody(damage(body))))
			m := newMerger(t, b, store)
			failures := 0
			for range 10 {
				if _, err := m.Once(t.Context()); err != nil {
					failures++
				}
			}
			check.Equalf(t, failures, 1, "attempts failed")
			p := b.View().TopicByName("t2").Partitions.At(0)
			if i := p.Find(bad.Base); i < 0 || p.Ranges[i].Pack || p.Ranges[i].Source() != bad.Source() {
				t.Errorf("the damaged range moved: %+v", p.Ranges)
			}
			if i := p.Find(0); !p.Ranges[i].Pack {
				t.Errorf("the other ranges did not move: %+v", p.Ranges)
			}
			check.Equalf(t, count(t, store, key), 1, "the damaged object was deleted")
		})
	}
}

// cutting ends the first answer for each commit object early, without a verdict.
type cutting struct {
	objstore.Store
	seen map[string]bool
}

func (s *cutting) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	obj, err := s.Store.Get(ctx, key, r)
	if err == nil && !s.seen[key] && strings.Contains(key, "/wal/") {
		s.seen[key] = true
		cut := fmt.Errorf("%w: %w", objstore.ErrNoVerdict, io.ErrUnexpectedEOF)
		obj.Body = io.NopCloser(io.MultiReader(io.LimitReader(obj.Body, 10), iotest.ErrReader(cut)))
	}
	return obj, err
}

// TestBodyCutOffInTransitIsRetried checks that an answer that ends early is no damage of the object.
func TestBodyCutOffInTransitIsRetried(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	w := written{}
	w.write(t, b, 30)
	s := &cutting{Store: store, seen: map[string]bool{}}
	m := newMerger(t, b, s)
	for range 100 { // each fails until the answers for its objects are whole
		_, _ = m.Once(t.Context())
	}
	check.Equalf(t, len(s.seen) >= 30, true, "objects were cut off")
	for _, topic := range b.View().Topics() {
		for _, r := range topic.Partitions.At(0).Ranges {
			if !r.Pack {
				t.Errorf("%s: the range at %d was not merged", topic.Name, r.Base)
			}
		}
	}
	w.check(t, b)
}

// flipping damages the last byte of the first answer for each commit object.
type flipping struct {
	objstore.Store
	seen map[string]bool
}

func (s *flipping) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	obj, err := s.Store.Get(ctx, key, r)
	if err != nil || s.seen[key] || !strings.Contains(key, "/wal/") {
		return obj, err
	}
	s.seen[key] = true
	b, err := io.ReadAll(obj.Body)
	if err != nil {
		return obj, err
	}
	bad := append([]byte(nil), b...)
	bad[len(bad)-1] ^= 1
	obj.Body = io.NopCloser(strings.NewReader(string(bad)))
	return obj, nil
}

// TestDamageInTransitIsRetried checks that ranges are merged if their second read succeeds.
func TestDamageInTransitIsRetried(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	w := written{}
	w.write(t, b, 60)
	s := &flipping{Store: store, seen: map[string]bool{}}
	mergeAll(t, newMerger(t, b, s))
	if len(s.seen) < 50 {
		t.Errorf("%d objects were damaged", len(s.seen))
	}
	for _, topic := range b.View().Topics() {
		for _, r := range topic.Partitions.At(0).Ranges {
			if !r.Pack {
				t.Errorf("%s: the range at %d was not merged", topic.Name, r.Base)
			}
		}
	}
	w.check(t, b)
}

// TestIdleMergerDoesNothing checks that a merger is idle once everything is merged.
func TestIdleMergerDoesNothing(t *testing.T) {
	store := objstore.NewMemory()
	b := openBroker(t, store)
	w := written{}
	w.write(t, b, 50)
	m := newMerger(t, b, store)
	mergeAll(t, m)
	before := b.View().Pos
	for range 5 {
		if made, err := m.Once(t.Context()); made || err != nil {
			t.Fatalf("%v, %v", made, err)
		}
	}
	check.Equalf(t, b.View().Pos, before, "the log grew")
}
