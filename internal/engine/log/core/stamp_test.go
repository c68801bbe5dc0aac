package core_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestAppendTimeIsStamped checks that freeze decides on stamping, by the topic's settings at that
// slot, and that the stamp is the slot's append time, not the clock.
func TestAppendTimeIsStamped(t *testing.T) {
	b := leader(t, core.Config{})
	change := func(settings map[string]string) []core.Op {
		return []core.Op{{Record: state.Record{Kind: state.TopicChange, Topic: topicID, Settings: settings}}}
	}
	appendTime := map[string]string{"timestamp-type": state.TimestampAppend}
	other, made := record.ID{0xbb}, record.ID{0xcc}
	create := func(id record.ID, name string, settings map[string]string) core.Op {
		return core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: id, Name: name, Partitions: 1, Settings: settings}}
	}
	b.freeze([]core.Op{create(other, "other", map[string]string{"timestamp-type": state.TimestampCreate})})
	b.settle()

	in := func(id record.ID, partition uint32, min, max int64) core.Append {
		a := one(-1)
		a.Topic, a.Partition, a.MinTime, a.MaxTime = id, partition, min, max
		return a
	}
	frozen := func(wall int64, ops []core.Op, appends ...core.Append) *core.Frozen {
		t.Helper()
		b.step(&core.Event{Kind: core.EvFreeze, Proposal: &core.Proposal{Ops: ops, Appends: appends}, Wall: wall})
		return b.open[len(b.open)-1].Frozen
	}
	// Four slots in flight: before the change, with it, after it with a clock that was set back,
	// changed again.
	slots := []*core.Frozen{
		frozen(5_000_999, nil, in(topicID, 0, 1, 2)),
		frozen(7_000_999, append(change(appendTime), create(made, "made", appendTime)),
			in(topicID, 1, 1, 2), in(other, 0, 3, 4), in(topicID, 1, 5, 6), in(made, 0, 7, 8), in(topicID, 0, 9, 9)),
		frozen(6_000_000, nil, in(topicID, 0, 1<<60, 1<<60)),
		frozen(9_000_000, change(nil), in(topicID, 0, 10, 11), in(made, 0, 12, 12)),
	}
	type entry struct {
		topic     record.ID
		partition uint32
		min, max  int64
	}
	for i, want := range [][]entry{
		{{topicID, 0, 1, 2}},
		{{topicID, 1, 7000, 7000}, {other, 0, 3, 4}, {made, 0, 7000, 7000}, {topicID, 0, 7000, 7000}},
		{{topicID, 0, 7001, 7001}},
		{{topicID, 0, 10, 11}, {made, 0, 9000, 9000}},
	} {
		f := slots[i]
		must.Equalf(t, len(f.Index), len(want), "slot %d: %+v", i, f.Index)
		for j, e := range f.Index {
			check.Equalf(t, entry{e.Topic, e.Partition, e.MinTime, e.MaxTime}, want[j], "slot %d: entry", i)
		}
		parts := bodyOf(f)
		for j, at := range f.Order {
			a := &f.Proposal.Appends[at]
			batch := record.Batch(parts[j])
			sum, err := record.Verify(batch)
			switch stamped := batch.Attributes()&record.AttrLogAppendTime != 0; {
			case err != nil || batch.BaseOffset() != a.Base || batch.LeaderEpoch() != int32(f.Head.Epoch):
				t.Errorf("slot %d: %+v, %v", i, sum, err)
			case stamped != a.Stamp:
				t.Errorf("slot %d: stamped %v, want %v", i, stamped, a.Stamp)
			case stamped && (sum.MinTimestamp != f.Head.Time/1000 || sum.MaxTimestamp != f.Head.Time/1000):
				t.Errorf("slot %d: %+v in a slot of %d", i, sum, f.Head.Time)
			}
		}
	}
	b.settle()
	b.wantTold(core.EffCommit, core.EffCommit, core.EffCommit, core.EffCommit, core.EffCommit)
}

// TestRejectedAppendIsStampedAgain checks that an append that is submitted again after a rejection,
// with the same bytes, gets the stamp of its new slot.
func TestRejectedAppendIsStampedAgain(t *testing.T) {
	b := leader(t, core.Config{})
	b.freeze([]core.Op{{Record: state.Record{
		Kind: state.TopicChange, Topic: topicID, Settings: map[string]string{"timestamp-type": state.TimestampAppend},
	}}})
	b.settle()
	data := bodyOf(&core.Frozen{Proposal: &core.Proposal{Appends: []core.Append{one(-1)}}, Order: []int32{0}})[0]
	for _, wall := range []int64{8_000_000, 11_000_000} {
		p := &core.Proposal{Appends: []core.Append{one(-1)}}
		b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: wall})
		b.open[len(b.open)-1].Frozen.Patch(0, data)
		if sum, err := record.Verify(data); err != nil || sum.MinTimestamp != wall/1000 || sum.MaxTimestamp != wall/1000 {
			t.Errorf("%+v, %v", sum, err)
		}
	}
}
