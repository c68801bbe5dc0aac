package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// newQueue creates a queue. settings is a JSON object, or "".
func newQueue(s *server, name, settings string) {
	s.t.Helper()
	if settings == "" {
		settings = "{}"
	}
	s.must(201, s.send("PUT", "/queues/"+name, `{"settings":`+settings+`}`), nil)
}

func (s *server) queue(name string) (q api.Queue) {
	s.t.Helper()
	s.must(200, s.get("/queues/"+name), &q)
	return q
}

// lease leases messages with the body of a request.
func (s *server) lease(queue, body string) []api.QueueMessage {
	s.t.Helper()
	var out api.QueueMessages
	s.must(200, s.send("POST", "/queues/"+queue+"/lease", body), &out)
	return out.Messages
}

// settle settles messages, and returns the codes of the results.
func (s *server) settle(queue string, list ...api.Settlement) (codes []string) {
	s.t.Helper()
	body := must.Get(json.Marshal(&api.Settlements{Messages: list}))(s.t)
	var out api.MessageResults
	s.must(200, s.send("POST", "/queues/"+queue+"/settle", string(body)), &out)
	for i := range out.Messages {
		codes = append(codes, string(out.Messages[i].Code))
	}
	return codes
}

func valuesOf(list []api.QueueMessage) string {
	var all []string
	for i := range list {
		all = append(all, *list[i].Value)
	}
	return strings.Join(all, " ")
}

// code sends a request that fails, and returns the code of its problem.
func (s *server) code(method, path string) (code api.Code) {
	s.t.Helper()
	var p api.Problem
	a := s.send(method, path, "")
	s.must(a.status, a, &p)
	return p.Code
}

func (s *server) sendOne(queue, query, body string) *answered {
	s.t.Helper()
	return s.do(call{method: "POST", path: "/queues/" + queue + "/messages?" + query, body: strings.NewReader(body), header: map[string]string{"Content-Type": api.OctetStream, "Accept": "*/*"}})
}

// TestQueueOverHTTP follows messages from their producers to workers and to the dead-letter queue.
func TestQueueOverHTTP(t *testing.T) {
	s := start(t)
	newQueue(s, "mails", `{"visibility":"1m","max-deliveries":2}`)
	q := s.queue("mails")
	if q.Settings["visibility"] != "1m0s" || q.Settings["dead-letter"] != "mails.dead" || q.Effective["max-deliveries"] != "2" || q.Effective["in-flight-max"] != "20000" || q.Priorities != 1 {
		t.Errorf("created: %+v", q)
	}
	var sent api.MessageResults
	s.must(200, s.sendMessages("mails", `{"messages":[{"value":"a"},{"value_base64":"/w==","key":"k","headers":{"h":"v"}},{"value":"later","delay":"1d"}]}`), &sent)
	if len(sent.Messages) != 3 || sent.Messages[1].ID == "" {
		t.Fatalf("sent %+v", sent)
	}
	list := s.lease("mails", `{"max":10}`)
	if len(list) != 2 || *list[0].Value != "a" || list[0].Deliveries != 1 || list[0].State != "" || list[0].Until.Sub(list[0].Sent) < time.Minute-time.Second {
		t.Fatalf("leased %+v", list)
	}
	if m := list[1]; m.Value != nil || *m.ValueBase64 != "/w==" || *m.Key != "k" || len(m.Headers) != 1 || *m.Headers[0].Value != "v" {
		t.Errorf("attributes: %+v", m)
	}
	if q := s.queue("mails"); q.Leased != 2 || q.Delayed != 1 || q.Ready != 0 || q.Sent != 3 || q.OldestAt.IsZero() {
		t.Errorf("numbers %+v", q)
	}
	codes := s.settle("mails",
		api.Settlement{Receipt: list[0].Receipt, Do: "done"},
		api.Settlement{Receipt: "nonsense", Do: "done"},
		api.Settlement{Receipt: list[1].Receipt, Do: "finished"},
		api.Settlement{Receipt: list[1].Receipt, Do: "retry", Delay: "yesterday"},
		api.Settlement{Receipt: list[1].Receipt, Do: "retry", Delay: "0s", Reason: "mailbox full"},
		api.Settlement{Receipt: list[0].Receipt, Do: "done"})
	check.Equal(t, fmt.Sprint(codes), "[ unknown_receipt bad_request bad_request  stale_receipt]")
	again := s.lease("mails", `{"max":10}`)
	if len(again) != 1 || again[0].Deliveries != 2 {
		t.Fatalf("retried: %+v", again)
	}
	check.Equal(t, fmt.Sprint(s.settle("mails", api.Settlement{Receipt: again[0].Receipt, Do: "extend", Delay: "2h"}, api.Settlement{Receipt: again[0].Receipt, Do: "retry"})), "[ ]")
	sebtest.Eventually(t, "a dead letter", func() bool { return s.queue("mails.dead").Ready == 1 })
	var peeked api.QueueMessages
	s.must(200, s.get("/queues/mails.dead/messages?state=ready"), &peeked)
	headers := fmt.Sprint(peeked.Messages)
	if len(peeked.Messages) != 1 || peeked.Messages[0].State != "ready" || !strings.Contains(string(s.get("/queues/mails.dead/messages").body), "mailbox full") {
		t.Errorf("letters: %s", headers)
	}
	letter := s.lease("mails.dead", "")
	check.Equal(t, fmt.Sprint(s.settle("mails.dead", api.Settlement{Receipt: letter[0].Receipt, Do: "dead"}, api.Settlement{Receipt: letter[0].Receipt, Do: "retry", Delay: "0s"})), "[no_dead_letter_queue ]")
	var moved api.Redriven
	s.must(200, s.send("POST", "/queues/mails.dead/redrive", `{"dry_run":true}`), &moved)
	check.Equal(t, moved, api.Redriven{Moved: 1})
	s.must(200, s.send("POST", "/queues/mails.dead/redrive", ""), &moved)
	check.Equal(t, moved, api.Redriven{Moved: 1})
	if q := s.queue("mails"); q.Ready != 1 || q.Delayed != 1 {
		t.Errorf("after the redrive %+v", q)
	}
	s.cancelMail()
	var purged api.Purged
	s.must(200, s.send("POST", "/queues/mails/purge", ""), &purged)
	check.Equal(t, purged.Purged, int64(1))
	check.Equal(t, s.send("DELETE", "/queues/mails.dead", "").problem(t).Code, api.TopicInUse)
	s.must(204, s.send("DELETE", "/queues/mails", ""), nil)
	s.must(204, s.send("DELETE", "/queues/mails.dead", ""), nil)
	check.Equal(t, s.send("POST", "/queues/mails/lease", "").problem(t).Code, api.UnknownTopic)
}

// cancelMail lists and cancels messages of TestQueueOverHTTP.
func (s *server) cancelMail() {
	t := s.t
	t.Helper()
	var peeked api.QueueMessages
	s.must(200, s.get("/queues/mails/messages?limit=1"), &peeked)
	if peeked.Next != "0-3" || peeked.Messages[0].ID != "0-3" {
		t.Errorf("first page %+v", peeked)
	}
	s.must(200, s.get("/queues/mails/messages?state=delayed&max-value-bytes=2&before="+peeked.Next), &peeked)
	if len(peeked.Messages) != 1 || *peeked.Messages[0].Value != "la" || *peeked.Messages[0].ValueBytes != 5 {
		t.Errorf("delayed %+v", peeked.Messages)
	}
	s.must(204, s.send("DELETE", "/queues/mails/messages/"+peeked.Messages[0].ID, ""), nil)
	check.Equal(t, s.code("DELETE", "/queues/mails/messages/"+peeked.Messages[0].ID), api.UnknownMessage)
	s.lease("mails", "")
	check.Equal(t, s.code("DELETE", "/queues/mails/messages/0-3"), api.MessageLeased)
}

// TestOneMessageHasParameters: the attributes of a message whose value is the body.
func TestOneMessageHasParameters(t *testing.T) {
	s := start(t)
	s.must(201, s.send("PUT", "/queues/jobs", `{"priorities":2}`), nil)
	var first, second api.MessageResult
	s.must(201, s.sendOne("jobs", "key=k&dedup=order-7&priority=1&expire=1d", "low"), &first)
	s.must(201, s.sendOne("jobs", "dedup=order-7", "again"), &second)
	if first.ID != "1-0" || first.Duplicate || second.ID != first.ID || !second.Duplicate {
		t.Errorf("sent %+v and %+v", first, second)
	}
	s.must(201, s.sendOne("jobs", "delay=1h", "later"), nil)
	s.must(201, s.sendOne("jobs", "at="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339), ""), nil)
	s.must(201, s.sendOne("jobs", "at=2020-01-01T00:00:00Z", "now"), nil)
	list := s.lease("jobs", `{"max":10,"visibility":"2h"}`)
	check.Equal(t, valuesOf(list), "now low")
	if *list[1].Key != "k" || list[0].Until.Before(time.Now().Add(time.Hour)) {
		t.Errorf("leased %+v", list)
	}
	var lines api.MessageResults
	s.must(200, s.do(call{method: "POST", path: "/queues/jobs/messages", body: strings.NewReader("a\nb\n"), header: map[string]string{"Content-Type": api.TextPlain}}), &lines)
	s.must(200, s.do(call{method: "POST", path: "/queues/jobs/messages", body: strings.NewReader(`{"value":"c"}` + "\n" + `{"value":"d","priority":1}`), header: map[string]string{"Content-Type": api.NDJSON}}), &lines)
	check.Equal(t, valuesOf(s.lease("jobs", `{"max":10}`)), "a b c d")
}

// badQueueRequests are requests with an invalid field.
var badQueueRequests = []struct {
	method, path, body string
	code               api.Code
	field              string
}{
	{"PUT", "/queues/a%20b", "", api.BadRequest, "queue"},
	{"PUT", "/queues/n", `{"priorities":11}`, api.BadRequest, "priorities"},
	{"PUT", "/queues/n", `{"priorities":-1}`, api.BadRequest, "priorities"},
	{"PUT", "/queues/n", `{"settings":{"visibility":"13h"}}`, api.BadRequest, "settings"},
	{"PUT", "/queues/n", `{"settings":{"visibility":{}}}`, api.BadRequest, "visibility"},
	{"PUT", "/queues/n", `{"settings":{"dead-letter":"missing"}}`, api.BadRequest, "settings"},
	{"PUT", "/queues/n", `{"settings":{"dead-letter":"plain"}}`, api.BadRequest, "settings"},
	{"PUT", "/queues/n", `{"setting":{}}`, api.BadRequest, "setting"},
	{"PUT", "/queues/q", `{"priorities":2}`, api.BadRequest, "priorities"},
	{"PUT", "/queues/q", `{"settings":{"key-mode":"order"}}`, api.BadRequest, "settings"},
	{"PUT", "/queues/q", `{"settings":{"key-mode":"order","key-limit":2}}`, api.BadRequest, "settings"},
	{"PUT", "/queues/plain", `{}`, api.NotAQueue, ""},
	{"GET", "/queues/plain", "", api.NotAQueue, ""},
	{"GET", "/queues/none", "", api.UnknownTopic, ""},
	{"DELETE", "/queues/plain", "", api.NotAQueue, ""},
	{"DELETE", "/queues/none", "", api.UnknownTopic, ""},
	{"POST", "/queues/plain/lease", "", api.NotAQueue, ""},
	{"POST", "/queues/q/lease", `{"max":1001}`, api.BadRequest, "max"},
	{"POST", "/queues/q/lease", `{"max":-1}`, api.BadRequest, "max"},
	{"POST", "/queues/q/lease", `{"wait":"61s"}`, api.BadRequest, "wait"},
	{"POST", "/queues/q/lease", `{"wait":"-1s"}`, api.BadRequest, "wait"},
	{"POST", "/queues/q/lease", `{"wait":"soon"}`, api.BadRequest, "wait"},
	{"POST", "/queues/q/lease", `{"visibility":"1d"}`, api.BadRequest, "visibility"},
	{"POST", "/queues/q/lease", `{"visible":"1m"}`, api.BadRequest, "visible"},
	{"POST", "/queues/q/settle", "", api.BadRequest, "body"},
	{"POST", "/queues/q/settle", `{"messages":[]}`, api.BadRequest, "messages"},
	{"POST", "/queues/q/settle", `{"messages":[{"receipt":7}]}`, api.BadRequest, "receipt"},
	{"POST", "/queues/none/settle", `{"messages":[{"receipt":"x","do":"done"}]}`, api.UnknownTopic, ""},
	{"GET", "/queues/q/messages?state=lost", "", api.BadRequest, "state"},
	{"GET", "/queues/q/messages?limit=1001", "", api.BadRequest, "limit"},
	{"GET", "/queues/q/messages?before=7", "", api.BadRequest, "before"},
	{"DELETE", "/queues/q/messages/7", "", api.BadRequest, "id"},
	{"DELETE", "/queues/q/messages/0-7", "", api.UnknownMessage, ""},
	{"DELETE", "/queues/q/messages/9-7", "", api.UnknownMessage, ""},
	{"POST", "/queues/q/redrive", `{"max":1001}`, api.BadRequest, "max"},
	{"POST", "/queues/q/redrive", `{"to":"missing"}`, api.BadRequest, "to"},
	{"POST", "/queues/q/redrive", `{"after":"x"}`, api.BadRequest, "after"},
	{"POST", "/queues/plain/purge", "", api.NotAQueue, ""},
	{"POST", "/queues/none/pause", "", api.UnknownTopic, ""},
}

// TestBadQueueRequests: each invalid field has an error that names it.
func TestBadQueueRequests(t *testing.T) {
	s := start(t)
	newTopic(s, "plain", 1)
	newQueue(s, "q", "")
	newQueue(s, "ordered", `{"key-mode":"order"}`)
	for _, c := range badQueueRequests {
		p := s.send(c.method, c.path, c.body).problem(t)
		if p.Code != c.code || p.Field != c.field {
			t.Errorf("%s %s %s: %s (%s) %s", c.method, c.path, c.body, p.Code, p.Field, p.Detail)
		}
	}
	for _, c := range []struct{ query, body, field string }{
		{"delay=366d", "", "delay"},
		{"delay=soon", "", "delay"},
		{"at=tomorrow", "", "at"},
		{"at=2999-01-01T00:00:00Z", "", "at"},
		{"at=2026-01-01T00:00:00Z&delay=1s", "", "at"},
		{"priority=1", "", "priority"},
		{"priority=x", "", "priority"},
		{"expire=-1s", "", "expire"},
		{"key-base64=*", "", "key-base64"},
		{"dedup=" + strings.Repeat("x", 257), "", "dedup"},
	} {
		if p := s.sendOne("q", c.query, c.body).problem(t); p.Code != api.BadRequest || p.Field != c.field {
			t.Errorf("send with %s: %s (%s) %s", c.query, p.Code, p.Field, p.Detail)
		}
	}
	check.Equal(t, s.sendOne("ordered", "delay=1s", "x").problem(t).Field, "delay")
	check.Equal(t, s.sendOne("none", "", "x").problem(t).Code, api.UnknownTopic)
	check.Equal(t, s.sendOne("plain", "", "x").problem(t).Code, api.NotAQueue)
	for body, field := range map[string]string{
		``: "body", `[]`: "body", `{}`: "value", `{"value":"v","dealy":"1s"}`: `"dealy"`, `{"value":"v","delay":{}}`: "delay",
		`{"value":"v","delay":"1s","delay":"2s"}`: "delay", `{"records":[]}`: `"records"`,
	} {
		if p := s.sendMessages("q", body).problem(t); p.Code != api.BadRequest || p.Field != field {
			t.Errorf("messages %s: %s (%s) %s", body, p.Code, p.Field, p.Detail)
		}
	}
	var out api.MessageResults
	s.must(200, s.sendMessages("q", `[{"value":"a"},{"value":"b","delay":"366d"},{"value":"c","priority":3},{"value":"d","delay":5},{"value":"e","headers":{"seb-x":"1"}},{"value":"f"}]`), &out)
	var fields []string
	for _, r := range out.Messages {
		fields = append(fields, r.ID+string(r.Code)+"/"+r.Field)
	}
	check.Equal(t, strings.Join(fields, " "), "0-0/ bad_request/delay bad_request/priority bad_request/delay bad_request/headers 0-1/")
	check.Equal(t, s.queue("q").Sent, int64(2))
}

// TestQueueListAndPause: lists have pages, and a paused queue gives nothing.
func TestQueueListAndPause(t *testing.T) {
	s := start(t)
	for _, name := range []string{"a", "b", "c"} {
		newQueue(s, name, `{"dead-letter":"none"}`)
	}
	newTopic(s, "plain", 1)
	var page api.Queues
	s.must(200, s.get("/queues?limit=2"), &page)
	if len(page.Queues) != 2 || page.Queues[1].Name != "b" || *page.Next != "b" {
		t.Errorf("first page %+v", page)
	}
	var rest api.Queues
	s.must(200, s.get("/queues?after=b&contains=C"), &rest)
	if len(rest.Queues) != 1 || rest.Queues[0].Name != "c" || rest.Next != nil {
		t.Errorf("rest %+v", rest)
	}
	s.must(201, s.sendOne("a", "", "x"), nil)
	var q api.Queue
	s.must(200, s.send("POST", "/queues/a/pause", ""), &q)
	check.Equal(t, q.Effective["paused"], "true")
	check.Equal(t, len(s.lease("a", "")), 0)
	s.must(200, s.send("POST", "/queues/a/resume", ""), &q)
	check.Equal(t, q.Effective["paused"], "false")
	check.Equal(t, len(s.lease("a", "")), 1)
	a := s.do(call{method: "PUT", path: "/queues/a", header: map[string]string{"If-None-Match": "*"}})
	check.Equal(t, a.problem(t).Code, api.TopicExists)
	s.must(200, s.send("PUT", "/queues/a", `{"settings":{"max-deliveries":9}}`), nil)
}

// TestQueueRights: who may send, work and manage.
func TestQueueRights(t *testing.T) {
	s := start(t)
	newQueue(s, "q", "")
	newQueue(s, "other", "")
	s.must(201, s.sendOne("q", "", "x"), nil)
	topic := func(o access.Operation, name string) access.Rule { return permit(o, access.Topic, name) }
	as := func(key, method, path, body string) int {
		kind := map[bool]string{true: api.OctetStream, false: api.JSON}[strings.HasSuffix(path, "/messages")]
		return s.matrix(method, path, kind, body, authorization(key)).status
	}
	sender := s.token("sender", time.Time{}, topic(access.Write, "q"))
	worker := s.token("worker", time.Time{}, topic(access.Read, "q"), permit(access.Read, access.Group, "q"))
	reader := s.token("reader", time.Time{}, topic(access.Read, "q"))
	maker := s.token("maker", time.Time{}, topic(access.Create, "new"))
	mover := s.token("mover", time.Time{}, topic(access.Read, "q"), permit(access.Read, access.Group, "q"), topic(access.Write, "target"))
	for _, c := range []struct {
		who, key, method, path, body string
		want                         int
	}{
		{"sender", sender, "POST", "/queues/q/messages", "x", 201},
		{"sender", sender, "POST", "/queues/other/messages", "x", 403},
		{"sender", sender, "POST", "/queues/q/lease", "", 403},
		{"sender", sender, "GET", "/queues/q", "", 200}, // write implies describe
		{"sender", sender, "GET", "/queues/q/messages", "", 403},
		{"sender", sender, "PUT", "/queues/q", "", 403},
		{"sender", sender, "POST", "/queues/q/purge", "", 403},
		{"sender", sender, "POST", "/queues/q/pause", "", 403},
		{"reader", reader, "POST", "/queues/q/lease", "", 403},
		{"reader", reader, "GET", "/queues/q/messages", "", 200},
		{"worker", worker, "POST", "/queues/q/lease", "", 200},
		{"worker", worker, "POST", "/queues/q/settle", `{"messages":[{"receipt":"x","do":"done"}]}`, 200},
		{"worker", worker, "POST", "/queues/q/messages", "x", 403},
		{"worker", worker, "DELETE", "/queues/q/messages/0-0", "", 403},
		{"worker", worker, "DELETE", "/queues/q", "", 403},
		{"mover", mover, "POST", "/queues/q/redrive", `{"to":"other","dry_run":true}`, 403},
		{"maker", maker, "PUT", "/queues/new", "", 403}, // not its dead-letter queue
		{"maker", maker, "PUT", "/queues/new", `{"settings":{"dead-letter":"other"}}`, 403},
		{"maker", maker, "PUT", "/queues/new", `{"settings":{"dead-letter":"none"}}`, 201},
	} {
		check.Equalf(t, as(c.key, c.method, c.path, c.body), c.want, "%s: %s %s %s", c.who, c.method, c.path, c.body)
	}
	var list api.Queues
	s.must(200, s.matrix("GET", "/queues", "", "", authorization(worker)), &list)
	if len(list.Queues) != 1 || list.Queues[0].Name != "q" {
		t.Errorf("the worker sees %+v", list.Queues)
	}
}

// TestWaitingWorkers: a waiting lease gets a message that is sent later; one whose client has left, or whose
// queue is deleted, takes none; and the stop of the server ends it.
func TestWaitingWorkers(t *testing.T) {
	s := start(t)
	newQueue(s, "q", `{"dead-letter":"none"}`)
	waiting := func(n int) {
		t.Helper()
		sebtest.Eventually(t, fmt.Sprintf("%d workers wait", n), func() bool { return s.api.o.Queues.Waiting("q") == n })
	}
	ctx, leave := context.WithCancel(t.Context())
	req := must.Get(http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+"/queues/q/lease", strings.NewReader(`{"wait":"1m"}`)))(t)
	authorization("Bearer " + canary)(req)
	left := make(chan error, 1)
	go func() {
		_, err := s.client.Do(req)
		left <- err
	}()
	waiting(1)
	leave()
	check.ErrorIs(t, <-left, context.Canceled)
	waiting(0)
	got := make(chan []api.QueueMessage, 1)
	go func() { got <- s.lease("q", `{"wait":"1m","max":5}`) }()
	waiting(1)
	s.must(201, s.sendOne("q", "", "x"), nil)
	check.Equal(t, valuesOf(<-got), "x")
	gone := make(chan *answered, 1)
	go func() { gone <- s.send("POST", "/queues/q/lease", `{"wait":"1m"}`) }()
	waiting(1)
	s.must(204, s.send("DELETE", "/queues/q", ""), nil)
	a := <-gone
	check.Equalf(t, a.problem(t).Code, api.UnknownTopic, "a worker of a deleted queue: %s", a)
	newQueue(s, "q", `{"dead-letter":"none"}`)
	go func() { got <- s.lease("q", `{"wait":"1m"}`) }()
	waiting(1)
	s.api.Stop()
	check.Equal(t, len(<-got), 0)
}

// TestWaitingWorkersGiveWay: at the limit of connections a further worker that waits is refused, and a producer
// takes the slot of the one that has waited longest.
func TestWaitingWorkersGiveWay(t *testing.T) {
	s := start(t, func(c *setup) { c.http.Connections, c.http.QueueWait, c.http.KeepIdle = 3, time.Hour, time.Hour })
	newQueue(s, "q", "")
	s.client.CloseIdleConnections()
	sebtest.Eventually(t, "its connection is closed", func() bool { return s.api.connections.Slots.Open() == 0 })
	post := func(path, kind, body string) string {
		return fmt.Sprintf("POST /queues/q/%s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, canary, kind, len(body), body)
	}
	wait, short := post("lease", api.JSON, `{"wait":"1m"}`), post("lease", api.JSON, "{}")
	var workers []net.Conn
	for n := range 3 {
		workers = append(workers, s.dial())
		fmt.Fprint(workers[n], wait)
		sebtest.Eventually(t, "one more worker waits", func() bool { return s.api.o.Queues.Waiting("q") == n+1 })
	}
	ask(t, s.dial(), wait, http.StatusTooManyRequests)
	ask(t, s.dial(), short, http.StatusOK)
	check.Equal(t, s.api.o.Queues.Waiting("q"), 3)
	ask(t, s.dial(), post("messages", api.OctetStream, "x"), http.StatusCreated)
	if resp := ask(t, workers[0], "", http.StatusOK); resp != nil && !resp.Close {
		t.Error("the connection of a worker that gave way is not closed")
	}
	ask(t, workers[1], "", http.StatusOK)
	sebtest.Eventually(t, "the message is leased", func() bool { return must.Get(s.api.o.Queues.Info("q"))(t).InFlight == 1 })
}

// TestAWaitingWorkerLosesItsRight: it gets no message that is sent later.
func TestAWaitingWorkerLosesItsRight(t *testing.T) {
	s := start(t)
	newQueue(s, "q", "")
	worker := s.token("worker", time.Time{}, permit(access.Read, access.Topic, "q"), permit(access.Read, access.Group, "q"))
	got := make(chan *answered, 1)
	go func() { got <- s.matrix("POST", "/queues/q/lease", api.JSON, `{"wait":"1m"}`, authorization(worker)) }()
	sebtest.Eventually(t, "a worker waits", func() bool { return s.api.o.Queues.Waiting("q") == 1 })
	s.allow("worker", permit(access.Read, access.Topic, "q"))
	check.Equal(t, (<-got).status, 403)
}

// TestLeaseIsBounded: an answer has at most 4 MiB of messages, and for a client with a quota what that allows
// in some seconds.
func TestLeaseIsBounded(t *testing.T) {
	s := start(t)
	newQueue(s, "q", "")
	large := strings.Repeat("x", 900<<10)
	for range 6 {
		s.must(201, s.sendOne("q", "", large), nil)
	}
	list := s.lease("q", `{"max":6}`)
	if n := len(list); n != 4 {
		t.Errorf("%d messages of 900 KiB in an answer", n)
	}
	s.must(200, s.send("PUT", "/quotas/worker", `{"fetch_bytes":100000}`), nil)
	worker := s.token("worker", time.Time{}, permit(access.Read, access.Topic, "q"), permit(access.Read, access.Group, "q"))
	var out api.QueueMessages
	s.must(200, s.matrix("POST", "/queues/q/lease", api.JSON, `{"max":6}`, authorization(worker)), &out)
	check.Equalf(t, len(out.Messages), 1, "messages of 900 KiB for a client with 100,000 bytes/s")
	check.Equalf(t, s.matrix("POST", "/queues/q/lease", api.JSON, `{"max":6}`, authorization(worker)).status, 429, "the next lease")
}

// TestFullQueue: a queue that has reached its retention-bytes refuses messages and records.
func TestFullQueue(t *testing.T) {
	s := start(t)
	newQueue(s, "q", "")
	s.must(200, s.send("PUT", "/topic?topic-name=q", `{"settings":{"retention-bytes":"100"}}`), nil)
	s.must(201, s.sendOne("q", "", strings.Repeat("x", 200)), nil)
	check.Equal(t, s.sendOne("q", "", "y").problem(t).Code, api.QueueFull)
	check.Equal(t, s.sendMessages("q", `[{"value":"y"},{"value":"z"}]`).problem(t).Code, api.QueueFull)
	check.Equal(t, s.post("topic-name=q", api.TextPlain, "y").problem(t).Code, api.QueueFull)
	check.Equalf(t, s.queue("q").Full, true, "full")
	newQueue(s, "few", `{"in-flight-max":1}`)
	s.must(200, s.sendMessages("few", `[{"value":"y"},{"value":"z"}]`), nil)
	check.Equal(t, len(s.lease("few", `{"max":2}`)), 1)
	check.Equal(t, s.send("POST", "/queues/few/lease", "").problem(t).Code, api.QueueLimit)
}
