package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// takesAll is an Accept header that the original's client never sends.
var takesAll = map[string]string{"Accept": "*/*"}

func (s *server) send(method, path, body string) *answered {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	return s.do(call{method: method, path: path, body: r, header: takesAll})
}

// must checks the status and decodes the answer into v.
func (s *server) must(status int, a *answered, v any) {
	s.t.Helper()
	if a.status != status {
		s.t.Fatalf("%s, want %d", a, status)
	}
	if v != nil {
		must.NoErrorf(s.t, json.Unmarshal(a.body, v), "%s", a)
	}
}

func newTopic(s *server, name string, partitions int) {
	s.t.Helper()
	s.must(201, s.send("PUT", "/topic?topic-name="+name, fmt.Sprintf(`{"partitions":%d}`, partitions)), nil)
}

// TestMixedCommitsAreNotLogged checks that entries refused for their content cause no error in the
// log.
func TestMixedCommitsAreNotLogged(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	a := s.send("PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":0,"offset":1},{"topic":"none","partition":0,"offset":1}]}`)
	if p := a.problem(t); p.Code != api.OutcomeUnknown || len(p.Offsets) != 2 {
		t.Errorf("%+v", p)
	}
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

// TestGroupNamesAreChecked covers writes and reads.
func TestGroupNamesAreChecked(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for _, name := range []string{strings.Repeat("g", 300), "", "%00", "%ff", "a%0ab"} {
		for _, call := range []call{
			{method: "GET", path: "/offsets?group=" + name},
			{method: "GET", path: "/groups?group=" + name},
			{method: "GET", path: "/records?topic-name=t&group=" + name},
			{method: "PUT", path: "/offsets?topic-name=t&partition=0&group=" + name, body: strings.NewReader(`{"offset":1}`)},
			{method: "DELETE", path: "/offsets?topic-name=t&partition=0&group=" + name},
			{method: "DELETE", path: "/groups?group=" + name},
		} {
			if p := s.do(call).problem(t); p.Code != api.BadRequest || p.Field != "group" {
				t.Errorf("%s %.60s: %+v", call.method, call.path, p)
			}
		}
	}
}

func TestCommittedOffsets(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 2)
	s.mustPost("topic-name=t&partition=0", api.TextPlain, "a\nb\nc\nd")
	s.mustPost("topic-name=t&partition=1", api.TextPlain, "e\nf")

	var done api.OffsetResults
	s.must(200, s.send("PUT", "/offsets?group=g%20%C3%A9&topic-name=t&partition=0", `{"offset":3,"expected_offset":-1,"metadata":"m"}`), &done)
	if len(done.Offsets) != 1 || done.Group != "g é" || done.Offsets[0] != (api.OffsetResult{Topic: "t", Offset: 3}) {
		t.Errorf("%+v", done)
	}
	s.must(200, s.send("PUT", "/offsets?group=g%20%C3%A9", `{"offsets":[{"topic":"t","partition":1,"offset":0},{"topic":"t","partition":0,"offset":1,"expected_offset":3}]}`), &done)
	if len(done.Offsets) != 2 || done.Offsets[1].Offset != 1 {
		t.Errorf("%+v", done)
	}
	s.must(200, s.send("PUT", "/offsets?group=other&topic-name=t&partition=1", `{"offset":9}`), nil)

	var g api.Group
	s.must(200, s.get("/groups?group=g%20%C3%A9"), &g)
	if g.Lag != 5 || len(g.Offsets) != 2 || g.Offsets[0].Offset != 1 || g.Offsets[0].Lag != 3 || g.Offsets[1].Lag != 2 || g.Offsets[1].Next != 2 ||
		g.Offsets[0].Committed.IsZero() || g.Offsets[0].Metadata != "" {
		t.Errorf("%+v", g)
	}
	var all api.Groups
	s.must(200, s.get("/groups"), &all)
	if len(all.Groups) != 2 || all.Groups[0].Name != "g é" || all.Groups[1].Lag != 0 {
		t.Errorf("%+v", all)
	}
	for query, want := range map[string]int{"": 2, "&topic-name=t": 2, "&topic-name=t&partition=1": 1, "&topic-name=none": 0, "&read=latest": 2} {
		s.must(200, s.get("/offsets?group=g%20%C3%A9"+query), &g)
		check.Equalf(t, len(g.Offsets), want, "%q: %+v", query, g)
	}
	s.must(200, s.get("/offsets?group=none"), &g)
	if g.Name != "none" || g.Offsets == nil || len(g.Offsets) != 0 {
		t.Errorf("unknown group: %+v", g)
	}

	s.must(204, s.send("DELETE", "/offsets?group=other&topic-name=t&partition=1", ""), nil)
	s.must(404, s.get("/groups?group=other"), nil)
	s.must(204, s.send("DELETE", "/groups?group=g%20%C3%A9", ""), nil)
	for _, a := range []*answered{
		s.send("DELETE", "/groups?group=g%20%C3%A9", ""), s.get("/groups?group=x"), s.send("DELETE", "/offsets?group=x&topic-name=t&partition=0", ""),
	} {
		if p := a.problem(t); p.Code != api.UnknownGroup || p.Group == "" {
			t.Errorf("%s", a)
		}
	}
}

func TestCommitsWithDifferentOutcomes(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 2)
	p := s.send("PUT", "/offsets?group=g&topic-name=t&partition=1", `{"offset":7,"expected_offset":5}`).problem(t)
	if p.Code != api.OffsetMismatch || *p.Committed != -1 || *p.Offset != 5 || p.NextOffset != nil || p.Group != "g" || p.Topic != "t" || *p.Partition != 1 {
		t.Errorf("%+v", p)
	}
	// No entry is stored: the answer has the code of the first.
	p = s.send("PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":0,"offset":1,"expected_offset":4},{"topic":"none","partition":0,"offset":1}]}`).problem(t)
	if p.Code != api.OffsetMismatch || len(p.Offsets) != 2 || p.Offsets[1].Code != api.UnknownTopic || *p.Offsets[0].Committed != -1 {
		t.Errorf("%+v", p)
	}
	// One entry is stored: the outcome as a whole is unknown.
	p = s.send("PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":2,"offset":1}]}`).problem(t)
	if p.Code != api.OutcomeUnknown || len(p.Offsets) != 2 || p.Offsets[0].Code != "" || p.Offsets[1].Code != api.UnknownPartition {
		t.Errorf("%+v", p)
	}
	var g api.Group
	if s.must(200, s.get("/groups?group=g"), &g); len(g.Offsets) != 1 {
		t.Errorf("%+v", g)
	}
}

func TestBadOffsets(t *testing.T) {
	t.Parallel()
	s := start(t)
	newTopic(s, "t", 1)
	one := "/offsets?group=g&topic-name=t&partition=0"
	for _, c := range []struct{ method, path, body, field string }{
		{"PUT", "/offsets?topic-name=t&partition=0", `{"offset":1}`, "group"},
		{"PUT", "/offsets?group=&topic-name=t&partition=0", `{"offset":1}`, "group"},
		{"PUT", "/offsets?group=g&group=h&topic-name=t&partition=0", `{"offset":1}`, "group"},
		{"PUT", "/offsets?group=%00&topic-name=t&partition=0", `{"offset":1}`, "group"},
		{"PUT", "/offsets?group=" + strings.Repeat("x", 250) + "&topic-name=t&partition=0", `{"offset":1}`, "group"},
		{"PUT", "/offsets?group=g&partition=0", `{"offset":1}`, "topic-name"},
		{"PUT", "/offsets?group=g&topic-name=t", `{"offset":1}`, "partition"},
		{"PUT", "/offsets?group=g&topic-name=t&partition=-1", `{"offset":1}`, "partition"},
		{"PUT", one, ``, "body"},
		{"PUT", one, `{`, "body"},
		{"PUT", one, `{"offset":1}{}`, "body"},
		{"PUT", one, `{"offset":1,"x":2}`, "x"},
		{"PUT", one, `{}`, "offset"},
		{"PUT", one, `{"offset":null}`, "offset"},
		{"PUT", one, `{"offset":-1}`, "offset"},
		{"PUT", one, `{"offset":"1"}`, "offset"},
		{"PUT", one, `{"offset":1.5}`, "offset"},
		{"PUT", one, `{"offset":1,"expected_offset":-2}`, "expected_offset"},
		{"PUT", one, `{"offset":1,"metadata":3}`, "metadata"},
		{"PUT", one, `{"offset":1,"metadata":"` + strings.Repeat("x", broker.MetadataMax+1) + `"}`, "metadata"},
		{"PUT", one, `{"offset":1,"topic":"t"}`, "topic"},
		{"PUT", one, `{"offset":1,"partition":0}`, "partition"},
		{"PUT", one, `{"offsets":[]}`, "topic-name"},
		{"PUT", "/offsets?group=g&partition=0", `{"offsets":[]}`, "partition"},
		{"PUT", "/offsets?group=g", `{"offsets":[]}`, "offsets"},
		{"PUT", "/offsets?group=g", `{"offset":1,"offsets":[]}`, "offsets"},
		{"PUT", "/offsets?group=g", `{"offsets":[{"partition":0,"offset":1}]}`, "topic"},
		{"PUT", "/offsets?group=g", `{"offsets":[{"topic":"a/b","partition":0,"offset":1}]}`, "topic"},
		{"PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","offset":1}]}`, "partition"},
		{"PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":-1,"offset":1}]}`, "partition"},
		{"PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":0}]}`, "offset"},
		{"PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":0,"offset":true}]}`, "offset"},
		{"GET", "/offsets", "", "group"},
		{"GET", "/offsets?group=g&partition=1", "", "partition"},
		{"GET", "/offsets?group=g&topic-name=a/b", "", "topic-name"},
		{"GET", "/offsets?group=g&read=x", "", "read"},
		{"GET", "/groups?group=", "", "group"},
		{"GET", "/groups?group=a&group=b", "", "group"},
		{"DELETE", "/groups", "", "group"},
		{"DELETE", "/offsets?group=g&topic-name=t", "", "partition"},
		{"DELETE", "/offsets?topic-name=t&partition=0", "", "group"},
		{"POST", "/topic/trim?partition=0&offset=1", "", "topic-name"},
		{"POST", "/topic/trim?topic-name=t&offset=1", "", "partition"},
		{"POST", "/topic/trim?topic-name=t&partition=0", "", "offset"},
		{"POST", "/topic/trim?topic-name=t&partition=0&offset=x", "", "offset"},
		{"GET", "/records?topic-name=t&group=g&offset=1", "", "offset"},
		{"GET", "/records?topic-name=t&group=", "", "group"},
	} {
		if p := s.send(c.method, c.path, c.body).problem(t); p.Code != api.BadRequest || p.Field != c.field {
			t.Errorf("%s %s %.40s: %s, field %q, want %q", c.method, c.path, c.body, p.Code, p.Field, c.field)
		}
	}
	if p := s.send("PUT", one, strings.Repeat(" ", offsetsBodyMax+1)).problem(t); p.Code != api.TooLarge || p.Field != "body" {
		t.Errorf("too large: %+v", p)
	}
	if p := s.send("PUT", "/offsets?group=g", `{"offsets":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":0}]}`).problem(t); p.Record == nil || *p.Record != 1 {
		t.Errorf("which entry: %+v", p)
	}
	s.must(404, s.get("/groups?group=g"), nil)
}

func TestReadsOfAGroupStartAtItsOffset(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb\nc\nd")
	read := func(accept string) (*answered, string) {
		a := s.get("/records?topic-name=t&group=g&max-records=1", accept)
		s.must(200, a, nil)
		return a, a.header.Get(api.HeaderOffset)
	}
	if a, at := read(api.NDJSON); at != "0" || !strings.Contains(string(a.body), `"value":"a"`) {
		t.Errorf("nothing committed: %s at %s", a, at)
	}
	s.must(200, s.send("PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":2}`), nil)
	for _, accept := range []string{api.NDJSON, api.JSON, api.Multipart, api.RecordBatch} {
		if a, at := read(accept); at != "2" || !strings.Contains(string(a.body), "c") {
			t.Errorf("%s: %s at %s", accept, a, at)
		}
	}
	a := s.get("/records?topic-name=t&group=g&max-records=2", api.EventStream)
	if s.must(200, a, nil); !strings.Contains(string(a.body), "id: 2\n") || strings.Contains(string(a.body), "id: 1\n") || a.header.Get(api.HeaderOffset) != "2" {
		t.Errorf("event stream: %s", a)
	}
	a = s.do(call{method: "GET", path: "/records?topic-name=t&group=g&max-records=1", header: map[string]string{"Accept": api.EventStream, "Last-Event-ID": "2"}})
	if s.must(200, a, nil); !strings.Contains(string(a.body), "id: 3\n") {
		t.Errorf("continued event stream: %s", a)
	}
	s.must(404, s.get("/records?topic-name=none&group=g"), nil)
	s.must(404, s.get("/records?topic-name=t&partition=4&group=g"), nil)
}

func TestReadsOfTrimmedRecords(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb\nc")
	trim := func(offset string) *answered {
		return s.send("POST", "/topic/trim?topic-name=t&partition=0&offset="+offset, "")
	}
	var p api.Partition
	for _, offset := range []string{"2", "2", "1"} {
		if s.must(200, trim(offset), &p); p.Start != 2 || p.Next != 3 {
			t.Errorf("%s: %+v", offset, p)
		}
	}
	if p := s.get("/records?topic-name=t&offset=1").problem(t); p.Code != api.OffsetBelowStart || *p.StartOffset != 2 {
		t.Errorf("%+v", p)
	}
	a := s.get("/records?topic-name=t&group=new", api.NDJSON)
	if s.must(200, a, nil); a.header.Get(api.HeaderOffset) != "2" {
		t.Errorf("a new group starts at %s", a.header.Get(api.HeaderOffset))
	}
	if p := trim("4").problem(t); p.Code != api.OffsetBeyondEnd || *p.Offset != 4 || *p.Partition != 0 || p.Topic != "t" {
		t.Errorf("%+v", p)
	}
	if p := s.send("POST", "/topic/trim?topic-name=none&partition=0&offset=0", "").problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
	if p := s.send("POST", "/topic/trim?topic-name=t&partition=1&offset=0", "").problem(t); p.Code != api.UnknownPartition {
		t.Errorf("%+v", p)
	}
}

func TestReadOnlyRefusesCommits(t *testing.T) {
	store := objstore.NewMemory()
	s := start(t, func(c *setup) { c.store = store })
	s.mustPost("topic-name=t", api.TextPlain, "a")
	ro := start(t, func(c *setup) { c.store, c.broker.Core.ReadOnly = store, true })
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":1}`},
		{"DELETE", "/groups?group=g", ""},
		{"POST", "/topic/trim?topic-name=t&partition=0&offset=0", ""},
	} {
		a := ro.send(c.method, c.path, c.body)
		if p := a.problem(t); p.Code != api.ReadOnly || a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %s", c.method, c.path, a)
		}
	}
}
