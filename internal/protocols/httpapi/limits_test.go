package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

func TestBadBodies(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *setup) { c.http.RecordsMax = 1000; c.limit = 64 << 20 })
	const limit = 8 << 20
	good, kind := form("abc", "defg")
	boundary := kind[strings.Index(kind, "boundary="):]
	multi := func(sizes, records string) string {
		return body(strings.TrimPrefix(boundary, "boundary="), sizes, records)
	}
	big := strings.Repeat("x", limit+1)
	for name, c := range map[string]struct {
		kind, body, field string
		code              api.Code
		limit, given      int64
	}{
		"parts in the wrong order":       {kind: kind, body: strings.NewReplacer(`"sizes"`, `"records"`, `"records"`, `"sizes"`).Replace(good), field: "sizes", code: api.BadRequest},
		"sizes above the records":        {kind: kind, body: multi("[3,5]", "abcdefg"), field: "records", code: api.BadRequest},
		"sizes below the records":        {kind: kind, body: multi("[3]", "abcdefg"), field: "records", code: api.BadRequest},
		"sizes that would overflow":      {kind: kind, body: multi("[4294967295,2]", "a"), field: "body", code: api.TooLarge, limit: limit, given: 4294967297},
		"sizes null":                     {kind: kind, body: multi("null", ""), field: "sizes", code: api.BadRequest},
		"no sizes":                       {kind: kind, body: multi("[]", ""), field: "sizes", code: api.BadRequest},
		"too many records":               {kind: kind, body: multi("["+strings.Repeat("0,", 1000)+"0]", ""), field: "records", code: api.TooLarge, limit: 1000, given: 1001},
		"too many lines":                 {kind: api.TextPlain, body: strings.Repeat("\n", 1234), field: "records", code: api.TooLarge, limit: 1000, given: 1234},
		"no boundary":                    {kind: api.Multipart, body: good, field: "Content-Type", code: api.BadRequest},
		"another boundary":               {kind: api.Multipart + "; boundary=other", body: good, field: "body", code: api.BadRequest},
		"no content type":                {body: good, field: "Content-Type", code: api.BadRequest},
		"another content type":           {kind: "application/xml", body: "<a/>", code: api.UnsupportedMediaType},
		"a record over the limit":        {kind: api.OctetStream, body: big, field: "body", code: api.TooLarge, limit: limit, given: limit + 1},
		"a multipart record over it":     {kind: kind, body: multi(fmt.Sprintf("[%d]", limit+1), big), field: "body", code: api.TooLarge, limit: limit, given: limit + 1},
		"empty octet-stream":             {kind: api.OctetStream, field: "body", code: api.BadRequest},
		"empty text":                     {kind: api.TextPlain, field: "body", code: api.BadRequest},
		"empty json":                     {kind: api.JSON, field: "body", code: api.BadRequest},
		"empty array":                    {kind: api.JSON, body: "[]", field: "body", code: api.BadRequest},
		"only blank lines":               {kind: api.NDJSON, body: "\n\n", field: "body", code: api.BadRequest},
		"empty batches":                  {kind: api.RecordBatch, field: "body", code: api.BadRequest},
		"empty multipart":                {kind: kind, field: "body", code: api.BadRequest},
		"json for multipart":             {kind: kind, body: "[1,2]", field: "body", code: api.BadRequest},
		"a body of the wrong media type": {kind: api.JSON, body: good, field: "body", code: api.BadRequest},
	} {
		p := s.post("topic-name=t", c.kind, c.body).problem(t)
		if p.Code != c.code || p.Field != c.field {
			t.Errorf("%s: %+v", name, p)
		}
		if c.limit != 0 && (p.Limit == nil || *p.Limit != c.limit || *p.Given != c.given || !strings.Contains(p.Detail, fmt.Sprint(c.limit)) || !strings.Contains(p.Detail, fmt.Sprint(c.given))) {
			t.Errorf("%s: %+v", name, p)
		}
		if c.body == "" { // the same without a declared length
			a := s.do(call{
				method: "POST", path: "/records?topic-name=t", body: io.MultiReader(),
				header: map[string]string{"Content-Type": c.kind, "Accept": api.ProblemJSON, "Transfer-Encoding": "chunked"},
			})
			check.Equalf(t, a.problem(t).Field, c.field, "%s, chunked: %s", name, a)
		}
	}
	// After the bad requests the connection and the broker are still usable.
	s.mustPost("topic-name=t", api.OctetStream, "fine")
}

func TestLargestRecord(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 64 << 20 })
	big := strings.Repeat("x", 8<<20)
	// A record of the maximum size is accepted and returned; its framing does not count.
	s.mustPost("topic-name=t", api.OctetStream, big)
	if a := s.get("/record?topic-name=t&offset=0"); a.status != 200 || string(a.body) != big {
		t.Errorf("largest record: %d, %d bytes", a.status, len(a.body))
	}
	// A body of unknown length is refused when it grows too large.
	a := s.do(call{
		method: "POST", path: "/records?topic-name=t", body: struct{ io.Reader }{strings.NewReader(big + big)},
		header: map[string]string{"Content-Type": api.OctetStream, "Accept": api.ProblemJSON},
	})
	check.Equalf(t, a.problem(t).Code, api.TooLarge, "chunked: %s", a)
	if a := s.get("/topic?topic-name=t"); a.status != 200 || !strings.Contains(string(a.body), `"next_offset":1,`) {
		t.Errorf("%s", a)
	}
}

func TestBadTargets(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for target, want := range map[string]struct {
		field string
		code  api.Code
	}{
		"topic-name=..%2F..%2Fevil":              {"topic-name", api.BadRequest},
		"topic-name=../../evil":                  {"topic-name", api.BadRequest},
		"topic-name=..":                          {"topic-name", api.BadRequest},
		"":                                       {"topic-name", api.BadRequest},
		"topic-name=t&topic-name=t":              {"topic-name", api.BadRequest},
		"topic-name=t&partition=x":               {"partition", api.BadRequest},
		"topic-name=t&timeout=1":                 {"timeout", api.BadRequest},
		"topic-name=t&partition=1":               {"", api.UnknownPartition},
		"topic-name=new&partition=1":             {"", api.UnknownPartition},
		"topic-name=t&partition=0&timeout=30s&x": {"x", api.BadRequest},
		"topic-name=t&partition=0&timeout=30s":   {"", ""},
	} {
		a := s.post(target, api.TextPlain, "b")
		if want.code == "" {
			check.Equalf(t, a.status, 201, "%s: %s", target, a)
			continue
		}
		if p := a.problem(t); p.Code != want.code || p.Field != want.field {
			t.Errorf("%s: %s", target, a)
		}
	}
}

func TestUnknownTopicWithoutAutoCreate(t *testing.T) {
	s := start(t, func(c *setup) { c.broker.AutoCreate = false })
	if p := s.post("topic-name=t", api.TextPlain, "b").problem(t); p.Code != api.UnknownTopic || p.Topic != "t" {
		t.Errorf("%+v", p)
	}
}

func TestHugeDeclaredBodyIsRefusedUnread(t *testing.T) {
	s := start(t)
	resp, err := s.raw("POST /records?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary +
		"\r\nContent-Type: application/octet-stream\r\nContent-Length: 3221225472\r\nExpect: 100-continue\r\n\r\n")
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("%v %v", resp, err)
	}
	check.Equalf(t, s.budget.Class(budget.Produce).Peak(), 0, "bytes were reserved")
}

// full reserves all memory for bodies and returns a function that releases it.
func (s *server) full() func() {
	s.t.Helper()
	c := s.budget.Class(budget.Produce)
	r := must.Get(c.Reserve(c.Limit() - c.Used()))(s.t)
	return r.Release
}

func TestOverBudgetIs429(t *testing.T) {
	s := start(t)
	release := s.full()
	a := s.post("topic-name=t", api.TextPlain, "a")
	if p := a.problem(t); p.Code != api.OverBudget || a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a)
	}
	mp, kind := form("a")
	if a := s.post("topic-name=t", kind, mp); a.status != http.StatusTooManyRequests {
		t.Errorf("multipart with an Accept header: %s", a)
	}
	release()
	s.mustPost("topic-name=t", api.TextPlain, "a")
}

func TestGrowingBodyThatDoesNotFitIs429(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.budget.Class(budget.Produce)
	r := must.Get(c.Reserve(c.Limit() - 256<<10))(t)
	defer r.Release()
	for _, kind := range []string{api.TextPlain, api.OctetStream} {
		a := s.do(call{
			method: "POST", path: "/records?topic-name=t", body: struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 1<<20))},
			header: map[string]string{"Content-Type": kind, "Accept": api.ProblemJSON},
		})
		check.Equalf(t, a.problem(t).Code, api.OverBudget, "%s: %s", kind, a)
	}
	// Many small records take more memory than their bytes.
	if a := s.post("topic-name=t", api.TextPlain, strings.Repeat("\n", 100_000)); a.problem(t).Code != api.OverBudget {
		t.Errorf("%s", a)
	}
	s.mustPost("topic-name=t", api.TextPlain, "small ones still fit")
}

// legacy posts multipart like the original's client.
func (s *server) legacy(query string, values ...string) (*answered, error) {
	mp, kind := form(values...)
	return s.try(call{method: "POST", path: "/records?" + query, body: strings.NewReader(mp), header: map[string]string{"Content-Type": kind}})
}

func TestOriginalClientWaitsForMemory(t *testing.T) {
	s := start(t)
	release := s.full()
	done := make(chan *answered)
	go func() {
		a, err := s.legacy("topic-name=t", "a")
		check.NoError(t, err)
		done <- a
	}()
	sebtest.Eventually(t, "waiting for memory", func() bool { return s.budget.Class(budget.Produce).Usage().Waiting == 1 })
	release()
	if a := <-done; a == nil || a.status != 201 {
		t.Errorf("%s", a)
	}
}

func TestOriginalClientIsCut(t *testing.T) {
	s := start(t, func(c *setup) { c.http.BudgetWait = 20 * time.Millisecond })
	must.Get(s.legacy("topic-name=t", "a"))(t)
	if a, err := s.legacy("topic-name=t&partition=0&expected-offset=5", "a"); err == nil {
		t.Errorf("offset mismatch: %s", a)
	}
	release := s.full()
	if a, err := s.legacy("topic-name=t", "a"); err == nil {
		t.Errorf("no memory: %s", a)
	}
	release()
	// The client understands this status. It would take 400 for success.
	if a, err := s.legacy("topic-name=t&partition=7", "a"); err != nil || a.status != 404 {
		t.Errorf("%s %v", a, err)
	}
	for _, query := range []string{"topic-name=..", "topic-name=", "", "topic-name=t&partition=x", "topic-name=t&topic-name=t"} {
		if a, err := s.legacy(query, "a"); err == nil {
			t.Errorf("%s: %s", query, a)
		}
		mp, kind := form("a")
		a := s.do(call{
			method: "POST", path: "/records?" + query, body: strings.NewReader(mp),
			header: map[string]string{"Content-Type": kind, "Accept": "*/*"},
		})
		check.Equalf(t, a.problem(t).Code, api.BadRequest, "%s: with an Accept header: %s", query, a)
	}
}

func TestHangingStore(t *testing.T) {
	t.Parallel()
	store := storetest.NewFaulty(objstore.NewMemory(), 1, storetest.Faults{})
	s := start(t, func(c *setup) {
		c.store = store
		c.broker.Timeouts.Put, c.broker.Core.Window = 200*time.Millisecond, 1
	})
	s.mustPost("topic-name=t", api.TextPlain, "a")
	store.SetFaults(storetest.Faults{Put: storetest.Rates{storetest.Hang: 1}})
	defer store.SetFaults(storetest.Faults{})

	// The first request is sent and has an unknown outcome. The window is one slot, so later ones
	// are rejected.
	a := s.post("topic-name=t&timeout=300ms", api.TextPlain, "b")
	check.Equalf(t, a.problem(t).Code, api.OutcomeUnknown, "sent: %s", a)
	a = s.post("topic-name=t&timeout=100ms", api.TextPlain, "c")
	if p := a.problem(t); p.Code != api.StoreUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("not sent: %s", a)
	}
	if a, err := s.legacy("topic-name=t&timeout=100ms", "d"); err == nil {
		t.Errorf("the original's client got %s", a)
	}
	if a := s.get("/readyz"); a.status != 503 {
		t.Errorf("ready: %s", a)
	}
	if a := s.get("/healthz"); a.status != 200 {
		t.Errorf("healthy: %s", a)
	}
	store.SetFaults(storetest.Faults{})
	sebtest.Eventually(t, "the store works again", func() bool { return s.get("/readyz").status == 200 })
	s.mustPost("topic-name=t", api.TextPlain, "e")
	if got := strings.Join(s.values("t", 0), ""); got != "abe" && got != "ae" {
		t.Errorf("stored %q, including a rejected record", got)
	}
}

func TestFencedAndClosedAnswers503(t *testing.T) {
	store := objstore.NewMemory()
	first := start(t, func(c *setup) { c.store = store; c.broker.Core.Advertised = "http://first" })
	first.mustPost("topic-name=t", api.TextPlain, "a")
	second := start(t, func(c *setup) { c.store = store; c.broker.Core.Advertised = "http://second" })
	second.mustPost("topic-name=t", api.TextPlain, "b")
	// The first broker does not know that it is fenced, so its next write is sent and the outcome
	// is unknown.
	if p := first.post("topic-name=t", api.TextPlain, "c").problem(t); p.Code != api.OutcomeUnknown && p.Code != api.Fenced {
		t.Errorf("%+v", p)
	}
	sebtest.Eventually(t, "the first broker is fenced", func() bool { return first.b.Err() != nil })
	a := first.post("topic-name=t", api.TextPlain, "d")
	if p := a.problem(t); p.Code != api.Fenced || p.Leader != "http://second" || p.Epoch != second.b.Epoch() || a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a)
	}
	if a := first.get("/readyz"); a.problem(t).Code != api.Fenced {
		t.Errorf("%s", a)
	}
	// The first broker still reads, and names its own epoch instead of the newer one.
	if a := first.get("/topics"); a.status != 200 || a.header.Get(api.HeaderEpoch) != fmt.Sprint(second.b.Epoch()-1) {
		t.Errorf("%s of epoch %s, the newer epoch is %d", a, a.header.Get(api.HeaderEpoch), second.b.Epoch())
	}
	check.Equalf(t, strings.Join(second.values("t", 0), ""), "ab", "stored")
	must.NoError(t, second.b.Close(context.Background()))
	if p := second.post("topic-name=t", api.TextPlain, "e").problem(t); p.Code != api.ShuttingDown {
		t.Errorf("%+v", p)
	}
}

func TestReadOnlyBroker(t *testing.T) {
	store := objstore.NewMemory()
	leader := start(t, func(c *setup) { c.store = store })
	leader.mustPost("topic-name=t", api.TextPlain, "a")
	s := start(t, func(c *setup) {
		c.store = store
		c.broker.Core.ReadOnly, c.broker.Core.FollowPoll = true, core.Duration(10*time.Millisecond)
	})
	mp, kind := form("x")
	for _, c := range []call{
		{method: "POST", path: "/records?topic-name=t", body: strings.NewReader(mp), header: map[string]string{"Content-Type": kind, "Accept": "*/*"}},
		{method: "POST", path: "/records?topic-name=t", body: strings.NewReader("x"), header: map[string]string{"Content-Type": api.TextPlain}},
		{method: "PUT", path: "/topic?topic-name=t"},
		{method: "DELETE", path: "/topic?topic-name=t"},
	} {
		if p := s.do(c).problem(t); p.Code != api.ReadOnly {
			t.Errorf("%s %s: %+v", c.method, c.path, p)
		}
	}
	if a, err := s.legacy("topic-name=t", "x"); err == nil {
		t.Errorf("the original's client takes this for success: %s", a)
	}
	if got := s.values("t", 0); len(got) != 1 {
		t.Errorf("%v", got)
	}
	done := make(chan []string)
	go func() { done <- s.get("/records?topic-name=t&offset=1&timeout=20s").unform(t) }()
	leader.mustPost("topic-name=t", api.TextPlain, "b")
	if got := <-done; len(got) != 1 || got[0] != "b" {
		t.Errorf("the follower's reader got %q", got)
	}
}

// TestFollowerSeesNewNames: a follower sees topics, partitions and groups that were created after
// its start, without a read of an existing topic.
func TestFollowerSeesNewNames(t *testing.T) {
	memory := objstore.NewMemory()
	leader := start(t, func(c *setup) { c.store = memory })
	leader.mustPost("topic-name=old", api.TextPlain, "a")
	follow := func(store objstore.Store) *server {
		return start(t, func(c *setup) {
			c.store, c.broker.Core.ReadOnly = store, true
			c.broker.Core.FollowPoll = core.Duration(time.Hour) // it looks only when it is asked
		})
	}
	for i, c := range []struct{ path, shows string }{
		{"/topics", `"name":"%s"`},
		{"/topic?topic-name=%s", `"name":"%s"`},
		{"/record?topic-name=%s&offset=0", "a"},
		{"/records?topic-name=%s&offset=0", "a"},
		{"/groups", `"group":"%s"`},
		{"/groups?group=%s", `"group":"%s"`},
		{"/offsets?group=%s", `"topic":"%s"`},
		{"/topic?topic-name=old&partition=1", `"name":"old"`},
	} {
		follower, name := follow(memory), fmt.Sprintf("new-%d", i)
		leader.mustPost("topic-name="+name, api.TextPlain, "a")
		for path, body := range map[string]string{
			"/offsets?topic-name=" + name + "&partition=0&group=" + name: `{"offset":1}`, "/topic?topic-name=old": fmt.Sprintf(`{"partitions":%d}`, 1+i/7),
		} {
			if a := leader.send("PUT", path, body); a.status != 200 {
				t.Fatal(a)
			}
		}
		path, shows := strings.ReplaceAll(c.path, "%s", name), strings.ReplaceAll(c.shows, "%s", name)
		if a := follower.get(path); a.status != 200 || !strings.Contains(string(a.body), shows) {
			t.Errorf("GET %s: %s", path, a)
		}
	}
	counted := storetest.NewCounter(memory)
	follower := follow(counted)
	before, began := counted.Counts().Requests(), time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if a := follower.get("/topic?topic-name=none"); a.status != 404 {
				t.Errorf("%s", a)
			}
			follower.get("/topics")
		})
	}
	all.Wait()
	// The first confirmation lists snapshots and looks for references to the log beyond its end.
	// Later ones are one GET each.
	n, most := counted.Counts().Requests()-before, 12+2*int64(time.Since(began)/time.Second)
	if n > most {
		t.Errorf("100 requests made %d requests to the store, want %d at most", n, most)
	}
}
