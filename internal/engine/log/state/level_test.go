package state_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
)

// wantNewer fails unless err names the level after LevelMax and the version that reads it.
func wantNewer(t *testing.T, err error) {
	t.Helper()
	var newer *state.NewerError
	if !errors.Is(err, state.ErrNewer) || !errors.As(err, &newer) || newer.Level != state.LevelMax+1 || newer.Version != forged.NewerVersion {
		t.Fatalf("err %v, want the level %d and version %s", err, state.LevelMax+1, forged.NewerVersion)
	}
	if errors.Is(err, state.ErrSnapshot) || errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "needs Seb 9.9.9 or newer") {
		t.Fatalf("err %v", err)
	}
}

func TestUnknownLevelIsNotCorruption(t *testing.T) {
	t.Run("state records, before unknown kinds and fields", func(t *testing.T) {
		_, err := state.DecodeRecords(forged.NewerRecords())
		wantNewer(t, err)
	})
	t.Run("snapshot, before unknown fields", func(t *testing.T) {
		_, err := state.DecodeSnapshot(forged.SnapshotFrame(forged.NewerMessage(state.Genesis(record.ID{1}, 0))))
		wantNewer(t, err)
	})
}

func TestLevelMessageIsDecoded(t *testing.T) {
	level := func(fields ...uint64) []byte {
		var m []byte
		for i, v := range fields {
			m = protowire.AppendVarint(protowire.AppendTag(m, protowire.Number(2*i+1), protowire.VarintType), v)
		}
		b := protowire.AppendBytes(protowire.AppendTag(nil, 12, protowire.BytesType), m)
		return append(b, state.EncodeMessage(state.Genesis(record.ID{1}, 0))...)
	}
	if s, err := state.DecodeSnapshot(forged.SnapshotFrame(level(state.LevelMax))); err != nil || s.Level != state.LevelMax {
		t.Errorf("the highest level: %v, %v", s, err)
	}
	for name, b := range map[string][]byte{
		"level 1":                     level(state.LevelFirst),
		"no level":                    level(),
		"unknown field":               level(state.LevelMax, 1),
		"level of more than 32 bits":  level(1 << 40),
		"a message that is cut":       forged.SnapshotFrame([]byte{12<<3 | 2, 2, 8}),
		"level without its last byte": forged.SnapshotFrame([]byte{12<<3 | 2, 2, 8, 0x80}),
	} {
		if !bytes.HasPrefix(b, []byte("seb$")) {
			b = forged.SnapshotFrame(b)
		}
		check.ErrorIsf(t, check.Err(state.DecodeSnapshot(b)), state.ErrSnapshot, "%s", name)
	}
}

// TestSnapshotOfLevel1HasNoLaterFields checks that a program without levels can read it.
func TestSnapshotOfLevel1HasNoLaterFields(t *testing.T) {
	s := state.Genesis(record.ID{1}, 0)
	m := state.EncodeMessage(s)
	for b := m; len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if num > 11 {
			t.Errorf("field %d", num)
		}
		b = b[n:]
		b = b[protowire.ConsumeFieldValue(num, typ, b):]
	}
	// cluster, shard, epoch, slot, nonce, checksum, time, and the chain of epoch 0, as level 1 has
	// always had them.
	id := append([]byte{1}, make([]byte, 15)...)
	want := append([]byte{1<<3 | 2, 16}, id...)
	want = append(want, 2<<3, 0, 3<<3, 0, 4<<3, 0, 5<<3|2, 16)
	want = append(append(want, id...), 6<<3, 0, 7<<3, 0, 8<<3|2, 22, 1<<3, 0, 2<<3|2, 16)
	want = append(append(want, id...), 3<<3, 0)
	if !bytes.Equal(m, want) {
		t.Errorf("message\n%x, want\n%x", m, want)
	}
	s.Level = state.LevelMax
	raised := state.EncodeMessage(s)
	if !bytes.HasSuffix(raised, want) || raised[0] != 12<<3|2 {
		t.Errorf("the level is not the first field: %x", raised)
	}
}
