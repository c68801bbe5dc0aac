package httpapi

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// TestWhyNot: the answer says which event began the wait, what ended it or is missing, and what
// would change it, also without a state of the trigger.
func TestWhyNot(t *testing.T) {
	s := triggerServer(t)
	s.postEvents("signed_up early")
	for id, spec := range map[string]string{
		"no-project": `{"expr":"signed_up THEN (NOT project_created WITHIN 3 days)"}`,
		"new-only":   `{"expr":"signed_up THEN (NOT project_created WITHIN 3 days)","backfill":"none"}`,
		"in-time":    `{"expr":"signed_up THEN (paid WITHIN 1 ms)"}`,
		"fast":       `{"expr":"signed_up THEN (NOT paid WITHIN 1 ms)"}`,
		"large":      `{"expr":"paid[n > 100]"}`,
		"each":       `{"expr":"signed_up THEN paid","fire":"reset"}`,
		"again":      `{"expr":"paid","backfill":"silent"}`,
	} {
		s.putTrigger(201, id, spec)
	}
	s.postEvents("signed_up ann", "project_created ann", "page_view bob", "page_view bob", "Signed_up bob", "project_created cid", "signed_up dan",
		"paid eva", "signed_up fay", "paid fay", "paid fay", "login ann", "login hal")
	for _, c := range []struct{ trigger, entity, why, steps, others string }{
		{"no-project", "gus", `there is no event of "gus"; it waits for signed_up`, "", ""},
		{
			"no-project", "ann", "signed_up at T begins it; project_created at T ends it: project_created must not come until T; it waits for signed_up",
			"signed_up begins, project_created ends", "login 1",
		},
		{"no-project", "bob", "no event so far matters: the expression mentions none of its 3 events; it waits for signed_up", "", "page_view 2, Signed_up 1"},
		{"no-project", "cid", "no event so far matters; project_created at T has no effect: the expression did not wait for it then; it waits for signed_up", "project_created none", ""},
		{
			"no-project", "dan", "signed_up at T begins it; it becomes true at T unless project_created comes before",
			"signed_up begins", "",
		},
		{"no-project", "early", "signed_up at T begins it; it becomes true at T unless project_created comes before", "signed_up begins", ""},
		{"new-only", "early", "no event so far matters; signed_up at T does not count: it is older than the trigger; it waits for signed_up", "signed_up too_old", ""},
		{"fast", "dan", "signed_up at T begins it; it becomes true: paid did not come until T; it fired for T, and the message is to be delivered; nothing: it has fired, and fires once", "signed_up begins,  true", ""},
		{"no-project", "hal", "no event so far matters: the expression does not mention its event; it waits for signed_up", "", "login 1"},
		{"in-time", "dan", "signed_up at T begins it; paid did not come until T; it waits for signed_up", "signed_up begins,  missed", ""},
		{"large", "eva", "no event so far matters; paid at T does not count: its data does not match; it waits for paid[n > 100]", "paid not_matched", ""},
		{
			"each", "fay", "signed_up at T begins it; paid at T makes it true; it fired for T, and the message is to be delivered; it waits for signed_up",
			"signed_up begins, paid true, paid none", "",
		},
		{"again", "eva", "paid at T makes it true; it fired for T, and the message is to be delivered; nothing: it has fired, and fires once", "paid true", ""},
	} {
		t.Run(c.trigger+" of "+c.entity, func(t *testing.T) {
			var x api.Explanation
			var steps, others []string
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s\nwant %s\nsteps %q, want %q; others %q, want %q; %+v", x.Why, c.why, steps, c.steps, others, c.others, x.History)
				}
			})
			sebtest.Eventually(t, "the answer is right", func() bool { // firings are recorded later, and log time passes by records
				x, steps, others = api.Explanation{}, nil, nil
				s.must(200, s.get("/triggers/"+c.trigger+"/entities/"+c.entity), &x)
				for _, one := range x.History.Steps {
					steps = append(steps, one.Event+" "+cmp.Or(one.Skipped, one.Effect))
				}
				for _, one := range x.History.Others {
					others = append(others, fmt.Sprint(one.Event, " ", one.Count))
				}
				return times.ReplaceAllString(x.Why, "T") == c.why && strings.Join(steps, ", ") == c.steps && strings.Join(others, ", ") == c.others
			})
			check.Equal(t, x.History.Unread, "")
		})
	}
}

// TestWhyNotOfManyEvents: the work for an entity is bounded, and the answer says so.
func TestWhyNotOfManyEvents(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "once", `{"expr":"signed_up THEN paid"}`)
	s.postEvents("signed_up ann")
	lines := strings.Repeat(`{"event":"page_view","entity_id":"ann"}`+"\n", rules.HistoryEventsMax+500)
	s.must(201, s.event("", api.NDJSON, lines), nil)
	var x api.Explanation
	sebtest.Eventually(t, "the state is known", func() bool {
		s.must(200, s.get("/triggers/once/entities/ann"), &x)
		return x.Known && x.History.Unread != "key_index_behind"
	})
	h := x.History
	if h.Unread != "too_many" || h.Events != rules.HistoryEventsMax || len(h.Steps) != 0 || len(h.Others) != 1 || h.Others[0].Count != h.Events {
		t.Errorf("%+v", h)
	}
	check.Equal(t, times.ReplaceAllString(x.Why, "T"), "only the newest 10000 events were read, since T; the expression mentions none of them; it waits for paid")
}

// TestWhyNotWithoutAKeyIndex: without one there is only the state.
func TestWhyNotWithoutAKeyIndex(t *testing.T) {
	s := triggerServer(t)
	s.must(201, s.send("PUT", "/topic?topic-name=events", `{"settings":{"timestamp-type":"append"}}`), nil)
	s.putTrigger(201, "once", `{"expr":"signed_up THEN paid"}`)
	s.postEvents("signed_up ann")
	var x api.Explanation
	sebtest.Eventually(t, "the state is known", func() bool {
		s.must(200, s.get("/triggers/once/entities/ann"), &x)
		return x.Known
	})
	if x.History.Unread != "key_index_off" || x.Why != "the events of the entity are unknown, because the topic has no key index; it waits for paid" {
		t.Errorf("%+v", x)
	}
}

// TestWhyNotNamesNoOtherEvents: events that the expression does not mention are in no step, also if
// they are duplicates or older than the trigger. Their names need the right to read the topic.
func TestWhyNotNamesNoOtherEvents(t *testing.T) {
	s := triggerServer(t)
	for range 2 {
		s.must(201, s.event("", "", `{"event":"hidden","entity_id":"ann","id":"1"}`), nil)
	}
	s.putTrigger(201, "old", `{"expr":"paid"}`)
	s.putTrigger(201, "new", `{"expr":"paid","backfill":"none"}`)
	key := s.token("client", time.Time{}, permit(access.Read, access.Trigger, access.Any))
	for _, id := range []string{"old", "new"} {
		path, want := "/triggers/"+id+"/entities/ann", "no event so far matters: the expression mentions none of its 2 events; it waits for paid"
		sebtest.Eventually(t, "the events are in the index", func() bool {
			var x api.Explanation
			s.must(200, s.get(path), &x)
			return x.Why == want && len(x.History.Steps) == 0 && len(x.History.Others) == 1 && x.History.Others[0] == api.EventCount{Event: "hidden", Count: 2}
		})
		a := s.matrix("GET", path, "", "", authorization("Bearer "+key))
		if a.status != 200 || strings.Contains(string(a.body), "hidden") {
			t.Errorf("%s without the right to read the topic: %s", path, a)
		}
	}
}

// TestWhyNotOfLargeEvents: the data of the newest events that fit in memory is kept.
func TestWhyNotOfLargeEvents(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "large", `{"expr":"paid[n > 100]"}`)
	const events, size = 12, 250_000
	for n := range events {
		s.must(201, s.event("", "", fmt.Sprintf(`{"event":"paid","entity_id":"ann","data":{"n":%d,"text":%q}}`, n, strings.Repeat("x", size))), nil)
	}
	var x api.Explanation
	sebtest.Eventually(t, "the events are in the index", func() bool {
		s.must(200, s.get("/triggers/large/entities/ann"), &x)
		n := len(x.History.Steps)
		return n > 0 && *x.History.Steps[n-1].Offset == events-1
	})
	if fit := rules.HistoryMemory / 2 / size; x.History.Unread != "too_many" || x.History.Events != fit || len(x.History.Steps) != fit {
		t.Errorf("%+v", x.History)
	}
}

// TestWhyNotAfterATrim: the answer does not claim that an event had no effect because the log lacks
// the one before.
func TestWhyNotAfterATrim(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "once", `{"expr":"signed_up THEN paid"}`)
	s.postEvents("signed_up ann", "signed_up bob")
	sebtest.Eventually(t, "the engine has applied the events", func() bool {
		var x api.Explanation
		s.must(200, s.get("/triggers/once/entities/bob"), &x)
		return x.Known
	})
	s.must(200, s.send("POST", "/topic/trim?topic-name=events&partition=0&offset=2", ""), nil)
	s.postEvents("paid ann", "page_view cid")
	const missing = "older events were deleted from the topic, so that some may be missing here; "
	for entity, want := range map[string]string{
		"ann": missing + "paid at T has no effect: the expression did not wait for it then; it fired for T, and ",
		"bob": missing + `no event of "bob" was found; it waits for paid`,
		"cid": missing + "the expression mentions none of the others; it waits for signed_up",
	} {
		var x api.Explanation
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: %s, want %s", entity, x.Why, want)
			}
		})
		sebtest.Eventually(t, "the answer is right", func() bool {
			s.must(200, s.get("/triggers/once/entities/"+entity), &x)
			return strings.HasPrefix(times.ReplaceAllString(x.Why, "T"), want) && x.History.Unread == "trimmed"
		})
	}
}

// TestWhyNotWithoutAnEvaluation: while other evaluations take all the time, the answer is the state.
func TestWhyNotWithoutAnEvaluation(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "once", `{"expr":"signed_up THEN paid"}`)
	e := s.api.evaluator
	e.limit = time.Millisecond
	for range cap(e.sem) {
		e.sem <- struct{}{}
	}
	var x api.Explanation
	s.must(200, s.get("/triggers/once/entities/ann"), &x)
	check.Equal(t, x.History.Unread, "too_slow")
	check.Equal(t, x.Why, "the events of the entity were not evaluated, because that took too long; it waits for signed_up")
}
