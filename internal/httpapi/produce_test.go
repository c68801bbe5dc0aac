package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
)

func TestMultipartRoundTrip(t *testing.T) {
	s := start(t)
	body, kind := form("abc", "defg", "", "--x\r\n")
	if a := s.mustPost("topic-name=t", kind, body); string(a.body) != `{"offsets":[0,1,2,3]}` {
		t.Fatalf("first: %s", a)
	}
	body, kind = form("", "")
	if a := s.mustPost("topic-name=t", kind, body); string(a.body) != `{"offsets":[4,5]}` {
		t.Fatalf("all empty: %s", a)
	}
	a := s.get("/records?topic-name=t&offset=1")
	if got := a.unform(t); a.status != 200 || strings.Join(got, "|") != "defg||--x\r\n||" || a.header.Get(api.HeaderNextOffset) != "6" {
		t.Fatalf("read: %q %v", got, a.header)
	}
	if a := s.get("/record?topic-name=t&offset=1"); a.status != 200 || string(a.body) != "defg" {
		t.Fatalf("one record: %s", a)
	}
	var topic api.Topic
	if err := json.Unmarshal(s.get("/topic?topic-name=t").body, &topic); err != nil || topic.NextOffset != 6 || topic.LatestCommitAt.IsZero() {
		t.Fatalf("topic: %+v %v", topic, err)
	}
}
