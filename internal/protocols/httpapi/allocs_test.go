package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// discardWriter is a ResponseWriter that accepts any answer.
type discardWriter struct {
	header http.Header
	status int
}

func (n *discardWriter) Header() http.Header         { return n.header }
func (n *discardWriter) WriteHeader(status int)      { n.status = status }
func (n *discardWriter) Write(b []byte) (int, error) { return len(b), nil }

// produceAllocs returns the number of objects that a produce of a body allocates, up to the
// acknowledgement.
func (s *server) produceAllocs(t *testing.T, key, kind string, body []byte) float64 {
	r, err := http.NewRequest("POST", "/records?topic-name=t", nil)
	must.NoError(t, err)
	r.RemoteAddr = "192.0.2.1:5"
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", kind)
	r.ContentLength = int64(len(body))
	in := bytes.NewReader(nil)
	w := discardWriter{header: http.Header{}}
	return testing.AllocsPerRun(30, func() {
		in.Reset(body)
		r.Body = io.NopCloser(in)
		if s.api.ServeHTTP(&w, r); w.status != http.StatusCreated {
			t.Fatal(w.status)
		}
	})
}

// TestProduceAllocations checks that the allocations of a request do not grow with its records.
func TestProduceAllocations(t *testing.T) {
	const many = 4096
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	multipart := func(n int) (string, []byte) {
		body, kind := form(values(n, 20)...)
		return kind, []byte(body)
	}
	batches := func(n int) (string, []byte) {
		records := make([]record.Record, n)
		for i := range records {
			records[i].Key, records[i].Value = []byte("key"), []byte("value")
		}
		body, _ := recordtest.Encode(records, record.EncodeOptions{})
		return api.RecordBatch, body
	}
	text := func(kind, line string) func(n int) (string, []byte) {
		return func(n int) (string, []byte) { return kind, []byte(strings.Repeat(line, n)) }
	}
	for name, of := range map[string]func(n int) (kind string, body []byte){
		"multipart": multipart, "recordbatch": batches, "lines": text(api.TextPlain, "abc\n"),
		"ndjson": text(api.NDJSON, `{"key":"k","value":"v","headers":[{"key":"trace","value":"x"}]}`+"\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var allocs [2]float64
			for i, n := range []int{1, many} {
				kind, body := of(n)
				allocs[i] = s.produceAllocs(t, canary, kind, body)
			}
			t.Logf("%.0f objects with 1 record, %.0f with %d", allocs[0], allocs[1], many)
			if allocs[1]-allocs[0] > many/64 {
				t.Errorf("a request of %d records allocates more than one of 1 record", many)
			}
		})
	}
}

// manyRules are rules for topic t among 1,000 others.
func manyRules() []access.Rule {
	rules := []access.Rule{permit(access.Read, access.Topic, "t"), permit(access.Write, access.Topic, "t")}
	for i := range 1000 {
		rules = append(rules, access.Rule{Resource: access.Topic, Name: fmt.Sprint("other.", i), Prefix: i%2 == 0, Operation: access.Read, Host: access.Any})
	}
	return rules
}

// TestTokenAllocations: a token with many rules costs a request at most one small object.
func TestTokenAllocations(t *testing.T) {
	sebtest.Long(t, "make check compiles this package without inlining, which allocates more")
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	key := s.token("client", time.Time{}, manyRules()...)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	produce := func(key string) float64 { return s.produceAllocs(t, key, api.TextPlain, []byte("abc")) }
	read := func(key string) float64 { return s.readAllocs(t, key, api.JSON, 1, 0) }
	for name, allocs := range map[string]func(key string) float64{"produce": produce, "read": read} {
		root, token := allocs(canary), allocs(key)
		// The race detector empties pools, and other goroutines allocate meanwhile.
		for n := 0; n < 3 || n < 30 && token > root+1; n++ {
			root, token = min(root, allocs(canary)), min(token, allocs(key))
		}
		t.Logf("%s: %.0f objects with the root key, %.0f with a token", name, root, token)
		if token > root+1 {
			t.Errorf("a %s with a token allocates %.0f objects, with the root key %.0f", name, token, root)
		}
	}
}
