package state_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// rich returns a log with every kind of state record.
func rich(t testing.TB) *log {
	l := newLog(t)
	src := sebtest.Source{B: bytes.Repeat([]byte{3, 7, 1, 9, 4, 2, 250, 11, 5, 6, 8, 17, 200}, 200)}
	for range 40 {
		l.step(&src)
	}
	return l
}

// proposal returns an arbitrary record that a broker may propose. It draws from few topics,
// partitions and groups, so that records interact.
func proposal(src *sebtest.Source, c *state.State) state.Record {
	r := state.Record{
		Kind: sebtest.Pick(src, state.TopicCreate, state.TopicDelete, state.TopicChange, state.TopicTrim, state.OffsetCommit, state.OffsetDelete,
			state.PackInstall, state.CompactionDone, state.AccessChange, state.ProducersForget, state.QueueUpdate),
		Topic: topicOf(src, c), Partition: uint32(src.Int(3)),
	}
	switch r.Kind {
	case state.TopicCreate:
		for r.Topic = (record.ID{1 + src.Byte(), byte(c.Pos.Slot), byte(c.Pos.Epoch)}); c.Topic(r.Topic) != nil; {
			r.Topic[3]++ // topic IDs are unique
		}
		r.Name, r.Partitions = sebtest.Pick(src, "a", "b", "c"), 1+uint32(src.Int(3))
		r.Settings = map[string]string{"compression": sebtest.Pick(src, "zstd", "none"), state.QueueSetting: sebtest.Pick(src, "", "{}")}
	case state.TopicChange:
		r.Partitions = uint32(src.Int(5))
	case state.TopicTrim:
		r.Offset = int64(src.Int(20))
	case state.OffsetCommit:
		r.Name, r.Offset, r.Metadata, r.Time = sebtest.Pick(src, "g", "h"), int64(src.Uint64()>>1), string(src.Bytes(3)), int64(src.Byte())
	case state.OffsetDelete:
		if r.Name = sebtest.Pick(src, "g", "h"); src.Bool() {
			r.Topic = record.ID{}
		}
	case state.PackInstall:
		r.Topic, r.Pack = record.ID{}, &state.PackContent{ID: 1 + uint64(src.Int(5)), Size: 1000}
	case state.CompactionDone:
		r.Clean = state.Compaction{To: int64(src.Byte()), Swept: int64(src.Byte()), Tombstones: uint32(src.Int(2)), Time: int64(src.Byte())}
	case state.QueueUpdate:
		r.Queue = queueChange(src)
	case state.ProducersForget:
		r.Topic, r.Partition = record.ID{}, 0
		r.Time, r.Owner = c.AppendTime-int64(src.Int(20)), uint32(src.Int(3))
	case state.AccessChange:
		if c.Level < state.LevelMax {
			return state.RaiseTo(state.LevelMax)
		}
		r.Topic, r.Partition, r.Access = record.ID{}, 0, accessChange(src, c.Access.Version)
	}
	return r
}

// accessChange returns an arbitrary change of principals, rules and quotas.
func accessChange(src *sebtest.Source, base uint64) *access.Change {
	a := &access.Change{Base: base}
	id := func() string { return sebtest.Pick(src, "ann", "bob") }
	for range 1 + src.Int(3) {
		switch src.Int(6) {
		case 0:
			a.Put = append(a.Put, access.Principal{ID: id(), Created: 1, Secrets: []access.Secret{{ID: 1 + uint64(src.Byte()), Hash: [32]byte{1}}}})
		case 1:
			a.Delete = append(a.Delete, id())
		case 2, 3:
			r := access.Rule{Principal: id(), Resource: access.Topic, Name: sebtest.Pick(src, "t", access.Any), Operation: access.Read, Host: access.Any}
			if src.Bool() {
				a.PutRules = append(a.PutRules, r)
			} else {
				a.DeleteRules = append(a.DeleteRules, r)
			}
		case 4:
			a.PutQuotas = append(a.PutQuotas, access.Quota{Principal: sebtest.Pick(src, "ann", access.Any), ProduceBytes: uint64(src.Byte()), Requests: 1 + uint64(src.Int(3))})
		case 5:
			a.DeleteQuotas = append(a.DeleteQuotas, sebtest.Pick(src, "ann", access.Any))
		}
	}
	return a
}

// queueChange returns an arbitrary change of a queue, also of messages that are done, trimmed or not there.
func queueChange(src *sebtest.Source) *state.QueueChange {
	q := &state.QueueChange{}
	for at := int64(src.Int(8)); len(q.Runs) < src.Int(6); {
		run := state.QueueRun{Base: at, Span: 1 + int64(src.Int(5)), State: sebtest.Pick(src, state.QueueDone, state.QueueWaiting, state.QueueLeased)}
		if run.State != state.QueueDone {
			run.Until, run.Deliveries = int64(src.Byte()), uint32(src.Int(4))
		}
		if run.State == state.QueueLeased {
			run.Epoch = uint32(src.Int(3))
		}
		q.Runs = append(q.Runs, run)
		at = run.End() + int64(src.Int(4))
	}
	if src.Bool() {
		q.Tries = []state.QueueTry{{Offset: int64(src.Int(20)), By: "ann", Reason: string(src.Bytes(3))}}
	}
	if src.Bool() {
		q.Sent = &state.QueueSent{Hash: record.ID{src.Byte()}, Offset: int64(src.Int(20)), Until: int64(src.Byte())}
	}
	if src.Bool() {
		q.Schedule = &state.QueueSchedule{Name: sebtest.Pick(src, "s", "t"), Spec: sebtest.Pick(src, "", "x"), Next: int64(src.Byte())}
	}
	return q
}

// topicOf returns the ID of one of the topics, or an unknown ID.
func topicOf(src *sebtest.Source, s *state.State) record.ID {
	topics := s.Topics()
	if i := src.Int(len(topics) + 1); i < len(topics) {
		return topics[i].ID
	}
	return record.ID{99, 99}
}

// pack adds sources that lie in the state, or that it no longer contains.
func (l *log) pack(src *sebtest.Source, c *state.PackContent) {
	for _, t := range l.s.Topics() {
		for i, p := range t.Partitions.All() {
			n := len(p.Ranges)
			if n == 0 || src.Bool() {
				continue
			}
			from := src.Int(min(n, 256))
			e := state.PackEntry{Topic: t.ID, Partition: uint32(i)}
			for _, r := range p.Ranges[from:min(n, from+1+src.Int(3))] {
				if len(e.Sources) == 0 {
					e.Range = state.Range{Base: r.Base, Pack: true, Pos: 192}
				}
				e.Range.Span += r.Span
				e.Range.Records += r.Records
				e.Range.Len += r.Len
				source := r.Source()
				if src.Int(8) == 0 {
					source.Slot++
				}
				e.Sources = append(e.Sources, source)
			}
			c.Entries = append(c.Entries, e)
		}
	}
}

// written reports whether a partition has records.
func (l *log) written(topic record.ID, partition uint32) bool {
	t := l.s.Topic(topic)
	return t != nil && int(partition) < t.Partitions.Len() && t.Partitions.At(int(partition)).Next > 0
}

// step writes one slot with data and with the records that a catalog accepts.
func (l *log) step(src *sebtest.Source) {
	if src.Int(8) == 0 {
		l.sealOrLose(src)
		return
	}
	c := l.s.Catalog()
	var recs []state.Record
	for range src.Int(4) {
		r := proposal(src, c)
		if r.Kind == state.PackInstall {
			l.pack(src, r.Pack)
		}
		if r.Kind == state.CompactionDone && !l.written(r.Topic, r.Partition) {
			continue // a broker compacts what it has read
		}
		if c.Propose(&r) == nil {
			recs = append(recs, r)
		}
	}
	var index []record.IndexEntry
	used := map[state.PartitionID]bool{}
	c.Freezing(l.head(record.KindData).Time)
	for range src.Int(3) {
		e := entry(0, uint32(src.Int(3)), 0, 1+uint32(src.Int(5)))
		e.Topic = topicOf(src, c)
		at := state.PartitionID{Topic: e.Topic, Partition: e.Partition}
		if used[at] { // one entry per partition and object
			continue
		}
		base, err := c.Reserve(e.Topic, e.Partition, e.Span, -1)
		if err != nil {
			continue
		}
		e.Base, used[at] = base, true
		index = append(index, e)
		if b := (state.ProducerBatch{ID: int64(src.Int(3)), Epoch: int16(src.Int(2)), Sequence: int32(src.Int(9)), Span: e.Span}); src.Bool() {
			r := state.Record{Kind: state.ProducerAppend, Topic: e.Topic, Partition: e.Partition, Offset: base, Producer: b}
			if c.Level >= state.LevelProducers {
				r.Owner = uint32(src.Int(3))
			}
			if t := c.TransactionOf(producerOf(src)); t != nil && src.Bool() {
				r.Producer.ID, r.Producer.Epoch, r.Transactional = t.Producer, t.Epoch, true
			}
			must.NoError(l.t, c.Propose(&r))
			recs = append(recs, r)
		}
	}
	recs, index = transacted(src, c, recs, index)
	if c.Level >= state.LevelStandby && src.Bool() {
		recs = append(recs, within(1+uint32(src.Byte())))
	}
	l.must(recs, index...)
	if l.s.Len() != c.Len() {
		l.t.Fatalf("the catalog has %d topics, the state %d", c.Len(), l.s.Len())
	}
	if c.Memory().Tables != l.s.Memory().Tables {
		l.t.Fatalf("memory of the catalog %+v, of the state %+v", c.Memory(), l.s.Memory())
	}
	sameProducers(l.t, c, l.s)
	must.Equalf(l.t, transactionsOf(c), transactionsOf(l.s), "transactions of the catalog, and of the state")
	for _, t := range c.Topics() {
		for i, p := range t.Partitions.All() {
			if q := l.s.Topic(t.ID).Partitions.At(i); p.Next != q.Next || p.Start != q.Start {
				l.t.Fatalf("%s/%d: the catalog has [%d, %d), the state [%d, %d)", t.Name, i, p.Start, p.Next, q.Start, q.Next)
			}
		}
	}
}

// sameProducers checks that a catalog knows the producers of its committed state.
func sameProducers(t testing.TB, c, s *state.State) {
	t.Helper()
	if c.Producers() != s.Producers() {
		t.Fatalf("the catalog has %d producers, the state %d", c.Producers(), s.Producers())
	}
	held := map[uint32]int{}
	for _, topic := range s.Topics() {
		for i, p := range topic.Partitions.All() {
			for want := range p.Producers.All() {
				held[want.Owner]++
				k := state.ProducerKey{PartitionID: state.PartitionID{Topic: topic.ID, Partition: uint32(i)}, ID: want.ID}
				if got, known := c.Producer(k); !known || got != *want {
					t.Fatalf("%+v: the catalog has %+v (%v), the state %+v", k, got, known, *want)
				}
			}
		}
	}
	for owner := range uint32(4) {
		if got := c.ProducersHeld(owner); got != held[owner] {
			t.Fatalf("owner %d: the catalog has %d producers, the state %d", owner, got, held[owner])
		}
	}
}

// wellFormed checks the invariants of a state.
func wellFormed(t testing.TB, s *state.State) {
	live := map[state.PackID]int64{}
	if counted := recounted(t, s); s.Memory() != counted {
		t.Fatalf("memory %+v, counted %+v", s.Memory(), counted)
	}
	for _, topic := range s.Topics() {
		if s.Topic(topic.ID) != topic || s.TopicByName(topic.Name) != topic || topic.Partitions.Len() == 0 {
			t.Fatalf("topic %q is not found by its ID and name", topic.Name)
		}
		for i, p := range topic.Partitions.All() {
			next, bytes, records := p.Next, int64(0), int64(0)
			for j, r := range p.Ranges {
				if j > 0 && p.Ranges[j-1].End() != r.Base || r.Span == 0 || r.Records > r.Span {
					t.Fatalf("%s/%d: %+v", topic.Name, i, p.Ranges)
				}
				if r.Pack {
					live[state.PackID{Epoch: r.Epoch, ID: r.Slot}] += int64(r.Len)
				}
				bytes += int64(r.Len)
				records += int64(r.Records)
			}
			if n := len(p.Ranges); n > 0 {
				next = p.Ranges[n-1].End()
				if p.Ranges[0].End() <= p.Start {
					t.Fatalf("%s/%d: start offset %d, first range %+v", topic.Name, i, p.Start, p.Ranges[0])
				}
			} else if p.Start != p.Next {
				t.Fatalf("%s/%d: no ranges for [%d, %d)", topic.Name, i, p.Start, p.Next)
			}
			wellFormedTransactions(t, s, state.PartitionID{Topic: topic.ID, Partition: uint32(i)}, p)
			if p.Start < 0 || p.Start > p.Next || next != p.Next || bytes != p.Bytes || records != p.Records || len(p.Marks) > state.MarksMax {
				t.Fatalf("%s/%d: %+v", topic.Name, i, p)
			}
		}
	}
	for _, id := range s.Packs() {
		if p, _ := s.PackOf(id); p.Live != live[id] || p.Live > p.Size {
			t.Fatalf("pack %+v: %+v, but %d bytes are live", id, p, live[id])
		}
	}
}

// FuzzFold checks that the fold accepts every record that a catalog accepts, with the same result.
// The state keeps its invariants, a view of it does not change, and its snapshot restores it: then the same objects
// give the same state.
func FuzzFold(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{3, 7, 1, 9, 4, 2, 250, 11, 5, 6, 8, 17, 200}, 10))
	for seed := range byte(100) {
		b := make([]byte, 1000)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l := newLog(t)
		src := sebtest.Source{B: b}
		var views []*state.State
		var then [][]byte
		for i := 0; !src.Done() && i < 40; i++ {
			l.step(&src)
			if i%4 == 3 {
				l.also = must.Get(state.DecodeMessage(state.EncodeMessage(l.s)))(t)
			}
			if i%4 == 2 {
				if l.also != nil && !bytes.Equal(state.EncodeMessage(l.also), state.EncodeMessage(l.s)) {
					t.Fatal("the state of a snapshot becomes another one")
				}
				views = append(views, l.s.View())
				then = append(then, state.EncodeMessage(l.s))
			}
		}
		wellFormed(t, l.s)
		for i := range views {
			if !bytes.Equal(state.EncodeMessage(views[i]), then[i]) {
				t.Fatal("a view changed with its state")
			}
		}
		message := state.EncodeMessage(l.s)
		back := must.Get(state.DecodeMessage(message))(t)
		wellFormed(t, back)
		if !bytes.Equal(state.EncodeMessage(back), message) {
			t.Fatal("decoding gives another state")
		}
	})
}

// FuzzDecodeMessage checks that a decoded snapshot message is a state that keeps its invariants,
// except for the sums of packs, and is encoded to the same bytes. Memory is bounded by the size of
// the message.
func FuzzDecodeMessage(f *testing.F) {
	f.Add(state.EncodeMessage(sample(f).s))
	f.Add(state.EncodeMessage(rich(f).s))
	f.Add(state.EncodeMessage(state.Genesis(cluster, 0)))
	full := newLog(f)
	full.must([]state.Record{state.RaiseTo(state.LevelMax), {Kind: state.AccessChange, Access: everyChange()}})
	must.NoError(f, full.sealWith(sealedBy(run)))
	full.must([]state.Record{within(1000)})
	f.Add(state.EncodeMessage(full.s))
	f.Add(state.EncodeMessage(transactional(f).s))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s *state.State
		var err error
		// A partition of two bytes becomes a struct, a range of eleven bytes another; an empty
		// state has some maps.
		sebtest.Allocates(t, 160*len(b)+16<<10, b, func() { s, err = state.DecodeMessage(b) })
		if err != nil {
			return
		}
		again, err := state.DecodeMessage(state.EncodeMessage(s))
		if err != nil || !bytes.Equal(state.EncodeMessage(again), state.EncodeMessage(s)) {
			t.Fatalf("decoding gives another state: %v", err)
		}
		for _, topic := range s.Topics() {
			for _, p := range topic.Partitions.All() {
				if p.Start < 0 || p.Next < p.Start || len(p.Ranges) > 0 && p.Ranges[len(p.Ranges)-1].End() != p.Next {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

// fixSnapshot corrects lengths and checksums.
func fixSnapshot(b []byte) {
	if len(b) < 32 {
		return
	}
	le := binary.LittleEndian
	le.PutUint64(b[16:], uint64(len(b)-32))
	le.PutUint32(b[24:], record.CRC32C(b[32:]))
	le.PutUint32(b[28:], record.CRC32C(b[:28]))
}

// FuzzDecodeSnapshot checks that bytes are either a snapshot of this version or an error, and that
// every flipped bit is detected. A body decompresses to the size in the head and takes no more
// memory than that, whatever it claims.
func FuzzDecodeSnapshot(f *testing.F) {
	good := state.EncodeSnapshot(sample(f).s)
	f.Add(good, uint32(5))
	f.Add(state.EncodeSnapshot(state.Genesis(cluster, 0)), uint32(3000))
	z, err := zstd.NewWriter(nil)
	must.NoError(f, err)
	f.Add(append(bytes.Clone(good[:32]), z.EncodeAll(make([]byte, 4<<20), nil)...), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, bit uint32) {
		b = bytes.Clone(b)
		fixSnapshot(b)
		var s *state.State
		var err error
		bound := 3<<20 + 200*len(b) // two windows, and tables
		if len(b) >= 32 {
			if size := binary.LittleEndian.Uint64(b[8:]); size < uint64(64*len(b)+1024) {
				bound += int(2 * size)
			} else {
				bound = math.MaxInt // decoded as a stream
			}
		}
		sebtest.Allocates(t, bound, b, func() { s, err = state.DecodeSnapshot(b) })
		if err != nil {
			if !errors.Is(err, state.ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		if v := binary.LittleEndian.Uint16(b[4:]); v != 1 {
			t.Fatalf("version %d is accepted", v)
		}
		if back, err := state.DecodeSnapshot(state.EncodeSnapshot(s)); err != nil || !bytes.Equal(state.EncodeMessage(back), state.EncodeMessage(s)) {
			t.Fatalf("decoding gives another state: %v", err)
		}
		at := int(bit/8) % len(b)
		b[at] ^= 1 << (bit % 8)
		if _, err := state.DecodeSnapshot(b); err == nil {
			t.Fatalf("flipping bit %d of byte %d was not detected", bit%8, at)
		}
	})
}

// TestSnapshotWithHugeClaim checks that decoding allocates no memory for a claimed size.
func TestSnapshotWithHugeClaim(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	must.NoError(t, err)
	bomb := z.EncodeAll(make([]byte, 64<<20), nil)
	for _, claim := range []uint64{100, 1 << 20, 512 << 20, math.MaxUint64} {
		for name, body := range map[string][]byte{
			"a bomb":      bomb,
			"a claim":     []byte("\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x30" + strings.Repeat("\x00", 31)),
			"a few bytes": []byte("nothing"),
		} {
			b := append(bytes.Clone(state.EncodeSnapshot(state.Genesis(cluster, 0))[:32]), body...)
			binary.LittleEndian.PutUint64(b[8:], claim)
			fixSnapshot(b)
			if name == "a bomb" && claim == 512<<20 {
				continue // decoded as a stream up to the actual size
			}
			sebtest.Allocates(t, 6<<20, nil, func() {
				if _, err := state.DecodeSnapshot(b); !errors.Is(err, state.ErrSnapshot) {
					t.Errorf("%s, %d bytes claimed: %v", name, claim, err)
				}
			})
		}
	}
}

// FuzzDecodeRecords checks that decoded records encode to the same bytes, in memory bounded by the
// input.
func FuzzDecodeRecords(f *testing.F) {
	src := sebtest.Source{B: bytes.Repeat([]byte{3, 7, 1, 9, 4, 2, 250, 11, 5, 6, 8, 17, 200}, 30)}
	l := rich(f)
	for range 8 {
		var recs []state.Record
		for range 4 {
			r := proposal(&src, l.s)
			if r.Kind == state.PackInstall {
				l.pack(&src, r.Pack)
			}
			recs = append(recs, r)
		}
		f.Add(state.EncodeRecords(nil, recs))
	}
	f.Add(state.EncodeRecords(nil, []state.Record{
		{Kind: state.LeaderHint, Name: "x:1"},
		done(state.Compaction{To: 5, Swept: 3, Tombstones: 1, Time: 77}),
		{Kind: state.ProducerAppend, Topic: record.ID{1}, Offset: 9, Producer: state.ProducerBatch{ID: 7, Epoch: -1, Sequence: math.MaxInt32, Span: 3}},
	}))
	f.Add(state.EncodeRecords(nil, []state.Record{{Kind: state.AccessChange, Access: everyChange()}}))
	f.Add(state.EncodeRecords(nil, []state.Record{sealedBy(run), within(60_000)}))
	f.Add(state.EncodeRecords(nil, []state.Record{initialized("x", 10, -1), batchOf(10, 3), stagedBy("x"), aborted("x", 4)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var recs []state.Record
		var err error
		sebtest.Allocates(t, 200*len(b)+8<<10, b, func() { recs, err = state.DecodeRecords(b) })
		if err != nil {
			return
		}
		again, err := state.DecodeRecords(state.EncodeRecords(nil, recs))
		if err != nil || !reflect.DeepEqual(again, recs) {
			t.Fatalf("%v: %+v, %+v", err, recs, again)
		}
		for i := range recs {
			if k := recs[i].Kind; k < state.TopicCreate || k > state.TransactionUpdate || recs[i].Offset < 0 {
				t.Fatalf("%+v", recs[i])
			}
		}
	})
}

// FuzzCheckSettings checks that an accepted value has one canonical form, which is itself accepted
// and has the same meaning. An error names the setting.
func FuzzCheckSettings(f *testing.F) {
	for name, values := range map[string]string{
		"retention-time": "7d 168h0m0s unlimited -1 1ns 100001d 100000d9000000h -5s", "retention-bytes": "1GiB 0 -1 999999999999999999TiB", "cleanup-policy": "compact compact,delete x",
		"key-index": "1 t FALSE maybe", "max-batch-bytes": "128B 31457280 31457281", "min-compaction-lag": "1d12h 106751d23h47m16.854775807s 106751d23h47m16.854s 9223372036854775807ms 106751991167d7h12m55.807s", "nothing": "x",
		"min-cleanable-dirty-ratio": "0 -0 1 1.0 0.50 1e-400 0x1p-1 NaN -0.1 1.1 x",
	} {
		for v := range strings.SplitSeq(values, " ") {
			f.Add(name, v)
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		got, err := state.CheckSettings(map[string]string{name: value})
		if err != nil {
			if len(name) < 100 && !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) && !strings.Contains(err.Error(), name) {
				t.Fatalf("%q is not named: %v", name, err)
			}
			return
		}
		again, err := state.CheckSettings(got)
		if err != nil || !maps.Equal(again, got) {
			t.Fatalf("%q=%q is %v, then %v, %v", name, value, got, again, err)
		}
		s := state.Resolve(got)
		if s != state.Resolve(map[string]string{name: got[name]}) || s.RetentionTime < state.Unlimited || s.RetentionBytes < state.Unlimited || s.DeleteRetentionTime < 0 ||
			s.MinCompactionLag < 0 || s.MaxBatchBytes < 0 || s.MaxBatchBytes > 30<<20 || s.MinDirtyRatio < 0 || s.MinDirtyRatio > 1 {
			t.Fatalf("%q=%q is %+v", name, value, s)
		}
	})
}

// FuzzCheckTopicName checks that a valid name is a single element of a path, an object name and a
// URL.
func FuzzCheckTopicName(f *testing.F) {
	for _, s := range []string{"a", "A.b_c-9", "..", ".", "...", "a/b", "a b", "ä", "a\x00", "", "%2e%2e", "..\\a", strings.Repeat("x", 249), strings.Repeat("x", 250), "a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := state.CheckTopicName(name)
		if err != nil {
			if len(err.Error()) > 3000 {
				t.Fatalf("error message of %d bytes", len(err.Error()))
			}
			return
		}
		if !filepath.IsLocal(name) || filepath.Base(name) != name || strings.ContainsAny(name, "/\\%?#&+ \x00\r\n") || len(name) > 249 || !objstore.ValidKey(name) {
			t.Fatalf("%q is allowed", name)
		}
	})
}

// TestNameTakenAgainInOneObject checks that a name may be taken, freed and taken again within one
// object.
func TestNameTakenAgainInOneObject(t *testing.T) {
	l := sample(t)
	c := l.s.Catalog()
	recs := []state.Record{create(7, "c", 1), {Kind: state.TopicDelete, Topic: record.ID{7}}, create(8, "c", 2), {Kind: state.TopicDelete, Topic: record.ID{1}}, create(9, "a", 1)}
	for i := range recs {
		must.NoError(t, c.Propose(&recs[i]))
	}
	l.must(recs)
	if got := l.s.TopicByName("c"); got == nil || got.ID != (record.ID{8}) || got.Partitions.Len() != 2 || l.s.TopicByName("a").ID != (record.ID{9}) {
		t.Errorf("%+v", got)
	}
}

// FuzzNames checks that a parsed name is built again to the same bytes, and belongs to only one
// kind of object.
func FuzzNames(f *testing.F) {
	nonce := record.ID{0xab, 1}
	pos := state.Position{Epoch: 7, Slot: 1 << 40}
	for _, key := range []string{
		state.SlotKey(0, 7, nonce, 99), state.PackKey(0, 7, nonce, 99), state.SnapKey(0, pos, nonce), strings.ToUpper(state.SnapKey(0, pos, nonce)), "", "s0000/wal/",
	} {
		f.Add(uint32(0), key)
		f.Add(uint32(12345), strings.Replace(key, "s0000", "s12345", 1))
	}
	f.Fuzz(func(t *testing.T, shard uint32, key string) {
		kinds := 0
		if epoch, id, slot, ok := state.ParseSlotKey(shard, key); ok {
			if kinds++; state.SlotKey(shard, epoch, id, slot) != key {
				t.Fatalf("%q parses as slot %d of epoch %d-%s", key, slot, epoch, id)
			}
		}
		if epoch, id, number, ok := state.ParsePackKey(shard, key); ok {
			if kinds++; state.PackKey(shard, epoch, id, number) != key {
				t.Fatalf("%q parses as pack %d of epoch %d-%s", key, number, epoch, id)
			}
		}
		if p, id, ok := state.ParseSnapKey(shard, key); ok {
			if kinds++; state.SnapKey(shard, p, id) != key {
				t.Fatalf("%q parses as the snapshot at %+v of %s", key, p, id)
			}
		}
		if kinds > 1 || kinds == 1 && !objstore.ValidKey(key) {
			t.Fatalf("%q parses as %d names", key, kinds)
		}
	})
}
