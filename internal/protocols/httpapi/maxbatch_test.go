package httpapi

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// sizedBody is a body with one record that is too large for the topic, and one whose records fit.
type sizedBody struct {
	name, path, kind, fitsKind, large, fits string
}

func sizedBodies(t *testing.T) []sizedBody {
	random := make([]byte, 2500)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	large, part := hex.EncodeToString(random), hex.EncodeToString(random[:150]) // compression keeps half
	keyed := func(key, v string) string { return fmt.Sprintf(`{"key":%q,"value":%q}`, key, v) }
	event := func(entity, v string) string {
		return fmt.Sprintf(`{"event":"e","entity_id":%q,"data":{"v":%q}}`, entity, v)
	}
	eight := func(of, separator string) string { return strings.Repeat(of+separator, 7) + of }
	form1, kind1 := form(part, large)
	form2, kind2 := form(part, part, part, part, part, part, part, part)
	return []sizedBody{
		{"multipart", "/records?", kind1, kind2, form1, form2},
		{"octets", "/records?", api.OctetStream, api.OctetStream, large, part},
		{"lines", "/records?", api.TextPlain, api.TextPlain, part + "\n" + large, eight(part, "\n")},
		{"ndjson", "/records?", api.NDJSON, api.NDJSON, keyed("a", part) + "\n" + keyed("b", part) + "\n" + keyed("c", large), eight(keyed("a", part), "\n")},
		{"json", "/records?", api.JSON, api.JSON, "[" + keyed("a", part) + "," + keyed("b", part) + "," + keyed("c", large) + "]", "[" + eight(keyed("b", part), ",") + "]"},
		{"batches", "/records?partition=0&", api.RecordBatch, api.RecordBatch, string(batch(t, record.EncodeOptions{}, value(large))), string(batch(t, record.EncodeOptions{}, value(part)))},
		{"event", "/event?", api.JSON, api.JSON, event("a", large), event("a", part)},
		{"events", "/event?", api.NDJSON, api.NDJSON, event("a", part) + "\n" + event("b", part) + "\n" + event("c", large), eight(event("a", part), "\n")},
	}
}

// TestMaxBatchBytes: a record that does not fit into a batch of max-batch-bytes is refused in every
// encoding, and with it the other records of its request. Smaller records are stored in batches up to
// that size.
func TestMaxBatchBytes(t *testing.T) {
	s := start(t)
	for _, codec := range []string{"producer", "zstd"} {
		for _, c := range sizedBodies(t) {
			topic := c.name + "-" + codec
			s.must(201, s.send("PUT", "/topic?topic-name="+topic, `{"partitions":2,"settings":{"max-batch-bytes":1000,"compression":"`+codec+`"}}`), nil)
			post := func(kind, body string) *answered {
				return s.do(call{method: "POST", path: c.path + "topic-name=" + topic, body: strings.NewReader(body), header: map[string]string{
					"Content-Type": kind, "Accept": "application/json, " + api.ProblemJSON,
				}})
			}
			a := post(c.kind, c.large)
			if p := a.problem(t); a.status != 413 || p.Code != api.TooLarge || !strings.Contains(p.Detail, "1000") {
				t.Errorf("%s: %s", topic, a)
			}
			if n := len(s.records(topic, 0)) + len(s.records(topic, 1)); n != 0 {
				t.Errorf("%s: %d records of a refused request are stored", topic, n)
			}
			s.must(201, post(c.fitsKind, c.fits), nil)
			for p := range 2 {
				stored := s.get(fmt.Sprintf("/records?topic-name=%s&offset=0&timeout=0s&partition=%d", topic, p), api.RecordBatch).body
				for len(stored) > 0 {
					b, rest, err := record.Split(stored)
					if err != nil || b.Len() > 1000 {
						t.Fatalf("%s: a batch of %d bytes, %v", topic, b.Len(), err)
					}
					stored = rest
				}
			}
		}
	}
	// The default is for batches that clients make.
	s.mustPost("topic-name=default", api.OctetStream, strings.Repeat("x", 2<<20))
}

// TestNeverFitsIs413: a request that can never succeed is refused as too large also while there is no
// memory to read it. Others are to be repeated.
func TestNeverFitsIs413(t *testing.T) {
	s := start(t)
	s.must(201, s.send("PUT", "/topic?topic-name=small", `{"settings":{"max-batch-bytes":1000}}`), nil)
	large := batch(t, record.EncodeOptions{}, value(strings.Repeat("x", 1<<20)))
	fits := batch(t, record.EncodeOptions{}, value("x"))
	release := s.full()
	for name, c := range map[string]struct {
		topic, kind, body string
		code              api.Code
	}{
		"a batch above the default":       {"new", api.RecordBatch, string(large), api.TooLarge},
		"a batch above the topic's limit": {"small", api.RecordBatch, string(large), api.TooLarge},
		"a record above it":               {"small", api.OctetStream, strings.Repeat("x", 1001), api.TooLarge},
		"a batch that fits":               {"small", api.RecordBatch, string(fits), api.OverBudget},
		"no batch":                        {"small", api.RecordBatch, "x", api.OverBudget},
		"a record that fits":              {"small", api.OctetStream, "x", api.OverBudget},
		"a record above the default":      {"new", api.OctetStream, strings.Repeat("x", 2<<20), api.OverBudget},
		"lines":                           {"small", api.TextPlain, strings.Repeat("x\n", 1000), api.OverBudget},
	} {
		a := s.post("topic-name="+c.topic, c.kind, c.body)
		check.Equalf(t, a.problem(t).Code, c.code, "%s: %s", name, a)
	}
	release()
	s.mustPost("topic-name=small", api.RecordBatch, string(fits))
}

// TestRefusedBodyIsDropped: a client that sends a whole body before it reads the answer gets the answer.
func TestRefusedBodyIsDropped(t *testing.T) {
	s := start(t)
	s.must(201, s.send("PUT", "/topic?topic-name=small", `{"settings":{"max-batch-bytes":1000}}`), nil)
	body := strings.Repeat("x", 16<<20)
	for path, want := range map[string]int{"/records?topic-name=small": 413, "/records?topic-name=small&partition=1": 404, "/records": 400} {
		conn := must.Get(net.Dial("tcp", s.addr))(t)
		must.Get(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nAccept: */*\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			path, canary, api.OctetStream, len(body), body))(t)
		resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		text := must.Get(io.ReadAll(resp.Body))(t)
		check.Equalf(t, resp.StatusCode, want, "%s: %s", path, text)
		check.NoError(t, conn.Close())
	}
}

// TestNeverFitsAtOnce: a body that can never be stored is refused when its declared length or its first
// bytes tell that: before the rest of it has arrived, and without memory for it. (net/http reads a body
// that is expected to be small before it sends an answer.)
func TestNeverFitsAtOnce(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 64 << 20 })
	const large = 4 << 20
	for name, settings := range map[string]string{
		"small": `"max-batch-bytes":1000`, "zstd": `"compression":"zstd"`, "free": `"max-batch-bytes":10000000`,
	} {
		s.must(201, s.send("PUT", "/topic?topic-name="+name, `{"settings":{`+settings+`}}`), nil)
	}
	head := string(batch(t, record.EncodeOptions{}, value(strings.Repeat("x", large)))[:12])
	sizes, kind := form(strings.Repeat("x", large))
	sizes, _, _ = strings.Cut(sizes, "xx")
	c := s.budget.Class(budget.Produce)
	memory := must.Get(c.Reserve(c.Limit() - c.Used() - 256<<10))(t)
	defer memory.Release()
	for name, c := range map[string]struct {
		method, path, kind, body string
		declared, given          int64
		code                     api.Code
	}{
		"a batch":                         {path: "/records?topic-name=small", kind: api.RecordBatch, body: head, declared: 8 << 20, code: api.TooLarge},
		"a batch for a new topic":         {path: "/records?topic-name=new", kind: api.RecordBatch, body: head, declared: 8 << 20, code: api.TooLarge},
		"a batch of unknown length":       {path: "/records?topic-name=small", kind: api.RecordBatch, body: head, declared: -1, code: api.TooLarge},
		"a batch that fits":               {path: "/records?topic-name=free", kind: api.RecordBatch, body: head, declared: 8 << 20, code: api.OverBudget},
		"a record":                        {path: "/records?topic-name=small", kind: api.OctetStream, body: strings.Repeat("x", 950), declared: 950, code: api.TooLarge},
		"a record that fits":              {path: "/records?topic-name=free", kind: api.OctetStream, declared: large, code: api.OverBudget},
		"a record of a form":              {path: "/records?topic-name=small", kind: kind, body: sizes, declared: 8 << 20, code: api.TooLarge},
		"a record of a form that fits":    {path: "/records?topic-name=free", kind: kind, body: sizes, declared: 8 << 20, code: api.OverBudget},
		"a record with a copy":            {path: "/records?topic-name=zstd", kind: api.OctetStream, declared: 7 << 20, given: 14 << 20, code: api.TooLarge},
		"lines with a copy":               {path: "/records?topic-name=free", kind: api.TextPlain, declared: 7 << 20, given: 14 << 20, code: api.TooLarge},
		"lines that a topic may compress": {path: "/records?topic-name=zstd", kind: api.TextPlain, declared: 7 << 20, code: api.OverBudget},
		"a request above the largest":     {path: "/records?topic-name=free", kind: api.NDJSON, declared: 9 << 20, given: 9 << 20, code: api.TooLarge},
		"events":                          {path: "/event", kind: api.NDJSON, declared: 9 << 20, given: 9 << 20, code: api.TooLarge},
		"an evaluation":                   {path: "/evaluate", kind: api.JSON, declared: 99 << 20, given: 99 << 20, code: api.TooLarge},
		"offsets":                         {method: "PUT", path: "/offsets?group=g", kind: api.JSON, declared: 2 << 20, given: 2 << 20, code: api.TooLarge},
		"offsets that fit":                {method: "PUT", path: "/offsets?group=g", kind: api.JSON, declared: 1 << 20, code: api.OverBudget},
		"a topic":                         {method: "PUT", path: "/topic?topic-name=t", kind: api.JSON, declared: 1 << 20, given: 1 << 20, code: api.TooLarge},
		"a token":                         {path: "/tokens", kind: api.JSON, declared: 2 << 20, given: 2 << 20, code: api.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			conn := must.Get(net.Dial("tcp", s.addr))(t)
			defer conn.Close()
			length, body := fmt.Sprintf("Content-Length: %d", c.declared), c.body
			if c.declared < 0 {
				length, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
			must.Get(fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: application/json, %s\r\nContent-Type: %s\r\n%s\r\n\r\n%s",
				cmp.Or(c.method, "POST"), c.path, canary, api.ProblemJSON, c.kind, length, body))(t)
			resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
			defer resp.Body.Close()
			var p api.Problem
			must.NoError(t, json.NewDecoder(resp.Body).Decode(&p))
			if p.Code != c.code || c.given != 0 && (p.Given == nil || *p.Given != c.given || p.Limit == nil) {
				t.Errorf("%d %+v, want %s", resp.StatusCode, p, c.code)
			}
		})
	}
}
