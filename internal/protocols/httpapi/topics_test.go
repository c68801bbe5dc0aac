package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
)

func (s *server) put(topic, body string, header ...string) *answered {
	s.t.Helper()
	h := map[string]string{"Content-Type": api.JSON}
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return s.do(call{method: "PUT", path: "/topic?topic-name=" + topic, body: strings.NewReader(body), header: h})
}

func (a *answered) topic(t *testing.T) (out api.Topic) {
	t.Helper()
	if err := json.Unmarshal(a.body, &out); err != nil || a.status >= 300 {
		t.Fatalf("%s: %v", a, err)
	}
	return out
}

func TestTopicLifecycle(t *testing.T) {
	s := start(t)
	a := s.put("b", `{"partitions":2,"settings":{"retention-time":"7d","retention-bytes":1048576,"key-index":true}}`)
	topic := a.topic(t)
	if a.status != 201 || topic.Name != "b" || len(topic.ID) != 32 || len(topic.Partitions) != 2 || topic.NextOffset != 0 ||
		strings.Contains(string(a.body), "latest_commit_at") {
		t.Fatalf("%s", a)
	}
	check.Equalf(t, fmt.Sprint(topic.Settings), "map[key-index:true retention-bytes:1048576 retention-time:168h0m0s]", "settings")
	s.mustPost("topic-name=b&partition=1", api.TextPlain, "x\ny\nz")
	s.mustPost("topic-name=a", api.TextPlain, "x")

	topic = s.get("/topic?topic-name=b").topic(t)
	if topic.NextOffset != 0 || !topic.LatestCommitAt.IsZero() || topic.Partitions[1].Next != 3 || topic.Partitions[1].Bytes == 0 {
		t.Errorf("%+v", topic)
	}
	topic = s.get("/topic?topic-name=b&partition=1&read=latest").topic(t)
	if topic.NextOffset != 3 || topic.LatestCommitAt.IsZero() {
		t.Errorf("%+v", topic)
	}

	a = s.put("b", `{"partitions":3,"settings":{"retention-time":"","key-index":null,"retention-bytes":"unlimited"}}`)
	topic = a.topic(t)
	if a.status != 200 || len(topic.Partitions) != 3 || fmt.Sprint(topic.Settings) != "map[retention-bytes:unlimited]" {
		t.Errorf("%s", a)
	}
	if a := s.put("b", ``); a.status != 200 || len(a.topic(t).Partitions) != 3 {
		t.Errorf("%s", a)
	}
	// An unreadable condition is an error, because the client did not want to change an existing
	// topic.
	if p := s.put("b", ``, "If-None-Match", "foo").problem(t); p.Code != api.BadRequest || p.Field != "If-None-Match" {
		t.Errorf("%+v", p)
	}
	if a := s.put("b", ``, "If-None-Match", `W/"any"`); a.status != 200 {
		t.Errorf("%s", a)
	}
	if p := s.put("b", ``, "If-None-Match", "*").problem(t); p.Code != api.TopicExists {
		t.Errorf("%+v", p)
	}

	var list api.Topics
	if err := json.Unmarshal(s.get("/topics").body, &list); err != nil || len(list.Topics) != 2 || list.Topics[0].Name != "a" || list.Topics[1].Name != "b" {
		t.Errorf("%+v %v", list, err)
	}
	if a := s.do(call{method: "DELETE", path: "/topic?topic-name=b"}); a.status != 204 || len(a.body) != 0 {
		t.Errorf("%s", a)
	}
	if p := s.do(call{method: "DELETE", path: "/topic?topic-name=b"}).problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
	// A recreated topic is another topic.
	if again := s.put("b", "{}").topic(t); again.ID == topic.ID || again.NextOffset != 0 {
		t.Errorf("%+v", again)
	}
}

func TestBadTopics(t *testing.T) {
	s := start(t)
	if a := s.put("t", `{"partitions":2}`); a.status != 201 {
		t.Fatal(a)
	}
	for _, c := range []struct{ topic, body, field, says string }{
		{"..%2f..%2fevil", `{}`, "topic-name", "evil"},
		{"t", `{"partitions":1}`, "partitions", "less than the current 2"},
		{"t", `{"partitions":-1}`, "partitions", "-1"},
		{"t", `{"partitions":1.5}`, "partitions", "want a whole number"},
		{"t", `{"partition":1}`, "partition", "unknown member"},
		{"t", `{"settings":{"retention-tme":"7d"}}`, "settings", "retention-tme"},
		{"t", `{"settings":{"retention-time":"soon"}}`, "settings", "soon"},
		{"t", `{"settings":{"retention-time":{"days":7}}}`, "retention-time", "want a string"},
		{"t", `{"settings":[]}`, "settings", "want an object"},
		{"t", `{`, "body", ""},
		{"t", `{} {}`, "body", "more than one"},
		{"t", `null`, "body", "must not be null"},
		{"t", `{"partitions":null}`, "partitions", "must not be null"},
		{"t", `{"settings":null}`, "settings", "must not be null"},
		{"new", `{"partitions":100000000}`, "partitions", "100000000"},
		{"new", `{"settings":{"cleanup-policy":"shred"}}`, "settings", "shred"},
	} {
		p := s.put(c.topic, c.body).problem(t)
		if p.Code != api.BadRequest || p.Field != c.field || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s %s: %+v", c.topic, c.body, p)
		}
	}
	if p := s.put("t", strings.Repeat(" ", topicBodyMax+1)).problem(t); p.Code != api.TooLarge {
		t.Errorf("%+v", p)
	}
	if a := s.get("/topic?topic-name=new"); a.status != 404 {
		t.Errorf("%s", a)
	}
}

// TestBodyOfTheWrongType: faults use the terms of JSON.
func TestBodyOfTheWrongType(t *testing.T) {
	s := triggerServer(t)
	for _, path := range []string{"/topic?topic-name=t", "/triggers/t", "/offsets?group=g&topic-name=t"} {
		if p := s.send("PUT", path, `["x"]`).problem(t); p.Field != "body" || p.Detail != "body: want an object, given a JSON array" {
			t.Errorf("%s: %+v", path, p)
		}
	}
}
