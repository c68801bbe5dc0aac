package state_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// next starts another epoch.
func (l *log) next() {
	l.t.Helper()
	h := l.head(record.KindSeal)
	h.NextEpoch = h.Epoch + 1
	h.NextNonce[0] = 0xee
	binary.BigEndian.PutUint32(h.NextNonce[4:], h.NextEpoch)
	must.NoError(l.t, l.s.Apply(&h, nil, nil))
}

// named fails the test if the object of a range has no name.
func (l *log) named() {
	l.t.Helper()
	for _, t := range l.s.Topics() {
		for _, p := range t.Partitions.All() {
			for i := range p.Ranges {
				if l.s.RangeKey(&p.Ranges[i]) == "" {
					l.t.Fatalf("no name for %+v at %+v", p.Ranges[i], l.s.Pos)
				}
			}
		}
	}
}

func numbers(s *state.State) (n []uint32) {
	for _, e := range s.Epochs {
		n = append(n, e.Number)
	}
	return n
}

// TestStartsDoNotGrowTheState checks that ten thousand epochs, each with data that is trimmed
// later, leave a state no larger than a hundred do.
func TestStartsDoNotGrowTheState(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{create(1, "a", 1)})
	size := 0
	for i := range 10_000 {
		l.must([]state.Record{{Kind: state.TopicTrim, Topic: record.ID{1}, Offset: max(0, int64(i)-5)}}, entry(1, 0, int64(i), 1))
		l.named()
		l.next()
		if i < 100 || i%50 > 0 {
			continue
		}
		if n := len(state.EncodeSnapshot(l.s)); i == 100 {
			size = n
		} else if n > size+64 {
			t.Fatalf("after %d starts a snapshot is %d bytes, after 100 it was %d", i, n, size)
		}
	}
	check.Equalf(t, len(l.s.Epochs), state.EpochsKept+1, "epochs are known")
	t.Logf("%d bytes", size)
}

// TestEpochsWithDataStay checks that an epoch stays known while a range or a pack lies in it or a
// partition's newest record is its. Equal logs give equal states, also when the fold starts from a
// snapshot.
func TestEpochsWithDataStay(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{create(1, "slots", 1), create(2, "packed", 1)}, entry(1, 0, 0, 2), entry(2, 0, 0, 3))
	l.next() // 2
	l.must(nil, entry(1, 0, 2, 1))
	l.next() // 3
	at := l.s.TopicByName("packed").Partitions.At(0).Ranges[0]
	packed := at
	packed.Pack, packed.Slot, packed.Pos = true, 1, 192
	l.must([]state.Record{{Kind: state.PackInstall, Pack: &state.PackContent{ID: 1, Size: 500, Entries: []state.PackEntry{{
		Topic: record.ID{2}, Range: packed, Sources: []state.Source{at.Source()},
	}}}}})
	half := l.s.View()
	verify := func(l *log, want ...uint32) {
		t.Helper()
		for range 40 {
			l.next()
			l.named()
		}
		got := numbers(l.s)
		if old := got[:len(got)-state.EpochsKept-1]; !slices.Equal(old, want) {
			t.Errorf("old epochs %v are known, want %v", old, want)
		}
	}
	verify(l, 1, 2, 3)
	again := must.Get(state.DecodeSnapshot(state.EncodeSnapshot(half)))(t)
	other := &log{t: t, s: again}
	verify(other, 1, 2, 3)
	check.Equalf(t, string(state.EncodeSnapshot(l.s)), string(state.EncodeSnapshot(other.s)), "the fold from a snapshot gives another state")
	l.must([]state.Record{{Kind: state.TopicTrim, Topic: record.ID{1}, Offset: 3}})
	verify(l, 1, 2, 3) // 1: newest record of the other topic
	l.must([]state.Record{{Kind: state.TopicDelete, Topic: record.ID{2}}})
	verify(l, 2)
	l.must([]state.Record{{Kind: state.TopicDelete, Topic: record.ID{1}}})
	verify(l)
	check.EqualSlicesf(t, numbers(half), []uint32{0, 1, 2, 3}, "a view has changed")
}
