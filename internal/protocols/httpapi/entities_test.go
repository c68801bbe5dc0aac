package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/sebtest"
)

// entity reads all pages about an entity.
func (s *server) entity(name, query string) (all []api.EntityTrigger, pages int) {
	s.t.Helper()
	for after := ""; ; {
		var page api.Entity
		s.must(200, s.get("/entities/"+name+"?"+query+after), &page)
		all = append(all, page.Triggers...)
		if pages++; page.Next == nil {
			return all, pages
		}
		after = "&after=" + *page.Next
	}
}

// TestTriggersThatKnowAnEntity: an entity has the triggers with its state and those with its
// firings, each with a summary of its explanation.
func TestTriggersThatKnowAnEntity(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "no-x", `{"expr":"created THEN (NOT used WITHIN 7 days)"}`)
	s.putTrigger(201, "now", `{"expr":"created","fire":"edge"}`)
	s.putTrigger(201, "other", `{"expr":"something"}`)
	if a := s.get("/entities/u7"); a.status != 200 || string(a.body) != `{"entity":"u7","triggers":[],"next":null}` {
		t.Errorf("unknown: %s", a)
	}
	var at api.EventStored
	s.must(201, s.event("", "", `{"event":"created","entity_id":"u7"}`), &at)
	firing := s.fired(t, "now", 1).Firings[0]
	var all []api.EntityTrigger
	sebtest.Eventually(t, "both triggers know the entity", func() bool {
		all, _ = s.entity("u7", "")
		return len(all) == 2
	})
	end := at.Time.Add(7 * 24 * time.Hour)
	if x := all[0]; x.Trigger != "no-x" || !x.Known || x.Value || x.Fired || x.Next == nil || !x.Next.Equal(end) || x.Topic != "events" ||
		len(x.Awaited) != 2 || !x.Awaited[0].Until.Equal(end) || !strings.Contains(x.WaitsFor, "unless used comes before") || x.Firings != 0 || x.Last != nil {
		t.Errorf("%+v", x)
	}
	if x := all[1]; x.Trigger != "now" || !x.Value || !x.Fired || x.Firings != 1 || !x.Last.Equal(firing.At) || x.Version != 1 {
		t.Errorf("%+v", x)
	}
	// A new version has no state of the entity, but its trigger has the firing of the old one.
	s.putTrigger(200, "now", `{"expr":"something","fire":"edge"}`)
	if all, _ = s.entity("u7", ""); len(all) != 2 || all[1].Known || all[1].Firings != 1 || all[1].Version != 2 {
		t.Errorf("%+v", all)
	}
	key := s.token("client", time.Time{})
	for name, want := range map[string]int{"no-x": 1, "now": 1, "other": 0} {
		s.allow("client", permit(access.Read, access.Trigger, name))
		a := s.matrix("GET", "/entities/u7?limit=1", "", "", authorization(key))
		if a.status != 200 || strings.Count(string(a.body), `"trigger":`) != want || want > 0 && !strings.Contains(string(a.body), fmt.Sprintf("%q", name)) {
			t.Errorf("%s: %s", name, a)
		}
	}
	s.must(204, s.send("DELETE", "/entities/u7", ""), nil)
	if all, _ := s.entity("u7", ""); len(all) != 0 {
		t.Errorf("erased: %+v", all)
	}
	for path, field := range map[string]string{
		"/entities/" + strings.Repeat("a", 1025): "entity", "/entities/%ff": "entity", "/entities/u?after=a%20b": "after", "/entities/u?limit=1001": "limit",
		"/entities/u?after=": "after",
	} {
		if p := s.get(path).problem(t); p.Code != api.BadRequest || p.Field != field {
			t.Errorf("%.40s: %+v", path, p)
		}
	}
}

// TestPagesOfAnEntity: each trigger is on one page, in order, whatever ends the pages.
func TestPagesOfAnEntity(t *testing.T) {
	s := triggerServer(t)
	var want []string
	for i := range 40 {
		id, event := fmt.Sprintf("t%02d", i), "hit"
		if i%4 == 3 {
			event = "miss"
		} else {
			want = append(want, id)
		}
		s.putTrigger(201, id, fmt.Sprintf(`{"expr":"%s THEN later"}`, event))
	}
	s.postEvents("hit u/1")
	sebtest.Eventually(t, "all triggers have read the event", func() bool {
		all, _ := s.entity("u%2F1", "")
		return len(all) == len(want)
	})
	for _, c := range []struct{ limit, examined, pages int }{{0, 1000, 1}, {7, 1000, 5}, {30, 1000, 1}, {1000, 6, 7}, {1, 1, 41}, {3, 35, 10}} {
		s.api.triggers.examinedMax = c.examined
		all, pages := s.entity("u%2F1", fmt.Sprintf("limit=%d", c.limit))
		var got []string
		for i := range all {
			got = append(got, all[i].Trigger)
		}
		if !slices.Equal(got, want) || pages != c.pages {
			t.Errorf("%+v: %d pages with %v", c, pages, got)
		}
	}
}
