package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/sebtest"
)

func (s *server) eventNames(query string) (out api.EventNames) {
	s.t.Helper()
	s.must(200, s.get("/events/names?"+query), &out)
	return out
}

// namesOf formats the names of an answer with their counts.
func namesOf(n *api.EventNames) string {
	var list []string
	for i := range n.Names {
		list = append(list, fmt.Sprintf("%s:%d", n.Names[i].Name, n.Names[i].Count))
	}
	return strings.Join(list, " ")
}

func TestEventNamesHaveProperties(t *testing.T) {
	s := eventServer(t)
	if p := s.get("/events/names").problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
	var at api.EventStored
	for _, data := range []string{
		`{"amount":1,"user":{"plan":"pro","e-mail ok":true,"tags":[{"x":1}],"more":{}},"then":null}`,
		`{"amount":"1.50","user":{"plan":null},"user":null}`,
		`{}`, `null`, `{"` + strings.Repeat("x", 300) + `":1,"amount":-1e400}`,
		strings.Repeat(`{"d":`, 17) + "1" + strings.Repeat("}", 17),
	} {
		s.must(201, s.event("", "", `{"event":"paid","entity_id":"u1","data":`+data+`}`), &at)
	}
	s.must(201, s.event("", "", `{"event":"a \"b\"","entity_id":"u1"}`), nil)
	s.mustPost("topic-name=events", api.NDJSON, `{"key":"k","value":"no event"}`)
	out := s.eventNames("")
	if namesOf(&out) != `paid:6 a "b":1` || out.Sampled != 8 || out.Records != 8 || out.Truncated || out.Topic != "events" || out.Since == nil || out.Since.After(at.Time) {
		t.Errorf("%+v", out)
	}
	if last := out.Names[0].Last; last == nil || !last.Equal(at.Time) {
		t.Errorf("last %v, want %v", last, at.Time)
	}
	const want = `[{"path":"amount","types":["string","number"],"sampled":3},` +
		`{"path":"user.plan","types":["string","null"],"sampled":2},` +
		`{"path":"\"then\"","types":["null"],"sampled":1},` +
		`{"path":"d.d.d.d.d.d.d.d.d.d.d.d.d.d.d.d","types":["object"],"sampled":1},` +
		`{"path":"user","types":["null"],"sampled":1},` +
		`{"path":"user.\"e-mail ok\"","types":["boolean"],"sampled":1},` +
		`{"path":"user.more","types":["object"],"sampled":1},` +
		`{"path":"user.tags","types":["array"],"sampled":1}]`
	if got, _ := json.Marshal(out.Names[0].Properties); string(got) != want || !out.Names[0].More {
		t.Errorf("%s, more %t, want %s", got, out.Names[0].More, want)
	}
	if p := out.Names[1]; p.Properties == nil || len(p.Properties) != 0 || p.More {
		t.Errorf("%+v", p)
	}
	// The text of each path is a property in an expression.
	for _, p := range out.Names[0].Properties {
		expr, _ := json.Marshal(map[string]string{"expr": "paid[" + p.Path + ` = "x"]`, "at": "2026-01-01T00:00:00Z"})
		s.must(200, s.send("POST", "/evaluate", string(expr)), nil)
	}
}

// TestEventNamesAreSampled: the newest events of each partition are counted, and the counts are
// estimates for the topic. Older names come from the trigger engine.
func TestEventNamesAreSampled(t *testing.T) {
	s := triggerServer(t)
	s.must(201, s.send("PUT", "/topic?topic-name=events", `{"partitions":3,"settings":{"timestamp-type":"append"}}`), nil)
	s.putTrigger(201, "any", `{"expr":"anything"}`)
	post := func(n int, name func(i int) string) {
		var body strings.Builder
		for i := range n {
			fmt.Fprintf(&body, "{\"event\":%q,\"entity_id\":\"u%d\"}\n", name(i), i)
		}
		s.must(201, s.event("", api.NDJSON, body.String()), nil)
	}
	post(3, func(i int) string { return fmt.Sprintf("ancient%d", i) })
	post(6000, func(int) string { return "old" })
	post(6000, func(i int) string { return []string{"often", "often", "seldom"}[i%3] })
	out := s.eventNames("")
	if out.Sampled < sampleRecords-3 || out.Sampled > sampleRecords || out.Records != 12_003 || out.Names[0].Name != "often" || out.Names[1].Name != "seldom" {
		t.Errorf("%+v", out)
	}
	for i, want := range []int64{8002, 4001} { // two thirds of the sample, and one third
		if n := out.Names[i].Count; n < want*9/10 || n > want*11/10 {
			t.Errorf("%s: %d, want about %d", out.Names[i].Name, n, want)
		}
	}
	sebtest.Eventually(t, "the engine knows the older names", func() bool {
		out = s.eventNames("")
		return len(out.Names) == 6
	})
	if x := out.Names[2]; x.Name != "ancient0" || x.Count != 0 || x.Last != nil || x.Properties == nil {
		t.Errorf("%+v", x)
	}
	for query, want := range map[string]string{
		"limit=1": "often true", "limit=3": "often seldom ancient0 true", "limit=6": "often seldom ancient0 ancient1 ancient2 old false",
		"prefix=o": "often old false", "prefix=ancient&limit=2": "ancient0 ancient1 true", "prefix=x": "false",
		"prefix=" + url.QueryEscape("ancient2"): "ancient2 false",
	} {
		out := s.eventNames(query)
		got := ""
		for i := range out.Names {
			got += out.Names[i].Name + " "
		}
		if got += fmt.Sprint(out.Truncated); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for query, field := range map[string]string{"limit=1001": "limit", "limit=-1": "limit", "topic-name=a%20b": "topic-name", "prefix=" + strings.Repeat("x", 257): "prefix"} {
		if p := s.get("/events/names?" + query).problem(t); p.Code != api.BadRequest || p.Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// TestEventNamesAreBounded: events with many names and properties give a part of them.
func TestEventNamesAreBounded(t *testing.T) {
	sebtest.Long(t, "TestEventNamesAreSampled remains")
	s := eventServer(t, func(c *setup) { c.limit = 64 << 20 })
	var many, wide strings.Builder
	for i := range sampleNames + 1 {
		fmt.Fprintf(&many, `{"event":"%s%d","entity_id":"u"}`+"\n", strings.Repeat(`\u0001`, 20), i)
	}
	s.must(201, s.event("?topic-name=many", api.NDJSON, many.String()), nil)
	if out := s.eventNames("topic-name=many&limit=1000"); !out.Truncated || len(out.Names) != sampleNames || out.Sampled != sampleNames+1 {
		t.Errorf("%d names of %d records, truncated %t", len(out.Names), out.Sampled, out.Truncated)
	}
	for i := range sampleProperties + 1 {
		fmt.Fprintf(&wide, `"member%d":1,`, i)
	}
	s.must(201, s.event("?topic-name=wide", "", `{"event":"e","entity_id":"u","data":{`+wide.String()+`"last":1}}`), nil)
	if x := s.eventNames("topic-name=wide").Names[0]; len(x.Properties) != sampleProperties || !x.More {
		t.Errorf("%d properties, more %t", len(x.Properties), x.More)
	}
	for range 10 {
		s.must(201, s.event("?topic-name=large", "", fmt.Sprintf(`{"event":"e","entity_id":"u","data":{"x":%q}}`, strings.Repeat("x", 250<<10))), nil)
	}
	if out := s.eventNames("topic-name=large"); out.Sampled != 4 || out.Names[0].Count != 10 {
		t.Errorf("%+v", out)
	}
}
