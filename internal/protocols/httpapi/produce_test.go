package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
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

// TestRecordsDoNotEndThePart: a producer that has read answers cannot hide the records of others
// from readers that search for the boundary, such as mime/multipart.
func TestRecordsDoNotEndThePart(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "first")
	const read = "/records?topic-name=t&offset=0&timeout=0s&max-records=100"
	all, seen := []string{"first"}, map[string]bool{}
	for range 3 {
		known := s.get(read).boundary()
		end := "\r\n--" + known + "--\r\n"
		values := []string{end, end[:7], end[7:], "\r", "\n--" + known, "--", "\r\n--" + known + "\r\n\r\n", "victim"}
		body, kind := form(values...)
		s.mustPost("topic-name=t", kind, body)
		all = append(all, values...)
		a := s.get(read)
		check.EqualSlicesf(t, a.unform(t), all, "records, after some with the boundary %s", known)
		if seen[known] || len(known) < 20 {
			t.Errorf("boundary %q, want a long one that no other answer has", known)
		}
		seen[known] = true
	}
}
