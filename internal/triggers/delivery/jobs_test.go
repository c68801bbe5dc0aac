package delivery_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/webhook"
)

// newQueueFixture returns a fixture with a bucket that may have queues, and a queue.
func newQueueFixture(t *testing.T, name string, settings map[string]string) *fixture {
	w := newFixture(t)
	must.Get(w.node.Raise(t.Context()))(t)
	w.newQueue(name, settings)
	return w
}

func (w *fixture) newQueue(name string, settings map[string]string) {
	w.t.Helper()
	must.Get(w.node.Queues().Create(w.t.Context(), name, queue.Spec{Settings: settings}))(w.t)
}

// messages returns the messages of a queue that are not done, the oldest first.
func (w *fixture) messages(name string) (list []queue.Peeked) {
	w.t.Helper()
	newest, _, err := w.node.Queues().Peek(w.t.Context(), queue.PeekRequest{Queue: name, Max: queue.LeaseMax})
	must.NoError(w.t, err)
	for i := range newest {
		list = append(list, newest[len(newest)-1-i])
	}
	return list
}

// TestQueues: a firing and its retraction become messages for workers, with a delay and the body of a template.
func TestQueues(t *testing.T) {
	w := newQueueFixture(t, "mails", nil)
	w.put("x", "a THEN NOT b", `{"queue": "mails"}`, func(d *rule.Definition) { d.Fire, d.OnRetract = rule.OnEdge, rule.Notify })
	w.event("user", "a")
	x := w.firings(all(1, rule.Delivered))[0]
	w.put("late", "c", `{"queue": "mails", "delay": "1h", "template": "{\"to\":\"{{.Entity}}\"}"}`, nil)
	w.event("user", "b")
	w.firings(func(list []rules.Firing) bool { return list[0].State == rule.Delivered && list[0].Retraction })
	w.event("ada", "c")
	w.firings(all(2, rule.Delivered))
	list := w.messages("mails")
	must.Equalf(t, len(list), 3, "messages")
	var f webhook.Firing
	must.NoError(t, json.Unmarshal(list[0].Value, &f))
	if id := x.ID.String(); f.ID != id || string(list[0].Key) != "user" || list[0].State != queue.Ready || headerOf(&list[0]) != id || headerOf(&list[1]) != id+"-retracted" {
		t.Errorf("messages %+v of %+v", list, x)
	}
	if string(list[2].Value) != `{"to":"ada"}` || list[2].State != queue.Delayed || list[2].Until.Sub(list[2].Sent) < 59*time.Minute {
		t.Errorf("message %+v", list[2])
	}
	if !strings.Contains(string(x.Outcome), `"reason":"message 0-0"`) {
		t.Errorf("outcome %s", x.Outcome)
	}
}

func headerOf(m *queue.Peeked) string {
	for _, h := range m.Headers {
		if h.Key == "webhook-id" {
			return string(h.Value)
		}
	}
	return ""
}

// TestQueueGetsAFiringOnce: a message whose outcome was lost is not sent again, and one that is resent is.
func TestQueueGetsAFiringOnce(t *testing.T) {
	w := newQueueFixture(t, "mails", nil)
	now := time.Now().UTC()
	quiet := `, "quiet_hours": {"from": "` + now.Add(-time.Hour).Format("15:04") + `", "to": "` + now.Add(time.Hour).Format("15:04") + `", "zone": "UTC"}`
	w.put("x", "a", `{"queue": "mails"`+quiet+`}`, nil)
	w.event("user", "a")
	id := w.firings(func(list []rules.Firing) bool { return len(list) == 1 && list[0].Recorded != 0 })[0].ID
	lost := []queue.Message{{Key: []byte("user"), Value: []byte("of an earlier leader"), Dedup: id.String()}}
	must.NoError(t, must.Get(w.node.Queues().Send(t.Context(), "mails", lost))(t)[0].Err)
	w.put("x", "a", `{"queue": "mails"}`, nil)
	x := w.firings(all(1, rule.Delivered))[0]
	if list := w.messages("mails"); len(list) != 1 || !strings.Contains(string(x.Outcome), `"reason":"message 0-0"`) {
		t.Errorf("messages %+v, outcome %s", list, x.Outcome)
	}
	for n := 2; n < 4; n++ {
		must.NoError(t, w.node.Triggers().Resend(t.Context(), id))
		w.firings(func(list []rules.Firing) bool {
			return list[0].State == rule.Delivered && strings.Contains(string(list[0].Outcome), `"reason":"message 0-`+strconv.Itoa(n-1)+`"`)
		})
		must.Equalf(t, len(w.messages("mails")), n, "messages after resending")
	}
}

// TestQueueThatTakesNoMessages: firings wait for a queue that is deleted, no queue, or full.
func TestQueueThatTakesNoMessages(t *testing.T) {
	w := newQueueFixture(t, "mails", map[string]string{"dead-letter": "none"})
	w.put("x", "a", `{"queue": "mails", "retries": ["1d"]}`, nil)
	try := func(n int, want rule.State, reason string) {
		t.Helper()
		w.firings(func(list []rules.Firing) bool {
			return len(list) == n && list[n-1].State == want && strings.Contains(string(list[n-1].Outcome), reason)
		})
	}
	again := func(n int) {
		t.Helper()
		must.NoError(t, w.node.Triggers().Resend(t.Context(), w.firings(func(list []rules.Firing) bool { return len(list) == n })[n-1].ID))
	}
	must.NoError(t, w.node.Queues().Delete(t.Context(), "mails"))
	w.event("user-1", "a")
	try(1, rule.Pending, "queue mails: unknown topic")
	must.Get(w.node.CreateTopic(t.Context(), "mails", broker.TopicSpec{}))(t)
	again(1)
	try(1, rule.Pending, "the topic is no queue")
	must.NoError(t, w.node.DeleteTopic(t.Context(), "mails"))
	w.newQueue("mails", map[string]string{"dead-letter": "none"})
	again(1)
	try(1, rule.Delivered, "message 0-0")

	must.Get(w.node.UpdateTopic(t.Context(), "mails", broker.TopicSpec{Settings: map[string]string{"retention-bytes": "1"}}))(t)
	w.event("user-2", "a")
	try(2, rule.Pending, "queue mails is full")
	must.Get(w.node.UpdateTopic(t.Context(), "mails", broker.TopicSpec{Settings: map[string]string{"retention-bytes": ""}}))(t)
	again(2)
	try(2, rule.Delivered, "message 0-1")
	must.Equalf(t, len(w.messages("mails")), 2, "messages")
}
