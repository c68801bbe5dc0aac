package state_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// TestEveryKindHasAName covers the kinds that can be decoded.
func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := range 256 {
		kind := state.RecordKind(k)
		rec := state.Record{Kind: kind}
		switch kind {
		case state.PackInstall:
			rec.Pack = &state.PackContent{}
		case state.FormatLevel:
			rec.Level = state.LevelMax
		case state.LossAccepted:
			rec.Loss = &state.Loss{}
		case state.AccessChange:
			rec.Access = &access.Change{}
		case state.LeaderRun:
			rec.Run = &run
		case state.NextSlot:
			rec.Within = 1
		case state.QueueUpdate:
			rec.Queue = &state.QueueChange{}
		case state.TransactionUpdate:
			rec.Transaction = &state.TransactionChange{Kind: state.TransactionInit}
		}
		_, err := state.DecodeRecords(state.EncodeRecords(nil, []state.Record{rec}))
		if known := err == nil; known == strings.HasPrefix(kind.String(), "kind ") || seen[kind.String()] {
			t.Errorf("kind %d is called %q", k, kind)
		}
		seen[kind.String()] = true
	}
}
