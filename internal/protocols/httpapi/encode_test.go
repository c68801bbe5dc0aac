package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// plain returns an answer's body without its content coding.
func plain(t *testing.T, a *answered) string {
	t.Helper()
	var r io.Reader = strings.NewReader(string(a.body))
	var err error
	switch coding := a.header.Get("Content-Encoding"); coding {
	case "":
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	default:
		t.Fatalf("coding %q", coding)
	}
	must.NoError(t, err)
	body := must.Get(io.ReadAll(r))(t)
	return string(body)
}

func (s *server) coded(path, accept, coding string) *answered {
	s.t.Helper()
	// Setting the header by hand keeps the transport from decoding.
	h := map[string]string{"Accept": accept, "Accept-Encoding": coding}
	return s.do(call{method: "GET", path: path, header: h})
}

func TestAnswersAreCompressed(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, strings.Repeat("a line that comes again\n", 2000))
	for i := range 20 {
		s.put(fmt.Sprintf("topic-%d", i), "")
	}
	long := "/records?topic-name=t&offset=0&max-records=1500"
	for _, c := range []struct{ path, accept, coding, want string }{
		{long, api.JSON, "gzip", "gzip"},
		{long, api.JSON, "zstd", "zstd"},
		{long, api.NDJSON, "gzip, zstd", "zstd"},
		{long, api.NDJSON, "gzip;q=1.0, zstd;q=0.5", "gzip"},
		{long, api.NDJSON, "br, deflate, x-gzip", "gzip"},
		{long, api.JSON, "gzip;q=0, zstd;q=0", ""},
		{long, api.JSON, "gzip;q=2", ""},
		{long, api.JSON, "identity", ""},
		{long, api.JSON, "*", ""},
		{"/topics", "*/*", "gzip", "gzip"},
		{"/openapi.json", "*/*", "zstd", "zstd"},
		{"/metrics", "*/*", "gzip", "gzip"},
		{"/records?topic-name=t&offset=0&max-records=2", api.JSON, "gzip", ""}, // short
		{"/topic?topic-name=none", "*/*", "gzip", ""},
		// Encodings for bulk reads are not compressed, because producers compress the records.
		{long, api.Multipart, "gzip", ""},
		{long, api.RecordBatch, "gzip", ""},
		{"/record?topic-name=t&offset=0", "*/*", "gzip", ""},
	} {
		a, as := s.coded(c.path, c.accept, c.coding), s.coded(c.path, c.accept, "identity")
		check.Equalf(t, a.header.Get("Content-Encoding"), c.want, "%s %s, asked for %q", c.path, c.accept, c.coding)
		if c.path != "/metrics" && strings.ReplaceAll(plain(t, a), a.boundary(), as.boundary()) != string(as.body) {
			t.Errorf("%s %s in %s: %d bytes, %d uncompressed", c.path, c.accept, c.want, len(plain(t, a)), len(as.body))
		}
		if c.want != "" && (len(a.body) > len(as.body)/2 || !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Accept-Encoding")) {
			t.Errorf("%s: %d bytes of %d, Vary %q", c.path, len(a.body), len(as.body), a.header.Values("Vary"))
		}
	}
	check.Equalf(t, s.api.encoders.InUse(), 0, "streams are still in use")
	sebtest.Eventually(t, "the memory is released", func() bool { return s.budget.Class(budget.Fetch).Used() == 0 })
}

// TestCompressionIsBounded checks that answers are sent uncompressed if no stream is free.
func TestCompressionIsBounded(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 64 << 20 }) // one stream
	line := strings.Repeat("0123456789abcdef", 64)
	for range 8 {
		s.mustPost("topic-name=t", api.NDJSON, strings.Repeat(`{"value":"`+line+`"}`+"\n", 900))
	}
	get := "GET /records?topic-name=t&offset=0&max-bytes=200000&max-records=9000 HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\nAccept-Encoding: gzip\r\nAuthorization: " + canary + "\r\n\r\n"
	// The only stream is in use, as if a client read its answer slowly.
	w := s.api.encoders.Writer(discard{http.Header{}}, &http.Request{Method: "GET", Header: http.Header{"Accept-Encoding": {"gzip"}}})
	w.WriteHeader(http.StatusOK)
	must.Equalf(t, s.api.encoders.InUse(), 1, "no stream was available")
	ask := func() *http.Response {
		conn := s.dial()
		defer conn.Close()
		fmt.Fprint(conn, get)
		resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n == 0 {
			t.Errorf("%d bytes, %v", n, err)
		}
		return resp
	}
	if r := ask(); r.StatusCode != 200 || r.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v", r)
	}
	w.Release()
	w.Release()
	if r := ask(); r.StatusCode != 200 || r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%v", r)
	}
	// A small broker has no memory for a stream.
	small := start(t, func(c *setup) { c.limit = 16 << 20 })
	small.mustPost("topic-name=t", api.TextPlain, strings.Repeat("line\n", 1000))
	if a := small.coded("/records?topic-name=t&offset=0&max-records=1000", api.JSON, "gzip"); a.status != 200 || a.header.Get("Content-Encoding") != "" {
		t.Errorf("%s", a)
	}
}

// discard is a ResponseWriter that discards everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// TestFullRangesHaveEntityTags: while the records of a range are the same, a client that has them
// gets 304.
func TestFullRangesHaveEntityTags(t *testing.T) {
	s := start(t)
	put := func() {
		s.mustPost("topic-name=t&partition=0", api.NDJSON, strings.Repeat(`{"key":"k","value":"`+strings.Repeat("v", 200)+`"}`+"\n", 30))
	}
	put()
	full := "/records?topic-name=t&offset=2&max-records=20"
	tags := map[string]bool{}
	first := map[string]string{api.JSON: `"a`, api.NDJSON: `"l`, api.Multipart: `W/"m`} // each multipart answer has another boundary
	for _, c := range []struct{ accept, coding string }{{api.JSON, "identity"}, {api.NDJSON, "identity"}, {api.Multipart, "identity"}, {api.JSON, "gzip"}, {api.JSON, "zstd"}} {
		a := s.coded(full, c.accept, c.coding)
		tag := a.header.Get("ETag")
		if a.status != 200 || len(tag) < 10 || !strings.HasPrefix(tag, first[c.accept]) || tags[tag] || a.header.Get("Cache-Control") != "private, no-cache" {
			t.Fatalf("%+v: tag %q, %q", c, tag, a.header.Get("Cache-Control"))
		}
		tags[tag] = true
		for condition, status := range map[string]int{tag: 304, `"other", W/` + strings.TrimPrefix(tag, "W/"): 304, "*": 304, `"other"`: 200, "": 200, "foo": 400} {
			h := map[string]string{"Accept": c.accept, "Accept-Encoding": c.coding, "If-None-Match": condition}
			b := s.do(call{method: "GET", path: full, header: h})
			if b.status != status || status == 304 && (len(b.body) > 0 || b.header.Get("ETag") == "" || b.header.Get(api.HeaderResumeOffset) != "22") {
				t.Errorf("%+v If-None-Match: %s: %s %v", c, condition, b, b.header)
			}
			if status == 200 && b.header.Get("ETag") != tag {
				t.Errorf("%+v: tag %s, and then %s", c, tag, b.header.Get("ETag"))
			}
		}
	}
	// An answer that ends at the end of the partition may grow, and an answer without records has
	// no tag.
	for _, path := range []string{"/records?topic-name=t&offset=10&max-records=20", "/records?topic-name=t&offset=30&timeout=0s"} {
		if a := s.get(path, api.JSON); a.status != 200 || a.header.Get("ETag") != "" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s %v", path, a, a.header)
		}
	}
	// New records after the range keep the tag. Another range, a trim into it and a recreated topic
	// change it.
	tag := s.get(full, api.JSON).header.Get("ETag")
	again := func() *answered {
		return s.do(call{method: "GET", path: full, header: map[string]string{"Accept": api.JSON, "If-None-Match": tag}})
	}
	put()
	if a := again(); a.status != 304 {
		t.Errorf("more records: %s", a)
	}
	for _, path := range []string{"/records?topic-name=t&offset=2&max-records=19", "/records?topic-name=t&offset=3&max-records=19"} {
		if a := s.get(path, api.JSON); a.header.Get("ETag") == tag {
			t.Errorf("%s has the tag of another range", path)
		}
	}
	if a := s.send("POST", "/topic/trim?topic-name=t&partition=0&offset=5", ""); a.status != 200 {
		t.Fatal(a)
	}
	if p := again().problem(t); p.Code != api.OffsetBelowStart {
		t.Errorf("%+v", p)
	}
	if a := s.send("DELETE", "/topic?topic-name=t", ""); a.status != 204 {
		t.Fatal(a)
	}
	if p := again().problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
	put()
	if a := again(); a.status != 200 || a.header.Get("ETag") == tag {
		t.Errorf("recreated topic: %s %v", a, a.header)
	}
}

func TestNamedOffsets(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t&partition=0", api.TextPlain, "a\nb\nc")
	s.send("POST", "/topic/trim?topic-name=t&partition=0&offset=1", "")
	for _, accept := range []string{api.JSON, api.NDJSON, api.Multipart, api.RecordBatch} {
		a := s.get("/records?topic-name=t&offset=earliest", accept)
		if a.status != 200 || a.header.Get(api.HeaderOffset) != "1" || a.header.Get(api.HeaderResumeOffset) != "3" {
			t.Errorf("%s: %s %v", accept, a, a.header)
		}
	}
	a := s.get("/records?topic-name=t&offset=latest&timeout=0s", api.JSON)
	if a.status != 200 || strings.TrimSpace(string(a.body)) != "[]" || a.header.Get(api.HeaderOffset) != "3" {
		t.Errorf("%s %v", a, a.header)
	}
	done := make(chan *answered)
	go func() { done <- s.get("/records?topic-name=t&offset=latest&timeout=20s", api.JSON) }()
	sebtest.Eventually(t, "the read waits", func() bool { return s.api.stops.Waits() == 1 })
	s.mustPost("topic-name=t", api.TextPlain, "d")
	if a := <-done; !strings.Contains(string(a.body), `"value":"d"`) || strings.Contains(string(a.body), `"value":"c"`) {
		t.Errorf("%s", a)
	}
	for path, field := range map[string]string{
		"/records?topic-name=t&offset=newest": "offset", "/records?topic-name=t&offset=latest&group=g": "offset", "/record?topic-name=t&offset=latest": "offset",
	} {
		if p := s.get(path).problem(t); p.Code != api.BadRequest || p.Field != field {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if p := s.get("/records?topic-name=none&offset=earliest").problem(t); p.Code != api.UnknownTopic {
		t.Errorf("%+v", p)
	}
}
