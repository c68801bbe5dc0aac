package state_test

import (
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestNegativeCommits checks that a negative offset of a Kafka client survives the log and a
// snapshot unchanged, and counts as none for a condition.
func TestNegativeCommits(t *testing.T) {
	topic := record.ID{1}
	offsets := []int64{state.CommitMin, -2, -1, 0, 1, state.CommitMax}
	recs := []state.Record{create(1, "t", uint32(len(offsets)))}
	for i, offset := range offsets {
		recs = append(recs, state.Record{Kind: state.OffsetCommit, Name: "g", Topic: topic, Partition: uint32(i), Offset: offset})
	}
	l := newLog(t)
	l.must(must.Get(state.DecodeRecords(state.EncodeRecords(nil, recs)))(t))
	s := must.Get(state.DecodeMessage(state.EncodeMessage(l.s)))(t)
	must.Equal(t, len(s.Group("g").Offsets), len(offsets))
	for i, want := range offsets {
		id := state.PartitionID{Topic: topic, Partition: uint32(i)}
		check.Equalf(t, s.Group("g").Offsets[id].Offset, want, "offset")
		check.Equalf(t, s.CommittedOffset("g", id), max(-1, want), "offset %d stands for", want)
	}
}

// TestOffsetsAreBounded: at the limit of offsets only known ones are committed.
func TestOffsetsAreBounded(t *testing.T) {
	sebtest.Long(t, "TestProducersAreBounded remains")
	const groups = 20
	commit := func(group, partition int) state.Record {
		return state.Record{Kind: state.OffsetCommit, Name: fmt.Sprint("g", group), Topic: record.ID{1}, Partition: uint32(partition), Offset: -1}
	}
	recs := []state.Record{create(1, "t", state.OffsetsMax/groups+1)}
	for i := range state.OffsetsMax {
		recs = append(recs, commit(i%groups, i/groups))
	}
	l := newLog(t)
	l.must(recs)
	known, unknown, c := commit(3, 7), commit(3, state.OffsetsMax/groups), l.s.Catalog()
	check.NoErrorf(t, c.Propose(&known), "a known offset")
	check.ErrorIsf(t, c.Propose(&unknown), state.ErrFull, "another offset")
}
