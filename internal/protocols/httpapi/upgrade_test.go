package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
)

// oldServer is a server on a bucket at format level 1.
func oldServer(t *testing.T, change ...func(*setup)) *server {
	t.Helper()
	store := objstore.NewMemory()
	must.Get(forged.OldBucket(t.Context(), store))(t)
	return start(t, append(change, func(c *setup) { c.store = store })...)
}

func (s *server) level(a *answered) (out api.Upgrade) {
	s.t.Helper()
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != 200 {
		s.t.Fatalf("%s: %v", a, err)
	}
	return out
}

func TestUpgrade(t *testing.T) {
	before := time.Now()
	s := oldServer(t)
	u := s.level(s.get("/upgrade"))
	if u.Level != state.LevelFirst || u.HighestLevel != state.LevelMax || u.RaiseAt.IsZero() || u.RaiseAt.Before(before.Add(10*time.Minute)) {
		t.Errorf("before: %+v", u)
	}
	for _, when := range []string{"first", "again"} {
		if u := s.level(s.send("POST", "/upgrade", "")); u.Level != state.LevelMax || !u.RaiseAt.IsZero() {
			t.Errorf("%s: %+v", when, u)
		}
	}
	if u := s.level(s.get("/upgrade")); u.Level != state.LevelMax || u.HighestLevel != state.LevelMax || !u.RaiseAt.IsZero() {
		t.Errorf("after: %+v", u)
	}
}

func TestHeldUpgrade(t *testing.T) {
	s := oldServer(t, func(c *setup) { c.broker.Core.RaiseAfter = -1 })
	a := s.get("/upgrade")
	if u := s.level(a); u.Level != state.LevelFirst || !u.RaiseAt.IsZero() || strings.Contains(string(a.body), "raise_at") {
		t.Errorf("%s", a)
	}
	if a := s.get("/readyz"); !strings.Contains(string(a.body), `"format_level":1`) {
		t.Errorf("%s", a)
	}
}

func TestFollowerDoesNotUpgrade(t *testing.T) {
	s := oldServer(t, func(c *setup) { c.broker.Core.ReadOnly = true })
	if u := s.level(s.get("/upgrade")); u.Level != state.LevelFirst || !u.RaiseAt.IsZero() {
		t.Errorf("%+v", u)
	}
	if p := s.send("POST", "/upgrade", "").problem(t); p.Code != api.ReadOnly {
		t.Errorf("%+v", p)
	}
}
