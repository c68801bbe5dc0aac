package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// handler returns the API of a real broker, without a listener. Topic t has a partition and some
// records, z is compressed, p has three partitions, s accepts only small batches.
func handler(f *testing.F) *API {
	ctx := f.Context()
	b := must.Get(broker.Open(ctx, broker.Options{Options: log.Options{Store: objstore.NewMemory(), Budget: budget.New(64 << 20), NoWait: true}}))(f)
	f.Cleanup(func() { check.NoError(f, b.Close(context.Background())) })
	for name, spec := range map[string]broker.TopicSpec{
		"t": {}, "z": {Settings: map[string]string{"compression": "zstd"}}, "p": {Partitions: 3}, "s": {Settings: map[string]string{"max-batch-bytes": "200"}},
	} {
		must.Get(b.CreateTopic(ctx, name, spec))(f)
	}
	for _, codec := range []record.Compression{record.None, record.Zstd} {
		brokertest.Send(f, b, brokertest.AppendWith("t", 0, record.EncodeOptions{Compression: codec}, value("a"), record.Record{Timestamp: 1, Key: []byte("k"), Value: nil}, value("ccc")))
	}
	a := must.Get(New(b, Options{Auth: authority(f, b), Queues: queue.Open(queue.Options{Broker: b}), RecordsMax: 100}))(f)
	return a
}

// kinds are the content types of a produce.
var kinds = []string{api.Multipart + "; boundary=b", api.OctetStream, api.TextPlain, api.NDJSON, api.JSON, api.RecordBatch}

// produced is the result of reading a body, before anything is submitted.
type produced struct {
	appends string
	err     string
}

// produceOnce reads a body like POST /records, without submitting it.
func produceOnce(t *testing.T, a *API, r *http.Request) (p produced) {
	in := producing{a: a, now: time.UnixMilli(testNow)}
	in.in = httpconn.Body{W: httptest.NewRecorder(), R: r, Timeout: a.pace, Memory: budget.Arena{Class: a.produce, Buffers: a.buffers}}
	err := in.parse(httpconn.ParseParams(r.URL.RawQuery), r)
	if err == nil {
		err = in.lookUp()
	}
	if err == nil {
		err = in.readBody()
	}
	if err == nil {
		err = in.identify()
	}
	in.in.Memory.Release()
	var text strings.Builder
	for _, ap := range in.appends {
		if err == nil {
			sum, checkErr := record.Check(ap.Data, record.Limits{BatchBytes: 64 << 20})
			if checkErr != nil || sum.Span != int64(sum.Records) || sum != ap.Summary {
				t.Fatalf("%+v, %v, reported as %+v", sum, checkErr, ap.Summary)
			}
			fmt.Fprintf(&text, "%s/%d %x\n", ap.Topic, ap.Partition, ap.Data)
		}
		ap.Release()
	}
	p.appends = text.String()
	if err != nil {
		problem := problemOf(err)
		if problem.Status = api.Statuses[problem.Code]; problem.Status == 0 || problem.Status >= 500 {
			t.Fatalf("error %v became %+v", err, problem)
		}
		p.err = fmt.Sprintf("%s %s %s", problem.Code, problem.Field, problem.Detail)
		if problem.Code == api.TooLarge {
			p.err = "too large" // the size may be known beforehand or not
		}
	} else if len(in.appends) == 0 {
		t.Fatal("no records and no fault")
	}
	must.Equalf(t, a.produce.Used(), 0, "bytes are still reserved")
	return p
}

// FuzzProduce checks that a body means the same however it is cut into reads, with a declared
// length or not. The broker accepts all resulting batches. A body that ends early is refused.
func FuzzProduce(f *testing.F) {
	batch, _ := recordtest.Encode([]record.Record{value("v"), {Timestamp: 2, Key: []byte("k"), Value: []byte("w")}}, record.EncodeOptions{})
	zipped, _ := recordtest.Encode([]record.Record{value("v")}, record.EncodeOptions{Compression: record.LZ4})
	bodies := [][]byte{
		[]byte(body("b", "[3,4]", "abcdefg")), []byte("one record"), []byte("a\n\nb\r\nc"), []byte("{\"value\":\"v\"}\n{\"value\":null,\"key\":\"k\"}\n"),
		[]byte(`[{"value_base64":"/w==","headers":{"h":"1"},"timestamp":7},{"value":""}]`), append(batch, zipped...),
	}
	for i, b := range bodies {
		for _, query := range []string{"topic-name=t", "topic-name=z", "topic-name=p", "topic-name=p&partition=2", "topic-name=s", "topic-name=new"} {
			f.Add(uint8(i), query, b, uint64(3*i), uint16(0))
		}
		f.Add(uint8(i), "topic-name=t&partition=0&expected-offset=6", b, uint64(0), uint16(9))
	}
	a := handler(f)
	f.Fuzz(func(t *testing.T, kind uint8, query string, b []byte, cuts uint64, missing uint16) {
		make := func(cuts uint64, length int64, body io.ReadCloser) *http.Request {
			r := &http.Request{Method: "POST", URL: &url.URL{Path: "/records", RawQuery: query}, Header: http.Header{}, ContentLength: length, Body: body}
			r.Header.Set("Content-Type", kinds[int(kind)%len(kinds)])
			return r
		}
		whole := produceOnce(t, a, make(0, int64(len(b)), io.NopCloser(bytes.NewReader(b))))
		if len(b) == 0 {
			return // an empty body has different messages
		}
		if cut := produceOnce(t, a, make(cuts, int64(len(b)), sebtest.Cut(b, cuts))); cut != whole {
			t.Fatalf("in pieces (%d): %+v, in one piece: %+v", cuts, cut, whole)
		}
		if unknown := produceOnce(t, a, make(cuts, -1, sebtest.Cut(b, cuts))); unknown != whole {
			t.Fatalf("of unknown length, in pieces (%d): %+v, in one piece: %+v", cuts, unknown, whole)
		}
		if n := int(missing) % len(b); n > 0 {
			short := io.MultiReader(sebtest.Cut(b[:len(b)-n], cuts), broken{})
			if got := produceOnce(t, a, make(cuts, int64(len(b)), io.NopCloser(short))); got.err == "" {
				t.Fatalf("%d bytes are missing without a fault: %+v", n, got)
			}
		}
	})
}

// broken is a connection that ended before the declared length.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// FuzzRequest checks that every answer is described in openapi.json.gz, and that no memory stays
// reserved. Requests that write come from a disconnected client, so that they change nothing.
func FuzzRequest(f *testing.F) {
	for i := range routes {
		for _, query := range []string{"", "topic-name=t", "topic-name=t&offset=0", "topic-name=t&offset=3&max-records=2&group=g", "topic-name=p&partition=9&offset=1"} {
			f.Add(uint8(i), query, "Accept: */*\nContent-Type: application/json", []byte(`{"partitions":3}`), uint64(i))
		}
	}
	f.Add(uint8(1), "topic-name=t&offset=0", "Accept: text/event-stream\nLast-Event-ID: 2", []byte{}, uint64(0))
	f.Add(uint8(1), "topic-name=t&offset=0&where=a+%3D+1&contains=v", "Accept: text/event-stream", []byte{}, uint64(0))
	f.Add(uint8(1), "topic-name=t&order=newest&where=a+!%3D+1+OR+event+%3D+%22e%22&max-scan-bytes=3", "Accept: application/json", []byte{}, uint64(0))
	f.Add(uint8(1), "topic-name=t&offset=0&timeout=0s&contains=%FF&max-records=2", "Accept: multipart/form-data", []byte{}, uint64(0))
	f.Add(uint8(1), "topic-name=t&offset=99&timeout=5m&read=latest", "Accept: application/vnd.seb.recordbatch", []byte{}, uint64(0))
	f.Add(uint8(12), "", "Accept: */*", []byte(`{"group":"g","offsets":[{"topic":"t","offset":1}]}`), uint64(0))
	f.Add(uint8(9), "topic-name=t&offset=1&partition=0", "Accept: */*", []byte{}, uint64(0))
	f.Add(uint8(200), "", "", []byte{}, uint64(0))
	for i, rt := range routes {
		if rt.path == "/evaluate" {
			f.Add(uint8(i), "", "Accept: */*", []byte(`{"expr":"A THEN (NOT B WITHIN 2h)","events":[{"event":"A","at":"2026-01-01T00:00:00Z","data":{"x":1}}],"at":"2026-01-01T01:00:00Z"}`), uint64(1))
		}
		if rt.path == "/drip/parse" || rt.path == "/drip/stories" {
			f.Add(uint8(i), "", "Accept: */*", []byte(`{"expr":"A THEN (NOT B WITHIN 2h) AND count(C[x > 1]) < 2"}`), uint64(1))
			f.Add(uint8(i), "", "Accept: */*", []byte(`{"expr":{"and":[{"event":"A"},{"event":"C"}]},"source":"A or (B\t) "}`), uint64(1))
			f.Add(uint8(i), "", "Accept: */*", []byte(`{"expr":{"or":[{"event":"A"},{"not":{"event":"B"}}]}}`), uint64(1))
		}
		if rt.path == "/event" {
			f.Add(uint8(i), "topic-name=p", "Accept: */*", []byte(`{"event":"e","entity_id":"1","data":{"x":[1]}}`), uint64(1))
			f.Add(uint8(i), "topic-name=t", "Accept: */*\nContent-Type: application/x-ndjson", []byte("{\"event\":\"e\",\"entity_id\":\"1\"}\n\n{}"), uint64(1))
		}
	}
	a := handler(f)
	a.Stop() // so that no request waits
	described := readSpec(f)
	gone, cancel := context.WithCancel(f.Context())
	cancel()
	before := a.b.Epoch()
	f.Fuzz(func(t *testing.T, which uint8, query, header string, b []byte, cuts uint64) {
		rt := route{method: sebtest.Pick(&sebtest.Source{B: b}, "GET", "PATCH", "HEAD"), path: "/nowhere"}
		if int(which) < len(routes) {
			rt = routes[which]
		}
		r := &http.Request{
			Method: rt.method, URL: &url.URL{Path: rt.path, RawQuery: query}, Header: http.Header{}, ContentLength: -1, Body: sebtest.Cut(b, cuts),
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
		for line := range strings.Lines(header) {
			if name, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				r.Header.Add(name, strings.TrimSpace(v))
			}
		}
		if cuts%8 != 0 {
			r.Header.Set("Authorization", "Bearer "+canary)
		}
		ctx := t.Context()
		if rt.method != http.MethodGet && rt.method != http.MethodHead {
			ctx = gone
		}
		got, cut := serve(a, r.WithContext(ctx))
		if !cut {
			checkAnswer(t, &described, rt, got)
		}
		if n, m := a.produce.Used(), a.fetch.Used(); n != 0 || m != 0 {
			t.Fatalf("%d and %d bytes are still reserved", n, m)
		}
		if a.b.Epoch() != before || len(a.b.Topics(t.Context())) != 4 {
			t.Fatal("the request changed the state")
		}
	})
}

// serve gives a request to the API. cut reports that the connection was cut instead of an answer.
func serve(a *API, r *http.Request) (got *answered, cut bool) {
	w := httptest.NewRecorder()
	defer func() {
		if e := recover(); e != nil {
			if err, ok := e.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(e)
			}
			cut = true
		}
	}()
	a.ServeHTTP(w, r)
	return &answered{status: w.Code, header: w.Header(), body: w.Body.Bytes()}, false
}

func checkAnswer(t *testing.T, s *spec, rt route, a *answered) {
	must.Equal(t, s.fault(rt.method, rt.path, a), "")
	if bytes.Contains(a.body, []byte(canary)) {
		t.Fatal("the key is in the answer")
	}
	switch kind := a.header.Get("Content-Type"); {
	case a.status >= 400:
		var p api.Problem
		if err := json.Unmarshal(a.body, &p); err != nil || kind != api.ProblemJSON || p.Status != a.status || api.Statuses[p.Code] != a.status {
			t.Fatalf("%s %s: %v", kind, a, err)
		}
		if a.status >= 500 && p.Code != api.ShuttingDown && p.Code != api.StoreUnavailable && p.Code != api.KeyIndexUnavailable && p.Code != api.OutcomeUnknown {
			t.Fatalf("%s", a)
		}
	case kind == api.JSON && !json.Valid(a.body) && rt.method != http.MethodHead:
		t.Fatalf("not JSON: %s", a)
	}
}
