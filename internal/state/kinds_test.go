package state_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/state"
)

// TestEveryKindHasAName: of those that can be decoded.
func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := range 256 {
		kind := state.RecordKind(k)
		_, err := state.DecodeRecords([]byte{2, 8, byte(k)})
		if known := err == nil && k < 128; known == strings.HasPrefix(kind.String(), "kind ") || seen[kind.String()] {
			t.Errorf("kind %d is called %q", k, kind)
		}
		seen[kind.String()] = true
	}
}
