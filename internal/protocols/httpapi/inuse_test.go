package httpapi

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestDeleteTopicInUseByTriggers: deleting a topic that triggers use requires force. The error
// names the triggers, and they follow a recreated topic of that name.
func TestDeleteTopicInUseByTriggers(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "first", `{"expr":"a","fire":"edge"}`)
	s.putTrigger(201, "other", `{"expr":"a","topic":"others"}`)
	s.postEvents("a ann")
	s.fired(t, "first", 1)
	refused := func(topic string, users ...string) {
		t.Helper()
		a := s.send("DELETE", "/topic?topic-name="+topic, "")
		p := a.problem(t)
		check.Equalf(t, p.Code, api.TopicInUse, "delete %s: %s", topic, a)
		for _, id := range append(users, `"`+topic+`"`) {
			if !strings.Contains(p.Detail, id) {
				t.Errorf("delete %s: detail %q does not name %s", topic, p.Detail, id)
			}
		}
	}
	refused("events", "first")
	refused("others", "other")
	refused("triggers", "first", "other")
	refused("firings", "first", "other")
	s.must(400, s.send("DELETE", "/topic?topic-name=events&force=yes", ""), nil)
	s.must(204, s.send("DELETE", "/topic?topic-name=events&force=true", ""), nil)
	missing := func(want bool) {
		t.Helper()
		sebtest.Eventually(t, "topic_missing", func() bool {
			var x api.Trigger
			s.must(200, s.get("/triggers/first"), &x)
			return x.TopicMissing == want
		})
	}
	missing(true)
	var x api.Explanation
	s.must(200, s.get("/triggers/first/entities/ann"), &x)
	if !strings.HasPrefix(x.WaitsFor, "topic missing") {
		t.Errorf("explain says %q", x.WaitsFor)
	}
	s.postEvents("a ann") // at the same offset as the first event
	missing(false)
	s.postEvents("a zoe")
	s.fired(t, "first", 2) // the value for ann has not become true a second time
	s.must(204, s.send("DELETE", "/triggers/other", ""), nil)
	s.must(204, s.send("DELETE", "/topic?topic-name=others", ""), nil)
}
