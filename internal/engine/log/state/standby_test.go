package state_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

var run = state.Run{Node: record.ID{1, 2}, ID: record.ID{3, 4}}

// sealWith ends the epoch with a SEAL of these records.
func (l *log) sealWith(recs ...state.Record) error {
	h := l.head(record.KindSeal)
	h.NextEpoch, h.NextNonce = h.Epoch+1, record.ID{7}
	return l.s.Apply(&h, recs, nil)
}

func within(millis uint32) state.Record { return state.Record{Kind: state.NextSlot, Within: millis} }

func sealedBy(r state.Run) state.Record { return state.Record{Kind: state.LeaderRun, Run: &r} }

func TestSealerAndPromise(t *testing.T) {
	l := newLog(t)
	l.must([]state.Record{state.RaiseTo(state.LevelStandby), within(1000)})
	want := func(what string, promise uint32, sealer state.Run) {
		t.Helper()
		if l.s.Promise != promise || l.s.Sealer != sealer {
			t.Errorf("%s: promise %d ms, sealed by %v; want %d ms, %v", what, l.s.Promise, l.s.Sealer, promise, sealer)
		}
		back, err := state.DecodeSnapshot(state.EncodeSnapshot(l.s.View()))
		if err != nil || back.Promise != promise || back.Sealer != sealer {
			t.Errorf("%s: the snapshot has %+v, %v", what, back, err)
		}
	}
	want("the slot that raises the level", 1000, state.Run{})
	l.must([]state.Record{within(60_000)})
	want("another promise", 60_000, state.Run{})
	l.must(nil)
	want("a slot without a promise", 0, state.Run{})
	l.must([]state.Record{within(1000)})
	must.NoError(t, l.sealWith(state.Record{Kind: state.LeaderHint, Name: "x"}, sealedBy(run)))
	want("a SEAL with a run", 0, run)
	l.must([]state.Record{within(1)})
	want("a slot of the run", 1, run)
	must.NoError(t, l.sealWith())
	want("a SEAL without a run", 0, state.Run{})
}

func TestStandbyNeedsItsLevel(t *testing.T) {
	l := newLog(t)
	var chain *state.ChainError
	refused := func(what string, err error, why string) {
		t.Helper()
		if !errors.As(err, &chain) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", what, err, why)
		}
	}
	before := state.EncodeMessage(l.s)
	refused("promise", l.data([]state.Record{within(1)}), "a next slot at format level 1")
	refused("promise before the raise", l.data([]state.Record{within(1), state.RaiseTo(state.LevelStandby)}), "a next slot at format level 1")
	refused("run", l.sealWith(sealedBy(run)), "a leader run at format level 1")
	if !bytes.Equal(state.EncodeMessage(l.s), before) {
		t.Error("a refused object changed the state")
	}
	l.must([]state.Record{state.RaiseTo(state.LevelJournal)})
	refused("run at the level before", l.sealWith(sealedBy(run)), "a leader run at format level 5")
	l.must([]state.Record{state.RaiseTo(state.LevelStandby)})
	refused("run in data", l.data([]state.Record{sealedBy(run)}), "kind 15")
	refused("promise in a SEAL", l.sealWith(within(1)), "a next slot in a seal")

	l.must([]state.Record{within(5)})
	message := state.EncodeMessage(l.s)
	if _, err := state.DecodeSnapshot(forged.SnapshotFrame(message)); err != nil {
		t.Error(err)
	}
	l.s.Level = state.LevelJournal
	if _, err := state.DecodeSnapshot(forged.SnapshotFrame(state.EncodeMessage(l.s))); !errors.Is(err, state.ErrSnapshot) {
		t.Errorf("a snapshot of level 5 with a promise: %v", err)
	}
}

// TestMalformedStandbyRecords covers bytes that EncodeRecords does not write.
func TestMalformedStandbyRecords(t *testing.T) {
	for name, m := range map[string][]byte{
		"run without its field":     {1 << 3, 15},
		"run of 31 bytes":           append([]byte{1 << 3, 15, 16<<3&0x7f | 2 | 0x80, 1, 31}, make([]byte, 31)...),
		"run of zeros":              append([]byte{1 << 3, 15, 16<<3&0x7f | 2 | 0x80, 1, 32}, make([]byte, 32)...),
		"promise without its field": {1 << 3, 16},
		"promise of 33 bits":        {1 << 3, 16, 17<<3&0x7f | 0x80, 1, 0x80, 0x80, 0x80, 0x80, 0x10},
		"promise of another kind":   {1 << 3, 7, 17<<3&0x7f | 0x80, 1, 1},
	} {
		if recs, err := state.DecodeRecords(append([]byte{byte(len(m))}, m...)); err == nil || errors.Is(err, state.ErrNewer) || strings.Contains(err.Error(), "newer version") {
			t.Errorf("%s: %+v, %v", name, recs, err)
		}
	}
}
