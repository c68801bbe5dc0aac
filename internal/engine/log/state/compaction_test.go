package state_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

func done(c state.Compaction) state.Record {
	return state.Record{Kind: state.CompactionDone, Topic: record.ID{1}, Clean: c}
}

// TestCompactionMarks checks that tombstones may be removed once the compaction that reached them
// is old enough, and not before.
func TestCompactionMarks(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{create(1, "a", 1)}, entry(1, 0, 0, 100))
	part := func() *state.Partition { return l.s.TopicByName("a").Partitions.At(0) }
	l.must([]state.Record{done(state.Compaction{To: 10, Tombstones: 2, Time: 1000})})
	view := l.s.View()
	l.must([]state.Record{done(state.Compaction{To: 20, Time: 2000})})
	l.must([]state.Record{done(state.Compaction{To: 30, Tombstones: 1, Time: 3000})})
	if p := part(); p.Clean != 30 || !slices.Equal(p.Marks, []state.Mark{{Offset: 10, Time: 1000}, {Offset: 30, Time: 3000}}) {
		t.Fatalf("%d, %+v", p.Clean, p.Marks)
	}
	for before, want := range map[int64]int64{0: 0, 999: 0, 1000: 10, 2999: 10, 3000: 30, 1 << 60: 30} {
		check.Equalf(t, part().Sweepable(before), want, "Sweepable(%d)", before)
	}
	if p := view.TopicByName("a").Partitions.At(0); p.Clean != 10 || len(p.Marks) != 1 {
		t.Errorf("a view changed: %d, %+v", p.Clean, p.Marks)
	}
	l.must([]state.Record{done(state.Compaction{To: 40, Swept: 10, Tombstones: 1, Time: 4000})})
	if p := part(); !slices.Equal(p.Marks, []state.Mark{{Offset: 30, Time: 3000}, {Offset: 40, Time: 4000}}) || p.Swept != 10 {
		t.Errorf("after a sweep up to 10: %d, %+v", p.Swept, p.Marks)
	}
	l.must([]state.Record{done(state.Compaction{To: 40, Swept: 5, Time: 5000})})
	b := state.EncodeSnapshot(l.s)
	if got, err := state.DecodeSnapshot(b); err != nil || got.TopicByName("a").Partitions.At(0).Swept != 10 {
		t.Errorf("snapshot round trip failed: %v", err)
	}
	if err := l.s.Catalog().Propose(&state.Record{Kind: state.CompactionDone, Topic: record.ID{9}}); !errors.Is(err, state.ErrUnknownTopic) {
		t.Errorf("compaction of an unknown topic: %v", err)
	}
}

// TestCompactionMarksAreBounded checks that with too many marks tombstones stay longer, never
// shorter.
func TestCompactionMarksAreBounded(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{create(1, "a", 1)}, entry(1, 0, 0, 1000))
	honest := []state.Mark{}
	for i := range int64(100) {
		m := state.Mark{Offset: i + 1, Time: 1000 * i * i}
		honest = append(honest, m)
		l.must([]state.Record{done(state.Compaction{To: m.Offset, Tombstones: 1, Time: m.Time})})
		p := l.s.TopicByName("a").Partitions.At(0)
		if len(p.Marks) > state.MarksMax || p.Marks[len(p.Marks)-1] != m {
			t.Fatalf("%d marks, the last is %+v, want %+v", len(p.Marks), p.Marks[len(p.Marks)-1], m)
		}
		for _, h := range honest {
			if to := p.Sweepable(h.Time); to > h.Offset {
				t.Fatalf("at %d tombstones below %d may be removed, want only those below %d", h.Time, to, h.Offset)
			}
		}
	}
	b := state.EncodeSnapshot(l.s)
	got, err := state.DecodeSnapshot(b)
	if err != nil || string(state.EncodeSnapshot(got)) != string(b) || len(got.TopicByName("a").Partitions.At(0).Marks) != state.MarksMax {
		t.Errorf("snapshot round trip failed: %v", err)
	}
}
