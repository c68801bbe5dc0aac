package state

import (
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestNegativeCommits checks that a negative offset of a Kafka client survives the log and a
// snapshot unchanged, and counts as none for a condition.
func TestNegativeCommits(t *testing.T) {
	topic := record.ID{1}
	var recs []Record
	offsets := []int64{CommitMin, -2, -1, 0, 1, CommitMax}
	for i, offset := range offsets {
		recs = append(recs, Record{Kind: OffsetCommit, Name: "g", Topic: topic, Partition: uint32(i), Offset: offset})
	}
	decoded := must.Get(DecodeRecords(EncodeRecords(nil, recs)))(t)
	s := Genesis(record.ID{2}, 0)
	for i := range decoded {
		s.commitOffset(&decoded[i])
	}
	must.NoError(t, s.decodeGroup(encodeGroup(s.Group("g"))))
	for i, want := range offsets {
		id := PartitionID{topic, uint32(i)}
		if got := s.Group("g").Offsets[id].Offset; got != want {
			t.Errorf("offset %d reads as %d", want, got)
		}
		check.Equalf(t, s.CommittedOffset("g", id), max(-1, want), "offset %d stands for", want)
	}
	if len(s.Group("g").Offsets) != len(offsets) || !s.hasOffset(&recs[0]) {
		t.Errorf("%+v", s.Group("g"))
	}
}
