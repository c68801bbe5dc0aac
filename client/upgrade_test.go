package client_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

func TestFinalizeUpgrade(t *testing.T) {
	c := realBroker(t)
	u, err := c.Upgrade(t.Context())
	if err != nil || u.Level != state.LevelMax || u.HighestLevel != state.LevelMax || !u.RaiseAt.IsZero() {
		t.Errorf("a new bucket: %+v, %v", u, err)
	}
	if u, err = c.FinalizeUpgrade(t.Context()); err != nil || u.Level != state.LevelMax {
		t.Errorf("raised already: %+v, %v", u, err)
	}
}
