package compact

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// viewLog is a Log with a state only.
type viewLog struct {
	Log
	s *state.State
}

// View implements Log.
func (l *viewLog) View() *state.State { return l.s.View() }

// Now implements Log.
func (l *viewLog) Now() (time.Time, bool) { return time.Now(), false }

// TestBusy checks that the bytes per second since the last check decide.
func TestBusy(t *testing.T) {
	s := state.Genesis(record.ID{1}, 0)
	seal := record.Head{Kind: record.KindSeal, Cluster: record.ID{1}, Nonce: record.ID{1}, NextEpoch: 1, NextNonce: record.ID{2}}
	must.NoError(t, s.Apply(&seal, nil, nil))
	now := int64(1_700_000_000_000_000)
	slot := func(recs []state.Record, size uint32) {
		t.Helper()
		head := record.Head{
			Kind: record.KindData, Cluster: record.ID{1}, Epoch: 1, Nonce: record.ID{2}, Slot: s.Pos.Slot, PrevCRC: s.PrevCRC, Time: max(now, s.AppendTime+1),
		}
		var index []record.IndexEntry
		if size > 0 {
			index = []record.IndexEntry{{
				Topic: record.ID{9}, Base: s.Topic(record.ID{9}).Partitions.At(0).Next, Span: 1, Records: 1, Pos: 1000, Len: size, AppendTime: head.Time,
			}}
		}
		must.NoError(t, s.Apply(&head, recs, index))
	}
	slot([]state.Record{{Kind: state.TopicCreate, Topic: record.ID{9}, Name: "t", Partitions: 1}}, 0)
	m := &Merger{opt: Options{Log: &viewLog{s: s}, Every: 2 * time.Second, Policy: Policy{}}, bad: map[state.Source]struct{}{}}
	look := func(want bool) {
		t.Helper()
		if m.measureInflow(); m.busy != want || m.policy().Busy != want {
			t.Errorf("busy: %v, want %v", m.busy, want)
		}
		m.left = m.waiting()
	}
	look(false)
	slot(nil, 2*busyRate-1)
	look(false)
	slot(nil, 2*busyRate)
	look(true)
	look(false) // no new data
}
