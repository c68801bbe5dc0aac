package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// batchValues decodes an answer of RecordBatches.
func (a *answered) batchValues(t *testing.T, from int64) (out []string) {
	t.Helper()
	r := record.Reader{Gaps: true}
	r.Reset(a.body, from)
	for r.Next() {
		out = append(out, string(r.Record().Value))
	}
	must.NoError(t, r.Err())
	return out
}

func TestReadsAreBounded(t *testing.T) {
	s := start(t)
	for i := range 5 {
		var lines []string
		for j := range 5 {
			lines = append(lines, fmt.Sprintf("%03d", 5*i+j))
		}
		s.mustPost("topic-name=t", api.TextPlain, strings.Join(lines, "\n"))
	}
	want := func(from, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%03d", from+i))
		}
		return out
	}
	for query, w := range map[string][]string{
		"offset=0":                                  want(0, 10),
		"offset=0&max-records=0":                    want(0, 10),
		"offset=3&max-records=1":                    want(3, 1),
		"offset=3&max-records=7":                    want(3, 7),
		"offset=0&max-records=100":                  want(0, 25),
		"offset=0&max-records=9223372036854775807":  want(0, 25),
		"offset=24":                                 want(24, 1),
		"offset=2&max-records=100&max-bytes=1":      want(2, 1),
		"offset=2&max-records=100&max-bytes=6":      want(2, 2),
		"offset=2&max-records=100&max-bytes=31":     want(2, 10),
		"offset=0&max-records=100&max-bytes=0":      want(0, 25),
		"offset=0&max-bytes=9223372036854775807":    want(0, 10),
		"offset=0&timeout=0s":                       want(0, 10),
		"offset=0&partition=0&read=latest":          want(0, 10),
		"offset=4&max-records=3&read=committed&x=y": want(4, 3),
	} {
		path := "/records?topic-name=t&" + query
		a := s.get(path)
		if got := a.unform(t); a.status != 200 || !slices.Equal(got, w) {
			t.Errorf("%s: multipart %d %v, want %v", query, a.status, got, w)
		}
		if a.header.Get(api.HeaderNextOffset) != "25" || a.header.Get(api.HeaderEpoch) != fmt.Sprint(s.b.Epoch()) || a.header.Get("Content-Length") != fmt.Sprint(len(a.body)) {
			t.Errorf("%s: %v", query, a.header)
		}
		var list []api.Record
		a = s.get(path, api.JSON)
		if err := json.Unmarshal(a.body, &list); err != nil || len(list) != len(w) || *list[0].Value != w[0] {
			t.Errorf("%s: %s %v", query, a, err)
		}
		a = s.get(path, api.NDJSON)
		lines := strings.Split(strings.TrimSuffix(string(a.body), "\n"), "\n")
		if json.Unmarshal([]byte(lines[len(lines)-1]), &list[0]) != nil || len(lines) != len(w) || *list[0].Value != w[len(w)-1] {
			t.Errorf("%s: %s", query, a)
		}
		a = s.get(path, api.RecordBatch)
		base := list[0].Offset - int64(len(w)) + 1
		if got := a.batchValues(t, base); len(got) == 0 || got[0] != w[0] || a.header.Get(api.HeaderBaseOffset) != fmt.Sprint(base-base%5) {
			t.Errorf("%s: batches %v, %v", query, got, a.header)
		}
	}
	for query, n := range map[string]int{ // whole batches of 5
		"offset=0&max-records=1": 5, "offset=0&max-records=5": 5, "offset=0&max-records=6": 10, "offset=4&max-records=2": 6,
		"offset=7&max-records=100": 18, "offset=7&max-records=100&max-bytes=1": 3, "offset=5&max-records=2147483647": 20,
	} {
		if got := s.get("/records?topic-name=t&"+query, api.RecordBatch).batchValues(t, 0); len(got) < n || len(got) >= n+5 {
			t.Errorf("%s: %d records in batches, want about %d", query, len(got), n)
		}
	}
}

func TestReadsWait(t *testing.T) {
	t.Parallel()
	s := start(t)
	if a := s.do(call{method: "PUT", path: "/topic?topic-name=t"}); a.status != 201 {
		t.Fatal(a)
	}
	for _, form := range []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch} {
		a := s.get("/records?topic-name=t&offset=0&timeout=0s", form)
		empty := func(a *answered) string {
			return map[string]string{api.Multipart: "\r\n--" + a.boundary() + "--\r\n", api.JSON: "[]\n"}[form]
		}
		if string(a.body) != empty(a) || (a.status == 206) != (form == api.Multipart) || a.status != 206 && a.status != 200 {
			t.Errorf("%s: %s", form, a)
		}
		if a := s.get("/records?topic-name=t&offset=0&timeout=10ms", form); string(a.body) != empty(a) {
			t.Errorf("%s: %s", form, a)
		}
		p := s.get("/records?topic-name=t&offset=1000&timeout=1h", form).problem(t)
		if p.Code != api.OffsetBeyondEnd || p.NextOffset == nil || *p.NextOffset != 0 {
			t.Errorf("%s, beyond the end: %+v", form, p)
		}
	}
	// Offset 0 of an empty topic waits like any other.
	done := make(chan *answered)
	go func() { done <- s.get("/records?topic-name=t&offset=0&timeout=20s") }()
	s.mustPost("topic-name=t", api.TextPlain, "a")
	first := <-done
	go func() { done <- s.get("/records?topic-name=t&offset=1&timeout=20s") }()
	s.mustPost("topic-name=t", api.TextPlain, "b")
	second := <-done
	if got := first.unform(t); len(got) == 0 || got[0] != "a" {
		t.Errorf("first: %s", first)
	}
	if got := second.unform(t); len(got) != 1 || got[0] != "b" {
		t.Errorf("second: %s", second)
	}
}

func TestStopEndsWaitingReads(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	done := make(chan *answered, 2)
	go func() { done <- s.get("/records?topic-name=t&offset=1&timeout=5m") }()
	go func() { done <- s.get("/records?topic-name=t&offset=1&timeout=5m", api.RecordBatch) }()
	sebtest.Eventually(t, "two reads wait", func() bool { return s.api.stops.Waits() == 2 })
	s.api.Stop()
	for range 2 {
		if a := <-done; a.status != 206 && a.status != 200 {
			t.Errorf("%s", a)
		}
	}
	if a := s.get("/records?topic-name=t&offset=0"); len(a.unform(t)) != 1 {
		t.Errorf("a read after the stop: %s", a)
	}
	if a := s.get("/readyz"); a.problem(t).Code != api.ShuttingDown {
		t.Errorf("%s", a)
	}
}

func TestReadFaults(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for path, want := range map[string]struct {
		code  api.Code
		field string
	}{
		"/records?topic-name=no&offset=0":                 {api.UnknownTopic, ""},
		"/records?topic-name=no&offset=0&read=latest":     {api.UnknownTopic, ""},
		"/records?topic-name=t&offset=0&partition=1":      {api.UnknownPartition, ""},
		"/records?topic-name=t":                           {api.BadRequest, "offset"},
		"/records?offset=0":                               {api.BadRequest, "topic-name"},
		"/records?topic-name=t&offset=x":                  {api.BadRequest, "offset"},
		"/records?topic-name=t&offset=0&max-records=x":    {api.BadRequest, "max-records"},
		"/records?topic-name=t&offset=0&max-records=-1":   {api.BadRequest, "max-records"},
		"/records?topic-name=t&offset=0&max-bytes=1k":     {api.BadRequest, "max-bytes"},
		"/records?topic-name=t&offset=0&timeout=10":       {api.BadRequest, "timeout"},
		"/records?topic-name=t&offset=0&partition=a":      {api.BadRequest, "partition"},
		"/records?topic-name=t&offset=0&read=x":           {api.BadRequest, "read"},
		"/records?topic-name=t&offset=0&offset=0":         {api.BadRequest, "offset"},
		"/records?topic-name=..%2f..%2fevil&offset=0":     {api.BadRequest, "topic-name"},
		"/record?topic-name=no&offset=0":                  {api.UnknownTopic, ""},
		"/record?topic-name=t&offset=1":                   {api.OffsetBeyondEnd, ""},
		"/record?topic-name=t&offset=9223372036854775807": {api.OffsetBeyondEnd, ""},
		"/record?topic-name=t":                            {api.BadRequest, "offset"},
		"/record?offset=0":                                {api.BadRequest, "topic-name"},
		"/record?topic-name=t&offset=0&partition=9":       {api.UnknownPartition, ""},
		"/topic?topic-name=no":                            {api.UnknownTopic, ""},
		"/topic":                                          {api.BadRequest, "topic-name"},
		"/topic?topic-name=t&partition=1":                 {api.UnknownPartition, ""},
	} {
		for _, accept := range [][]string{nil, {api.JSON}, {api.RecordBatch}} {
			if p := s.get(path, accept...).problem(t); p.Code != want.code || p.Field != want.field {
				t.Errorf("%s: %+v", path, p)
			}
		}
	}
	a := s.get("/records?topic-name=t&offset=0", "text/html")
	check.Equalf(t, a.problem(t).Code, api.NotAcceptable, "%s", a)
	if p := s.get("/record?topic-name=t&offset=5").problem(t); *p.NextOffset != 1 || *p.Offset != 5 {
		t.Errorf("%+v", p)
	}
	if a := s.get("/topics"); strings.Contains(string(a.body), `"no"`) {
		t.Errorf("a read created a topic: %s", a)
	}
}

func TestHead(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "abc")
	for path, n := range map[string]string{
		"/record?topic-name=t&offset=0": "3", "/healthz": "15", "/records?topic-name=t&offset=0": "",
	} {
		a := s.do(call{method: "HEAD", path: path})
		if a.status != 200 || len(a.body) != 0 || n != "" && a.header.Get("Content-Length") != n {
			t.Errorf("%s: %s %v", path, a, a.header)
		}
	}
	for _, accept := range []string{api.RecordBatch, api.EventStream, api.JSON} {
		a := s.do(call{method: "HEAD", path: "/records?topic-name=t&offset=0", header: map[string]string{"Accept": accept}})
		if a.status != 200 || len(a.body) != 0 || a.header.Get("Content-Type") != accept {
			t.Errorf("%s: %s %v", accept, a, a.header)
		}
	}
}

func TestOneRecord(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.JSON, `[{"value":"<script>"},{"value":null},{"value":""}]`)
	a := s.get("/record?topic-name=t&offset=0")
	if string(a.body) != "<script>" || a.header.Get("Content-Type") != api.OctetStream || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %v", a, a.header)
	}
	for _, offset := range []string{"1", "2"} {
		if a := s.get("/record?topic-name=t&offset=" + offset); a.status != 200 || len(a.body) != 0 {
			t.Errorf("%s", a)
		}
	}
}

// TestReadsFromFiles reads a disk bucket. Data comes as sections of files after it has left the
// tail.
func TestReadsFromFiles(t *testing.T) {
	dir := t.TempDir()
	open := func() *server {
		store := must.Get(objstore.OpenDisk(filepath.Join(dir, "bucket"), objstore.DiskOptions{}))(t)
		return start(t, func(c *setup) { c.store = store; c.limit = 32 << 20 })
	}
	s := open()
	const per = 60
	n := sebtest.Runs(40, 12)
	for i := range n {
		var values []string
		for j := range per {
			values = append(values, fmt.Sprintf("%06d", i*per+j)+strings.Repeat("x", 1000+j))
		}
		body, kind := form(values...)
		s.mustPost("topic-name=t", kind, body)
	}
	s.http.Close()
	s = open()                              // nothing is in memory
	for round := range sebtest.Runs(3, 2) { // the first round reads unverified data, later ones verified data
		for _, from := range []int{0, 1, per - 1, per, 7*per + 3, n*per - 1} {
			want := min(500, n*per-from)
			path := fmt.Sprintf("/records?topic-name=t&offset=%d&max-records=500", from)
			verify := func(form string, got []string) {
				t.Helper()
				if len(got) != want && form != api.RecordBatch || len(got) < want {
					t.Errorf("round %d, %s from %d: %d records, want %d", round, form, from, len(got), want)
				}
				for i, v := range got {
					if len(v) != 1006+(from+i)%per || v[:6] != fmt.Sprintf("%06d", from+i) {
						t.Fatalf("round %d, %s: record %d is %.10s", round, form, from+i, v)
					}
				}
			}
			verify(api.Multipart, s.get(path).unform(t))
			a := s.get(path+"&timeout=1s", api.RecordBatch)
			verify(api.RecordBatch, a.batchValues(t, int64(from)))
			var list []api.Record
			must.NoError(t, json.Unmarshal(s.get(path, api.JSON).body, &list))
			var got []string
			for _, r := range list {
				got = append(got, *r.Value)
			}
			verify(api.JSON, got)
		}
	}
}

func TestReadsReturnWhatFits(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 32 << 20 })
	for range 8 {
		s.mustPost("topic-name=t", api.OctetStream, strings.Repeat("x", 1<<20)+"\x00")
	}
	// In JSON each record is larger, and the memory holds fewer than half of them.
	a := s.get("/records?topic-name=t&offset=0&max-records=100", api.JSON)
	var list []api.Record
	if err := json.Unmarshal(a.body, &list); err != nil || len(list) == 0 || len(list) == 8 {
		t.Fatalf("%d, %d records, %v", a.status, len(list), err)
	}
	c := s.budget.Class(budget.Fetch)
	r := must.Get(c.Reserve(c.Limit() - c.Used()))(t)
	defer r.Release()
	if a := s.get("/records?topic-name=t&offset=0", api.JSON); a.problem(t).Code != api.OverBudget || a.status != http.StatusTooManyRequests {
		t.Errorf("%s", a)
	}
}

func TestSlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	writer := start(t, func(c *setup) { c.store = store })
	for range 6 {
		writer.mustPost("topic-name=t", api.OctetStream, strings.Repeat("x", 4<<20))
	}
	s := start(t, func(c *setup) { c.store, c.http.StepTimeout = store, 2*time.Second })
	conn := s.dial()
	fmt.Fprintf(conn, "GET /records?topic-name=t&offset=0&max-records=100 HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n\r\n", canary)
	// The client reads nothing, and the memory is released nevertheless.
	c := s.budget.Class(budget.Fetch)
	sebtest.Eventually(t, "the answer is being sent", func() bool { return c.Peak() > 0 })
	sebtest.Eventually(t, "the memory of the answer is released", func() bool { return c.Used() == 0 })
}
