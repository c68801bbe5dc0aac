package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
)

// TestTriggersThatDeliverToQueues: the queue must exist, and the client must have the right to send to it, also
// for a change that keeps the delivery.
func TestTriggersThatDeliverToQueues(t *testing.T) {
	s := triggerServer(t)
	newQueue(s, "mails", "")
	newQueue(s, "ordered", `{"key-mode":"order"}`)
	newTopic(s, "plain", 1)
	for deliver, detail := range map[string]string{
		`{"queue":"none"}`:                              `queue: there is no queue "none"`,
		`{"queue":"plain"}`:                             `queue: topic "plain" is no queue`,
		`{"queue":"ordered","delay":"1m"}`:              `delay: queue "ordered" keeps the order of keys`,
		`{"queue":"firings"}`:                           "queue: firings is reserved",
		`{"queue":"mails","delay":"soon"}`:              "delay: ",
		`{"queue":"mails","delay":"366d"}`:              "delay: ",
		`{"topic":"plain","delay":"1m"}`:                "delay: requires a queue",
		`{"queue":"mails","topic":"plain"}`:             "queue: excludes topic",
		`{"queue":"mails","url":"https://example.com"}`: "queue: excludes topic, url",
		`{"queue":"mails","template":"{{.Nothing}}"}`:   "template: ",
		`{"queue":"mails","content_type":"text/plain"}`: "content_type: requires a template",
	} {
		body := `{"expr":"a","deliver":` + deliver + `}`
		p := s.send("PUT", "/triggers/x", body).problem(t)
		if p.Code != api.BadRequest || p.Field != "deliver" || !strings.HasPrefix(p.Detail, "deliver: "+detail) && !strings.HasPrefix(p.Detail, detail) {
			t.Errorf("PUT with %s: %s (%s) %s", deliver, p.Code, p.Field, p.Detail)
		}
		var got api.TriggerCheck
		s.must(200, s.send("POST", "/triggers/check?id=x", body), &got)
		if field, rest, _ := strings.Cut(detail, ": "); len(got.Faults) != 1 || got.Faults[0].Field != "deliver."+field || !strings.HasPrefix(got.Faults[0].Detail, rest) {
			t.Errorf("check with %s: %+v", deliver, got.Faults)
		}
	}
	const spec, kept = `{"expr":"a","deliver":{"queue":"mails","delay":"1m"}}`, `{"expr":"b","keep_deliver":true}`
	var stored api.TriggerStored
	s.must(201, s.send("PUT", "/triggers/x", spec), &stored)
	check.Equal(t, string(stored.Deliver), `{"queue":"mails","delay":"1m"}`)
	rules := []access.Rule{permit(access.All, access.Trigger, access.Any), permit(access.Read, access.Topic, "events")}
	without := authorization(s.token("without", time.Time{}, rules...))
	with := authorization(s.token("with", time.Time{}, append(rules, permit(access.Write, access.Topic, "mails"))...))
	for _, body := range []string{spec, kept} {
		p := s.matrix("PUT", "/triggers/x", api.JSON, body, without).problem(t)
		if p.Code != api.Forbidden || !strings.Contains(p.Detail, `write on topic "mails"`) {
			t.Errorf("without the right to write: %s %s", p.Code, p.Detail)
		}
		var got api.TriggerCheck
		s.must(200, s.matrix("POST", "/triggers/check?id=x", api.JSON, body, without), &got)
		if len(got.Faults) != 1 || got.Faults[0].Field != "deliver" || !strings.Contains(got.Faults[0].Detail, `write on topic "mails"`) {
			t.Errorf("check without the right to write: %+v", got.Faults)
		}
		check.Equalf(t, s.matrix("PUT", "/triggers/x", api.JSON, body, with).status, 200, "with the right to write")
	}
}
