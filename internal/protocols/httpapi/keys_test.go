package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// openNode opens the broker as in production: a key index needs a data directory.
func (s *server) openNode(ctx context.Context, c *setup) {
	s.t.Helper()
	var ring *secrets.Ring
	if !c.plain {
		ring = must.Get(secrets.Parse(secrets.NewKey().Reveal()))(s.t)
	}
	n := must.Get(node.Open(ctx, node.Options{
		SecretsKeys: ring,
		Store:       c.store, DataDir: s.t.TempDir(), BatchWait: node.BatchNone, MemoryLimit: c.limit, NoMerge: true, Logger: c.broker.Logger,
		Metrics: c.broker.Metrics, RiemannTopic: "riemann",
	}))(s.t)
	s.b, s.close, s.budget = n.Broker, n.Close, n.Budget()
	c.http.Keys, c.http.Triggers, c.http.Riemann = n.Keys(), n.Triggers(), n.Riemann()
	c.http.Queues = n.Queues()
	if c.wrap != nil {
		c.http.Keys = c.wrap(n.Keys())
	}
}

// keyedServer is a broker with a topic t of some partitions that has a key index.
func keyedServer(t *testing.T, partitions int, change ...func(*setup)) *server {
	t.Helper()
	s := start(t, append(change, func(c *setup) { c.keys = true })...)
	s.must(201, s.send("PUT", "/topic?topic-name=t", fmt.Sprintf(`{"partitions":%d,"settings":{"key-index":true}}`, partitions)), nil)
	return s
}

// at is the position of a record.
type at struct {
	partition int32
	offset    int64
}

// putKey appends one record. A nil value is a tombstone; with partition -1 the key determines it.
func (s *server) putKey(key []byte, value *string, partition int) at {
	s.t.Helper()
	in := map[string]any{"value": value, "timestamp": testNow}
	if key != nil {
		in["key_base64"] = key
	}
	body := must.Get(json.Marshal(in))(s.t)
	query := "topic-name=t"
	if partition >= 0 {
		query += "&partition=" + strconv.Itoa(partition)
	}
	var p api.Produced
	s.must(201, s.post(query, api.JSON, string(body)), &p)
	return at{*p.Partition, *p.FirstOffset}
}

// keyParam returns the query parameter of a key.
func keyParam(key []byte) string { return "key-base64=" + base64.RawURLEncoding.EncodeToString(key) }

// seen returns the query parameters of a read that must see the record.
func (w at) seen() string { return fmt.Sprintf("&partition=%d&min-offset=%d", w.partition, w.offset) }

func TestKeyNewestValue(t *testing.T) {
	s := keyedServer(t, 3)
	keys := [][]byte{{}, []byte("a"), []byte("a/b c"), []byte("é"), {0xff, 0}, []byte("&=+%"), bytes.Repeat([]byte("k"), httpconn.KeyMax)}
	for _, key := range keys {
		for _, value := range []string{"old", "", "a\xffb", "new " + string(key)} {
			text := base64.StdEncoding.EncodeToString([]byte(value))
			w := s.putKeyBase64(key, text)
			if p := record.PartitionOf(key, 3); p != w.partition {
				t.Fatalf("key %.10q is in partition %d, want %d", key, w.partition, p)
			}
			// min-offset without partition refers to the key's own partition.
			path := fmt.Sprintf("/key?topic-name=t&%s&min-offset=%d", keyParam(key), w.offset)
			a := s.get(path)
			h := a.header
			if a.status != 200 || string(a.body) != value || h.Get("Content-Type") != api.OctetStream || h.Get("Seb-Partition") != fmt.Sprint(w.partition) ||
				h.Get("Seb-Offset") != fmt.Sprint(w.offset) || h.Get("Seb-Timestamp") != fmt.Sprint(testNow) || h.Get("Seb-View-Lag") != "0" ||
				h.Get("Seb-Next-Offset") != fmt.Sprint(w.offset+1) || h.Get("Seb-Epoch") == "" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%.10q: %s %v", key, a, h)
			}
			var r api.PartitionRecord
			s.must(200, s.get(path, api.JSON), &r)
			got, err := base64.StdEncoding.DecodeString(deref(r.ValueBase64))
			if r.Value != nil {
				got = []byte(*r.Value)
			}
			if err != nil || string(got) != value || r.Partition != w.partition || r.Offset != w.offset || r.Timestamp != testNow {
				t.Errorf("%.10q: %+v, %v", key, r, err)
			}
			head := s.do(call{method: "HEAD", path: path})
			if head.status != 200 || len(head.body) != 0 || head.header.Get("Seb-Offset") != fmt.Sprint(w.offset) || head.header.Get("Seb-View-Lag") != "0" {
				t.Errorf("HEAD: %s %v", head, head.header)
			}
		}
	}
	// The same as text.
	for _, key := range keys[:6] {
		if a := s.get("/key?topic-name=t&key=" + url.QueryEscape(string(key))); a.status != 200 || string(a.body) != "new "+string(key) {
			t.Errorf("%.10q as text: %s", key, a)
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// putKeyBase64 is putKey for values that are not text.
func (s *server) putKeyBase64(key []byte, value string) at {
	s.t.Helper()
	var p api.Produced
	body := fmt.Sprintf(`{"key_base64":%q,"value_base64":%q,"timestamp":%d}`, base64.StdEncoding.EncodeToString(key), value, testNow)
	s.must(201, s.post("topic-name=t", api.JSON, body), &p)
	return at{*p.Partition, *p.FirstOffset}
}

func TestKeyWithoutAValueIsNotFound(t *testing.T) {
	s := keyedServer(t, 2)
	w := s.putKey(nil, new("a record without a key"), 0)
	notFound := func(query string) api.Problem {
		t.Helper()
		for _, kind := range []string{api.OctetStream, api.JSON} {
			a := s.get("/key?topic-name=t&"+query, kind, api.ProblemJSON)
			if p := a.problem(t); p.Code != api.KeyNotFound || p.Topic != "t" || a.header.Get("Seb-View-Lag") == "" {
				t.Errorf("%s: %s %v", query, a, a.header)
			}
		}
		if a := s.do(call{method: "HEAD", path: "/key?topic-name=t&" + query}); a.status != 404 {
			t.Errorf("HEAD %s: %s", query, a)
		}
		return s.get("/key?topic-name=t&" + query).problem(t)
	}
	notFound("key=" + w.seen()) // the empty key is not an absent key
	w = s.putKey([]byte("k"), new("v"), 0)
	if p := notFound("key=k&partition=1"); *p.Partition != 1 {
		t.Errorf("%+v", p)
	}
	if a := s.get("/key?topic-name=t&key=k" + w.seen()); string(a.body) != "v" {
		t.Errorf("%s", a)
	}
	w = s.putKey([]byte("k"), nil, 0)
	if p := notFound("key=k" + w.seen()); *p.Offset != w.offset || *p.Partition != 0 || !strings.Contains(p.Detail, "tombstone") {
		t.Errorf("%+v", p)
	}
	w = s.putKey([]byte("k"), new("again"), 0)
	if a := s.get("/key?topic-name=t&key=k" + w.seen()); string(a.body) != "again" {
		t.Errorf("%s", a)
	}
	// A trimmed record is not found, whether the index has seen the trim or not.
	s.must(200, s.send("POST", fmt.Sprintf("/topic/trim?topic-name=t&partition=0&offset=%d", w.offset+1), ""), nil)
	notFound("key=k")
	var list api.Keys
	if s.must(200, s.get("/keys?topic-name=t"), &list); len(list.Keys) != 0 {
		t.Errorf("%+v", list)
	}
	var h api.KeyHistory
	if s.must(200, s.get("/key/history?topic-name=t&key=k"), &h); len(h.Records) != 0 {
		t.Errorf("%+v", h)
	}
}

func TestOneKeyInSeveralPartitions(t *testing.T) {
	s := keyedServer(t, 3)
	for i := range 9 {
		s.putKey([]byte("k"), new(fmt.Sprint("v", i)), i%3)
	}
	for p := range 3 {
		a := s.get(fmt.Sprintf("/key?topic-name=t&key=k&partition=%d&min-offset=2", p))
		if string(a.body) != fmt.Sprint("v", 6+p) || a.header.Get("Seb-Partition") != fmt.Sprint(p) {
			t.Errorf("partition %d: %s", p, a)
		}
		var h api.KeyHistory
		s.must(200, s.get(fmt.Sprintf("/key/history?topic-name=t&key=k&order=oldest&partition=%d", p)), &h)
		if len(h.Records) != 3 || *h.Records[2].Value != fmt.Sprint("v", 6+p) {
			t.Errorf("partition %d: %+v", p, h)
		}
	}
	// At equal timestamps the highest partition wins.
	if a := s.get("/key?topic-name=t&key=k"); string(a.body) != "v8" {
		t.Errorf("%s", a)
	}
	var list api.Keys
	if s.must(200, s.get("/keys?topic-name=t"), &list); len(list.Keys) != 1 || *list.Keys[0].Key != "k" || list.Keys[0].Partition != 2 || list.Keys[0].Offset != 2 {
		t.Errorf("%+v", list)
	}
}

// keysOf lists keys page by page, as a client that only uses next.
func (s *server) keysOf(query string, pages *int) (keys []string) {
	s.t.Helper()
	for next := ""; ; *pages++ {
		var page api.Keys
		s.must(200, s.get("/keys?topic-name=t&"+query+next), &page)
		for _, e := range page.Keys {
			key, err := base64.StdEncoding.DecodeString(deref(e.KeyBase64))
			if e.Key != nil {
				key = []byte(*e.Key)
			}
			if err != nil || e.Key == nil == (e.KeyBase64 == nil) {
				s.t.Fatalf("%+v: %v", e, err)
			}
			keys = append(keys, string(key))
		}
		switch {
		case page.Next != nil:
			next = "&after=" + url.QueryEscape(*page.Next)
		case page.NextBase64 != nil:
			next = "&after-base64=" + url.QueryEscape(*page.NextBase64)
		default:
			return keys
		}
	}
}

func TestKeysAreListedByTheirBytes(t *testing.T) {
	s := keyedServer(t, 2)
	long := strings.Repeat("l", httpconn.KeyMax+1)
	all := []string{strings.Repeat("é", httpconn.KeyMax/2), "", "a", "a/", "a/b", "a/c", "aa", "b\x00", "b\xff\xfe", "b\xff\xff", long, long + "1", long + "2", "z", "é", "\xff"}
	slices.Sort(all)
	var last [2]at
	for _, key := range slices.Backward(all) {
		w := s.putKey([]byte(key), new("v"), -1)
		last[w.partition] = w
	}
	s.putKey([]byte("deleted"), new("v"), 0)
	last[0] = s.putKey([]byte("deleted"), nil, 0)
	s.putKey(nil, new("v"), 1)
	last[1] = s.putKey([]byte("a"), new("once more"), 1)
	for _, w := range last {
		s.must(200, s.get("/keys?topic-name=t"+w.seen()), nil)
	}
	begin := func(prefix string) (out []string) {
		for _, k := range all {
			if strings.HasPrefix(k, prefix) {
				out = append(out, k)
			}
		}
		return out
	}
	for _, limit := range []int{1, 2, 3, 7, 0, 10_000} {
		pages := 0
		if got := s.keysOf(fmt.Sprintf("limit=%d", limit), &pages); !slices.Equal(got, all) {
			t.Errorf("limit %d: %.200q, want %.200q", limit, got, all)
		}
		if most := len(all)/max(limit, 1) + 1; limit > 0 && pages > most {
			t.Errorf("limit %d: %d pages", limit, pages)
		}
		for _, prefix := range []string{"a", "a/", "b", "b\xff", "z", "nothing", long[:5], "\xff"} {
			q := fmt.Sprintf("limit=%d&prefix-base64=%s", limit, base64.RawURLEncoding.EncodeToString([]byte(prefix)))
			if got := s.keysOf(q, &pages); !slices.Equal(got, begin(prefix)) {
				t.Errorf("limit %d, prefix %q: %.200q, want %.200q", limit, prefix, got, begin(prefix))
			}
		}
	}
	var page api.Keys
	s.must(200, s.get("/keys?topic-name=t&after=&limit=1"), &page) // after the empty key
	check.Equalf(t, *page.Keys[0].Key, "a", "%+v", page)
	// The next request starts after a key that does not exist.
	s.must(200, s.get("/keys?topic-name=t&after=az&limit=1"), &page)
	check.Equalf(t, *page.Keys[0].Key, "b\x00", "%+v", page)
}

// historyOf reads a history page by page.
func (s *server) historyOf(query string, pages *int) (got []string) {
	s.t.Helper()
	for next := ""; ; *pages++ {
		var page api.KeyHistory
		s.must(200, s.get("/key/history?topic-name=t&"+query+next), &page)
		for _, r := range page.Records {
			value := "null"
			if r.Value != nil {
				value = *r.Value
			}
			if len(value) > 20 {
				value = fmt.Sprint(len(value))
			}
			got = append(got, fmt.Sprintf("%d:%d=%s", r.Partition, r.Offset, value))
		}
		if page.Next == "" {
			return got
		}
		next = "&after=" + page.Next
	}
}

func TestHistoryOfAKey(t *testing.T) {
	s := keyedServer(t, 2)
	var want []string
	var last at
	for i := range 23 {
		s.putKey([]byte("other"), new("x"), 0)
		if i%7 == 3 {
			last = s.putKey([]byte("k"), nil, 0)
			want = append(want, fmt.Sprintf("0:%d=null", last.offset))
			continue
		}
		value := strings.Repeat("v", 1+i%5*1000)
		last = s.putKey([]byte("k"), &value, 0)
		if len(value) > 20 {
			value = fmt.Sprint(len(value))
		}
		want = append(want, fmt.Sprintf("0:%d=%s", last.offset, value))
	}
	s.must(200, s.get("/key/history?topic-name=t&key=k"+last.seen()), nil)
	for order, want := range map[string][]string{"oldest": want, "newest": slices.Collect(backward(want)), "": slices.Collect(backward(want))} {
		for _, limits := range []string{"", "&limit=1", "&limit=5", "&limit=23", "&max-bytes=1", "&max-bytes=2500&limit=7"} {
			q, pages := "key=k"+limits, 0
			if order != "" {
				q += "&order=" + order
			}
			check.EqualSlicesf(t, s.historyOf(q, &pages), want, "%s", q)
			if limits == "&max-bytes=1" && pages != 22 {
				t.Errorf("%s: %d pages", q, pages+1)
			}
		}
	}
	pages := 0
	if got := s.historyOf("key=nothing", &pages); len(got) != 0 {
		t.Errorf("%v", got)
	}
	s.must(200, s.send("POST", "/topic/trim?topic-name=t&partition=0&offset=20", ""), nil)
	check.EqualSlicesf(t, s.historyOf("key=k&order=oldest&limit=3", &pages), want[10:], "after a trim")
	// Headers and times are those of the record.
	s.must(201, s.post("topic-name=t&partition=1", api.JSON, `{"key":"h","value":"v","timestamp":5,"headers":{"a":"b"}}`), nil)
	for _, path := range []string{"/key?key=h", "/key/history?key=h"} {
		a := s.get(path+"&topic-name=t&partition=1&min-offset=0", api.JSON)
		if !strings.Contains(string(a.body), `{"partition":1,"offset":0,"timestamp":5,"key":"h","value":"v","headers":[{"key":"a","value":"b"}]}`) {
			t.Errorf("%s: %s", path, a)
		}
	}
}

func backward(list []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range slices.Backward(list) {
			if !yield(v) {
				return
			}
		}
	}
}

func TestBadKeyRequests(t *testing.T) {
	s := keyedServer(t, 2)
	s.must(201, s.send("PUT", "/topic?topic-name=plain", `{}`), nil)
	s.must(201, s.send("PUT", "/topic?topic-name=compacted", `{"settings":{"cleanup-policy":"compact"}}`), nil)
	s.must(201, s.send("PUT", "/topic?topic-name=off", `{"settings":{"cleanup-policy":"compact","key-index":false}}`), nil)
	for _, c := range []struct {
		path  string
		code  api.Code
		field string
	}{
		{"/key?topic-name=t", api.BadRequest, "key"},
		{"/key?topic-name=t&key=a&key=b", api.BadRequest, "key"},
		{"/key?topic-name=t&key=a&key-base64=YQ", api.BadRequest, "key-base64"},
		{"/key?topic-name=t&key-base64=%25", api.BadRequest, "key-base64"},
		{"/key?topic-name=t&key=" + strings.Repeat("k", httpconn.KeyMax+1), api.BadRequest, "key"},
		{"/key?key=a", api.BadRequest, "topic-name"},
		{"/key?topic-name=t&key=a&partition=x", api.BadRequest, "partition"},
		{"/key?topic-name=t&key=a&min-offset=-1", api.BadRequest, "min-offset"},
		{"/key?topic-name=t&key=a&timeout=1", api.BadRequest, "timeout"},
		{"/key?topic-name=t&key=a&read=x", api.BadRequest, "read"},
		{"/key?topic-name=t&key=a&partition=2", api.UnknownPartition, ""},
		{"/key?topic-name=none&key=a", api.UnknownTopic, ""},
		{"/keys?topic-name=none", api.UnknownTopic, ""},
		{"/key/history?topic-name=none&key=a", api.UnknownTopic, ""},
		{"/key?topic-name=plain&key=a", api.KeyIndexOff, ""},
		{"/keys?topic-name=plain", api.KeyIndexOff, ""},
		{"/key/history?topic-name=off&key=a", api.KeyIndexOff, ""},
		{"/key?topic-name=compacted&key=a", api.KeyNotFound, ""},
		{"/keys?topic-name=t&limit=10001", api.BadRequest, "limit"},
		{"/keys?topic-name=t&limit=x", api.BadRequest, "limit"},
		{"/keys?topic-name=t&after-base64=*", api.BadRequest, "after-base64"},
		{"/keys?topic-name=t&prefix-base64=*", api.BadRequest, "prefix-base64"},
		{"/keys?topic-name=t&partition=0", api.BadRequest, "partition"},
		{"/keys?topic-name=t&min-offset=0", api.BadRequest, "min-offset"},
		{"/key/history?topic-name=t", api.BadRequest, "key"},
		{"/key/history?topic-name=t&key=a&order=up", api.BadRequest, "order"},
		{"/key/history?topic-name=t&key=a&after=7", api.BadRequest, "after"},
		{"/key/history?topic-name=t&key=a&after=x:7", api.BadRequest, "after"},
		{"/key/history?topic-name=t&key=a&after=0:-7", api.BadRequest, "after"},
		{"/key/history?topic-name=t&key=a&max-bytes=x", api.BadRequest, "max-bytes"},
	} {
		if p := s.get(c.path).problem(t); p.Code != c.code || p.Field != c.field {
			t.Errorf("%.80s: %+v", c.path, p)
		}
	}
	if p := s.get("/key?topic-name=plain&key=a").problem(t); !strings.Contains(p.Detail, `"key-index":true`) || !strings.Contains(p.Detail, "seb topic update plain") {
		t.Errorf("the error does not say how to enable the index: %+v", p)
	}
	if p := s.get("/key?topic-name=t&key=a", "text/html").problem(t); p.Code != api.NotAcceptable {
		t.Errorf("%+v", p)
	}
	// A broker without an index.
	bare := start(t)
	bare.must(201, bare.send("PUT", "/topic?topic-name=t", `{"settings":{"key-index":true}}`), nil)
	if p := bare.get("/keys?topic-name=t").problem(t); p.Code != api.KeyIndexOff || !strings.Contains(p.Detail, "this broker") {
		t.Errorf("%+v", p)
	}
}

func TestMinOffsetReadsYourWrite(t *testing.T) {
	s := keyedServer(t, 2)
	for i := range sebtest.Runs(200, 50) {
		value := strconv.Itoa(i)
		w := s.putKey([]byte("k"), &value, -1)
		path := fmt.Sprintf("key?topic-name=t&key=k&min-offset=%d", w.offset)
		if a := s.get("/" + path); string(a.body) != value || a.header.Get("Seb-View-Lag") != "0" {
			t.Fatalf("%s: %s, want %s", path, a, value)
		}
		if i%2 == 0 {
			value += " latest"
			w := s.putKey([]byte("k"), &value, -1)
			if a := s.get("/key?topic-name=t&key=k&read=latest"); string(a.body) != value {
				t.Fatalf("%s at %d: %s, want %s", path, w.offset, a, value)
			}
		}
	}
	// The request waits for a record that is not written yet.
	a := s.get("/key?topic-name=t&key=k&partition=0&min-offset=1000&timeout=20ms")
	if p := a.problem(t); p.Code != api.KeyIndexBehind || *p.Partition != 0 || *p.Offset != 1000 || a.header.Get("Retry-After") == "" ||
		!strings.Contains(p.Detail, "20ms") || !strings.Contains(p.Detail, "1000") {
		t.Errorf("%+v", p)
	}
	done := make(chan *answered)
	go func() { done <- s.get("/keys?topic-name=t&partition=1&min-offset=1000&timeout=5m") }()
	sebtest.Eventually(t, "the request waits", func() bool { return s.api.stops.Waits() == 1 })
	s.api.Stop()
	if p := (<-done).problem(t); p.Code != api.ShuttingDown {
		t.Errorf("%+v", p)
	}
}

func TestKeysNeedMemory(t *testing.T) {
	s := keyedServer(t, 1)
	w := s.putKey([]byte("k"), new(strings.Repeat("v", 1000)), 0)
	s.must(200, s.get("/keys?topic-name=t"+w.seen()), nil)
	c := s.budget.Class(budget.Fetch)
	r := must.Get(c.Reserve(c.Limit() - c.Used() - 4096))(t)
	for _, path := range []string{"/key?topic-name=t&key=k", "/keys?topic-name=t", "/key/history?topic-name=t&key=k"} {
		a := s.get(path, api.JSON)
		if p := a.problem(t); p.Code != api.OverBudget || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", path, a)
		}
	}
	r.Release()
	for _, path := range []string{"/key?topic-name=t&key=k", "/keys?topic-name=t", "/key/history?topic-name=t&key=k"} {
		s.must(200, s.get(path, api.JSON), nil)
	}
}
