package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// member returns a broker at an address.
func member(name, url string) cluster.Member {
	return cluster.Member{Registration: cluster.Registration{Run: cluster.Run{Node: record.ID([]byte(name + "0123456789abcdef")[:16]), ID: record.ID{1}}, Name: name, URL: url}, Up: true}
}

// peers is a View of a broker and others, for tests. The first is the broker itself.
type peers struct {
	*cluster.Board
	mu      sync.Mutex // guards members
	members []cluster.Member
}

func newPeers(members ...cluster.Member) *peers {
	members[0].Self = true
	p := &peers{Board: cluster.NewBoard(members[0].Registration), members: members}
	p.lead("")
	return p
}

// lead makes the broker of a name the leader, or none.
func (p *peers) lead(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]cluster.Member, len(p.members))
	for i, m := range p.members {
		m.Leads = m.Name == name
		list[i] = m
	}
	p.Set(list, nil)
}

// at sets the address of a broker.
func (p *peers) at(name, url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.members {
		if p.members[i].Name == name {
			p.members[i].URL = url
		}
	}
}

// pair starts a leader and a standby of one bucket. Each knows the other.
func pair(t testing.TB, change ...func(*setup)) (leads, standby *server, view *peers) {
	t.Helper()
	store := objstore.NewMemory()
	leaders := newPeers(member("leader", ""), member("standby", ""))
	view = newPeers(member("standby", ""), member("leader", ""))
	leads = start(t, append(change, func(c *setup) { c.store, c.http.Cluster = store, leaders })...)
	standby = start(t, append(change, func(c *setup) {
		c.store, c.http.Cluster = store, view
		c.broker.Standby, c.broker.Core.Standby = true, true
	})...)
	for _, p := range []*peers{leaders, view} {
		p.at("leader", "http://"+leads.addr)
		p.at("standby", "http://"+standby.addr)
		p.lead("leader")
	}
	return leads, standby, view
}

// direct sends a request without comparing the answer with the description.
func (s *server) direct(method, path, body string, header map[string]string) *answered {
	s.t.Helper()
	kind := header["Content-Type"]
	return s.matrix(method, path, kind, body, func(r *http.Request) {
		authorization("Bearer " + canary)(r)
		for k, v := range header {
			r.Header.Set(k, v)
		}
	})
}

// TestStandbyForwardsWrites: a client that knows only a standby writes, and reads what it has written.
func TestStandbyForwardsWrites(t *testing.T) {
	t.Parallel()
	leads, standby, _ := pair(t)
	if a := standby.send("PUT", "/topic?topic-name=t", `{"partitions": 2}`); a.status != http.StatusCreated || a.header.Get(api.HeaderLeader) != "http://"+leads.addr {
		t.Fatalf("%s, leader %q", a, a.header.Get(api.HeaderLeader))
	}
	for i := range 20 {
		value := fmt.Sprint("v", i)
		a := standby.mustPost("topic-name=t&partition=1", api.TextPlain, value)
		if a.header.Get(api.HeaderPosition) == "" || a.header.Get(api.HeaderEpoch) == "" {
			t.Fatalf("an answer without a position: %v", a.header)
		}
		if got := standby.get(fmt.Sprintf("/record?topic-name=t&partition=1&offset=%d", i)); string(got.body) != value || got.header.Get(api.HeaderLeader) != "" {
			t.Fatalf("read after write: %s, leader %q", got, got.header.Get(api.HeaderLeader))
		}
	}
	standby.must(200, standby.send("PUT", "/offsets?group=g&topic-name=t&partition=1", `{"offset":7}`), nil)
	if a := standby.get("/offsets?group=g"); !strings.Contains(string(a.body), `"offset":7`) {
		t.Errorf("offsets after a commit: %s", a)
	}
	if a := standby.get("/records?topic-name=t&partition=1&offset=0&read=latest", api.NDJSON); a.status != 200 || a.header.Get(api.HeaderLeader) == "" {
		t.Errorf("read=latest: %s, leader %q", a, a.header.Get(api.HeaderLeader))
	}
	if a := standby.post("topic-name=t&partition=9", api.TextPlain, "x"); a.problem(t).Code != api.UnknownPartition {
		t.Errorf("the leader's error: %s", a)
	}
	var made api.TokenCreated
	standby.must(201, standby.send("POST", "/tokens", `{"id":"new","read":["*"]}`), &made)
	if a := standby.as(made.Secret, "GET", "/topic?topic-name=t", ""); a.status != 200 {
		t.Errorf("request with a new token: %s", a)
	}
	standby.must(204, standby.send("DELETE", "/topic?topic-name=t", ""), nil)
	metrics := string(standby.get("/metrics").body)
	for _, line := range []string{"seb_http_forwards_total{code=\"ok\"} 26\n", "seb_http_forward_duration_seconds_count 26\n"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics without %q", line)
		}
	}
	if a := leads.get("/topic?topic-name=t"); a.status != http.StatusNotFound {
		t.Errorf("deleted topic: %s", a)
	}
}

// TestRoutesThatNeedTheLeader: a forwarded request at a broker that does not lead gets 421, if its
// route needs the leader, and is served otherwise.
func TestRoutesThatNeedTheLeader(t *testing.T) {
	t.Parallel() // one of them waits
	leads, standby, _ := pair(t)
	newTopic(leads, "t", 1)
	must.NoError(t, standby.b.Confirm(t.Context()))
	for n, rt := range routes {
		l := validRequests[rt.name()]
		a := standby.direct(rt.method, l.target(rt, n), l.body, map[string]string{"Content-Type": l.kind, api.HeaderForwarded: "some run"})
		var p api.Problem
		_ = json.Unmarshal(a.body, &p)
		refused := a.status == http.StatusMisdirectedRequest && p.Code == api.NotLeader && p.Leader == "http://"+leads.addr && p.Status == a.status
		if want := rt.at == leader; refused != want {
			t.Errorf("%s: %s, want refused: %v", rt.name(), a, want)
		}
		if writes := rt.method != http.MethodGet; rt.at == 0 || writes && rt.at == anyBroker && rt.path != "/triggers/dry-run" && rt.path != "/triggers/check" {
			t.Errorf("%s: answered at %d", rt.name(), rt.at)
		}
	}
	if a := standby.direct("GET", "/topic?topic-name=t&read=latest", "", map[string]string{api.HeaderForwarded: "some run"}); a.status != http.StatusMisdirectedRequest {
		t.Errorf("forwarded read=latest: %s", a)
	}
}

// TestLargeBodiesAreStreamed: a standby with little memory forwards a body that does not fit into it.
func TestLargeBodiesAreStreamed(t *testing.T) {
	leads, standby, _ := pair(t)
	class := standby.budget.Class(budget.Produce)
	fill := must.Get(class.Reserve(class.Limit() - 300<<10))(t)
	defer fill.Release()
	body := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	for name, in := range map[string]io.Reader{"length": bytes.NewReader(body), "chunked": io.MultiReader(bytes.NewReader(body))} {
		a := standby.do(call{method: "POST", path: "/records?topic-name=t", body: in, header: map[string]string{"Content-Type": api.OctetStream, "Accept": "*/*"}})
		must.Equalf(t, a.status, http.StatusCreated, "%s: %s", name, a)
	}
	if a := leads.get("/record?topic-name=t&offset=1"); !bytes.Equal(a.body, body) {
		t.Errorf("%d bytes stored, want %d", len(a.body), len(body))
	}
	rest := must.Get(class.Reserve(290 << 10))(t)
	defer rest.Release()
	if a := standby.post("topic-name=t", api.TextPlain, "x"); a.problem(t).Code != api.OverBudget {
		t.Errorf("without memory: %s", a)
	}
}

// stub is a broker that answers as a function says, and counts the requests.
type stub struct {
	*httptest.Server
	n atomic.Int64
}

func newStub(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *stub {
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.n.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// refuse answers with a problem that names a leader.
func refuse(status int, code api.Code, leads string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.ProblemJSON)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(&api.Problem{Code: code, Status: status, Leader: leads, Title: "t", Type: "t"})
	}
}

// cut reads the body and closes the connection.
func cut(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// TestForwardedOnceOrRefused: a request reaches another broker only if the first one has certainly
// done nothing with it.
func TestForwardedOnceOrRefused(t *testing.T) {
	leads, standby, view := pair(t, func(c *setup) { c.http.LeaderWait = sebtest.Limit })
	newTopic(leads, "t", 1)
	real := "http://" + leads.addr
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	refused := "http://" + dead.Addr().String()
	dead.Close()
	view.members = append(view.members, member("other", ""))
	large := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) // nil: connections are refused
		then   string                                   // the leader that becomes known meanwhile
		body   string
		code   api.Code // "": stored
		asked  int64
	}{
		"421 names the leader":             {refuse(421, api.NotLeader, real), "", "a", "", 1},
		"421 names the leader, large body": {refuse(421, api.NotLeader, real), "", large, "", 1},
		"421 names an unknown address":     {refuse(421, api.NotLeader, "http://192.0.2.1:1"), "leader", "b", "", 1},
		"stopping":                         {refuse(503, api.ShuttingDown, ""), "leader", "c", "", 1},
		"fenced":                           {refuse(503, api.Fenced, ""), "leader", "d", "", 1},
		"connection refused":               {nil, "leader", "e", "", 0},
		"out of memory":                    {refuse(429, api.OverBudget, ""), "leader", "f", api.OverBudget, 1},
		"store":                            {refuse(503, api.StoreUnavailable, ""), "leader", "g", api.StoreUnavailable, 1},
		"unknown":                          {refuse(504, api.OutcomeUnknown, ""), "leader", "h", api.OutcomeUnknown, 1},
		"cut after the body":               {cut, "leader", "i", api.OutcomeUnknown, 1},
		"cut after a large body":           {cut, "leader", large, api.OutcomeUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			other := &stub{}
			at := refused
			if c.answer != nil {
				other = newStub(t, func(w http.ResponseWriter, r *http.Request) {
					if c.then != "" {
						view.lead(c.then)
					}
					c.answer(w, r)
				})
				at = other.URL
			}
			view.at("other", at)
			view.lead("other")
			if c.answer == nil {
				time.AfterFunc(20*time.Millisecond, func() { view.lead(c.then) })
			}
			defer view.lead("leader")
			before := leads.get("/topic?topic-name=t&partition=0")
			a := standby.post("topic-name=t", api.TextPlain, c.body)
			if c.code == "" && a.status != http.StatusCreated || c.code != "" && a.problem(t).Code != c.code {
				t.Errorf("%s, want %q", a, c.code)
			}
			after := leads.get("/topic?topic-name=t&partition=0")
			check.Equalf(t, !bytes.Equal(before.body, after.body), c.code == "", "stored")
			if n := other.n.Load(); n != c.asked {
				t.Errorf("the other broker got %d requests, want %d", n, c.asked)
			}
		})
	}
}

// TestWaitsForALeader: a write waits until a leader is known, and is refused if none is.
func TestWaitsForALeader(t *testing.T) {
	leads, standby, view := pair(t, func(c *setup) { c.http.LeaderWait = 300 * time.Millisecond })
	newTopic(leads, "t", 1)
	view.lead("")
	a := standby.post("topic-name=t", api.TextPlain, "x")
	if p := a.problem(t); p.Code != api.NotLeader || a.header.Get("Retry-After") != "1" {
		t.Errorf("no leader: %s, Retry-After %q", a, a.header.Get("Retry-After"))
	}
	if a := standby.get("/metrics"); !strings.Contains(string(a.body), "seb_http_forwards_total{code=\"not_leader\"} 1\n") {
		t.Errorf("metrics without the refused request: %s", a)
	}
	standby.api.forwarder = nil
	standby.api.o.LeaderWait = time.Minute
	standby.api.forwarder = standby.api.newForwarder()
	var done sync.WaitGroup
	done.Go(func() {
		if a := standby.post("topic-name=t", api.TextPlain, "x"); a.status != http.StatusCreated {
			t.Errorf("leader became known: %s", a)
		}
	})
	view.lead("leader")
	done.Wait()

	// The broker itself begins to lead.
	view.lead("")
	done.Go(func() {
		if a := standby.post("topic-name=t", api.TextPlain, "own"); a.status != http.StatusCreated || a.header.Get(api.HeaderLeader) != "" {
			t.Errorf("the broker leads: %s", a)
		}
	})
	must.NoError(t, standby.b.Confirm(t.Context()))
	must.NoError(t, standby.b.Stand(t.Context()))
	done.Wait()
	check.Equalf(t, strings.Join(standby.values("t", 0), ","), "x,own", "stored")
}

// TestWaitForALeaderIsNotSlow: other requests that need memory end those whose bodies arrive slowly. A
// request that waits for a leader is none of them, because the broker does not read its body.
func TestWaitForALeaderIsNotSlow(t *testing.T) {
	t.Parallel()
	leads, standby, view := pair(t, func(c *setup) { c.http.LeaderWait = time.Minute })
	newTopic(leads, "t", 1)
	view.lead("")
	var done sync.WaitGroup
	done.Go(func() {
		if a := standby.post("topic-name=t", api.TextPlain, strings.Repeat("x", 20<<10)); a.status != http.StatusCreated {
			t.Errorf("leader became known: %s", a)
		}
	})
	sebtest.Eventually(t, "the request waits", func() bool { return standby.api.produce.Used() > 0 })
	began := time.Now()
	sebtest.Eventually(t, "a body would be slow", func() bool {
		standby.api.connections.AbortSlow()
		return time.Since(began) > 1500*time.Millisecond
	})
	view.lead("leader")
	done.Wait()
}

// TestForwardedClientKeepsItsAddress: rules of hosts apply to the client, not to the broker that
// forwards, and a client cannot claim another address.
func TestForwardedClientKeepsItsAddress(t *testing.T) {
	leads, standby, _ := pair(t)
	newTopic(leads, "t", 1)
	here, elsewhere := permit(access.Write, access.Topic, "t"), permit(access.Write, access.Topic, "t")
	here.Host, elsewhere.Host = "127.0.0.1", "192.0.2.7"
	for name, c := range map[string]struct {
		rule access.Rule
		want int
	}{"here": {here, 201}, "elsewhere": {elsewhere, 403}} {
		key := leads.token(name, time.Time{}, c.rule)
		must.NoError(t, standby.b.Confirm(t.Context()))
		if a := standby.matrix("POST", "/records?topic-name=t", api.TextPlain, "x", authorization("Bearer "+key)); a.status != c.want {
			t.Errorf("%s: %s", name, a)
		}
		for _, claim := range []string{"192.0.2.7:5", "192.0.2.7:5 00", "192.0.2.7:5 " + standby.auth.Vouch("other run", "192.0.2.7:5", "Bearer "+key)} {
			a := leads.matrix("POST", "/records?topic-name=t", api.TextPlain, "x", func(r *http.Request) {
				authorization("Bearer " + key)(r)
				header(api.HeaderForwarded, "run")(r)
				header(api.HeaderForwardedFor, claim)(r)
			})
			check.Equalf(t, a.status, c.want, "%s claims %q: %s", name, claim, a)
		}
		a := leads.matrix("POST", "/records?topic-name=t", api.TextPlain, "x", func(r *http.Request) {
			authorization("Bearer " + key)(r)
			header(api.HeaderForwarded, "run")(r)
			header(api.HeaderForwardedFor, "192.0.2.7:5 "+standby.auth.Vouch("run", "192.0.2.7:5", "Bearer "+key))(r)
		})
		if want := 604 - c.want; a.status != want { // the other of 201 and 403
			t.Errorf("%s, by a broker from 192.0.2.7: %s, want %d", name, a, want)
		}
	}
}

// TestForwardedClientWithACertificate: only a broker with the root key names a principal, for one
// request to one broker.
func TestForwardedClientWithACertificate(t *testing.T) {
	leads, standby, _ := pair(t)
	newTopic(leads, "t", 1)
	newTopic(leads, "other", 1)
	rule := permit(access.Write, access.Topic, "t")
	rule.Host = "192.0.2.7"
	leads.allow("shop", rule)
	const uri, from = "/records?topic-name=t", "192.0.2.7:5"
	self := leads.api.o.Cluster.Self().Run.String()
	ends := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	statement := func(change func(s []string)) string {
		s := []string{"certificate", "run", self, from, "POST", uri, ends, "shop"}
		change(s)
		return standby.auth.Vouch(s...) + " " + s[6] + " " + url.PathEscape(s[7])
	}
	send := func(path, as string, more ...func(*http.Request)) int {
		t.Helper()
		return leads.matrix("POST", path, api.TextPlain, "x", func(r *http.Request) {
			header(api.HeaderForwarded, "run")(r)
			header(api.HeaderForwardedFor, from+" "+standby.auth.Vouch("run", from, r.Header.Get("Authorization")))(r)
			header(api.HeaderForwardedAs, as)(r)
			for _, f := range more {
				f(r)
			}
		}).status
	}
	good := statement(func([]string) {})
	check.Equalf(t, send(uri, good), http.StatusCreated, "in the name of shop")
	check.Equalf(t, send(uri, statement(func(s []string) { s[7] = "café %" })), http.StatusForbidden, "in the name of a principal without rules")
	other := "/records?topic-name=other"
	check.Equalf(t, send(other, statement(func(s []string) { s[5] = other })), http.StatusForbidden, "topic without a rule")
	for name, as := range map[string]string{
		"no code": "shop", "of a client": "00 " + ends + " shop", "for another principal": strings.Replace(good, "shop", "admin", 1),
		"for the root key": strings.Replace(good, "shop", "seb", 1), "longer": strings.Replace(good, ends, ends+"0", 1),
		"ended":              statement(func(s []string) { s[6] = "1700000000000000" }),
		"of another run":     statement(func(s []string) { s[1] = "some run" }),
		"for another broker": statement(func(s []string) { s[2] = standby.api.o.Cluster.Self().Run.String() }),
		"from another host":  statement(func(s []string) { s[3] = "127.0.0.1:5" }),
		"another method":     statement(func(s []string) { s[4] = "PUT" }),
		"another request":    statement(func(s []string) { s[5] = other }),
	} {
		check.Equalf(t, send(uri, as), http.StatusUnauthorized, "%s", name)
	}
	check.Equalf(t, send(uri, good, func(r *http.Request) { r.Header.Del(api.HeaderForwarded) }), http.StatusUnauthorized, "not forwarded")
	// A token must not outlive the certificate.
	leads.token("shop", time.Time{})
	const rotate = "/tokens/shop/rotate"
	withoutBody := func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }
	check.Equalf(t, send(rotate, statement(func(s []string) { s[5] = rotate }), withoutBody), http.StatusForbidden, "a token of its own")
	// A key decides alone.
	key := leads.token("keyed", time.Time{})
	check.Equalf(t, send(uri, good, authorization("Bearer "+key)), http.StatusForbidden, "with a key")
}

// TestSessionsAreForwarded: a session of the console works for writes at a standby.
func TestSessionsAreForwarded(t *testing.T) {
	leads, standby, _ := pair(t)
	a := leads.direct("POST", "/console/login", "", nil)
	var session api.Session
	must.NoErrorf(t, json.Unmarshal(a.body, &session), "%s", a)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	_, value, _ := strings.Cut(cookie, "=")
	_, port, _ := net.SplitHostPort(standby.addr)
	a = standby.matrix("PUT", "/topic?topic-name=t", api.JSON, "{}", func(r *http.Request) {
		r.Header.Set(api.HeaderSession, session.Session)
		r.Header.Set("Cookie", "seb_console_"+port+"="+value)
		r.Header.Set("Origin", "http://"+standby.addr)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	})
	if a.status != http.StatusCreated || a.header.Get(api.HeaderLeader) == "" {
		t.Errorf("%s", a)
	}
}

// TestReadsIncludePositions: a read waits for the position that it names, at any broker.
func TestReadsIncludePositions(t *testing.T) {
	t.Parallel()
	leads, standby, view := pair(t, func(c *setup) { c.http.LeaderWait = sebtest.Limit })
	newTopic(leads, "t", 1)
	for i := range 5 {
		pos := leads.mustPost("topic-name=t", api.TextPlain, "v").header.Get(api.HeaderPosition)
		a := standby.do(call{method: "GET", path: fmt.Sprintf("/record?topic-name=t&offset=%d", i), header: map[string]string{api.HeaderAfter: pos}})
		if a.status != 200 || a.header.Get(api.HeaderLeader) != "" {
			t.Errorf("after %s: %s", pos, a)
		}
	}
	for _, bad := range []string{"1", "1:2:3", "0:x:1", "0:1:-1", "0:1", "0:4294967296:1"} {
		if a := leads.do(call{method: "GET", path: "/topics", header: map[string]string{api.HeaderAfter: bad}}); a.status != http.StatusBadRequest || a.problem(t).Field != api.HeaderAfter {
			t.Errorf("%q: %s", bad, a)
		}
	}
	if a := leads.do(call{method: "GET", path: "/topics", header: map[string]string{api.HeaderAfter: "0:1:1000000"}}); a.status != 200 {
		t.Errorf("a position of another log: %s", a)
	}
	for _, s := range []*server{leads, standby} {
		s.api.o.LeaderWait = time.Millisecond // from here on no position is waited for
		if a := s.do(call{method: "GET", path: "/topics", header: map[string]string{api.HeaderAfter: "0:9:0"}}); a.problem(t).Code != api.NotYet {
			t.Errorf("a position of the future: %s", a)
		}
	}
	// What the standby cannot apply, the leader answers.
	pos := leads.mustPost("topic-name=t", api.TextPlain, "w").header.Get(api.HeaderPosition)
	standby.api.floors.note(nil, mustPosition(t, "0:1:1000000"))
	if a := standby.do(call{method: "GET", path: "/record?topic-name=t&offset=5", header: map[string]string{api.HeaderAfter: pos}}); a.status != 200 || a.header.Get(api.HeaderLeader) == "" {
		t.Errorf("forwarded read: %s", a)
	}
	view.lead("")
	if a := standby.get("/record?topic-name=t&offset=5"); a.problem(t).Code != api.NotYet || a.header.Get("Retry-After") == "" {
		t.Errorf("without a leader: %s", a)
	}
}

// TestSmallWritesAreOnePacket: the head of a small request leaves together with its body, because each
// packet costs both brokers about 15 us.
func TestSmallWritesAreOnePacket(t *testing.T) {
	_, standby, view := pair(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	view.members = append(view.members, member("other", "http://"+l.Addr().String()))
	view.lead("other")
	first := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			first <- err.Error()
			return
		}
		defer conn.Close()
		b := make([]byte, 64<<10)
		n, _ := conn.Read(b)
		first <- string(b[:n])
		_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
	}()
	a := standby.direct("POST", "/records?topic-name=t", "the-body", map[string]string{"Content-Type": api.TextPlain})
	if got := <-first; a.status != http.StatusCreated || !strings.HasSuffix(got, "\r\n\r\nthe-body") {
		t.Errorf("%s; the first packet: %q", a, got)
	}
}

// TestManyWritesWaitForALeader: 100 small writes wait for a leader in 3 MiB.
func TestManyWritesWaitForALeader(t *testing.T) {
	leads, standby, view := pair(t, func(c *setup) { c.http.LeaderWait = time.Minute })
	newTopic(leads, "t", 1)
	class := standby.budget.Class(budget.Produce)
	fill := must.Get(class.Reserve(class.Limit() - 3<<20))(t)
	defer fill.Release()
	view.lead("")
	var done sync.WaitGroup
	var over atomic.Int64
	for range 100 {
		done.Go(func() {
			if a := standby.post("topic-name=t", api.TextPlain, "x"); a.status != http.StatusCreated {
				over.Add(1)
				t.Errorf("%s", a)
			}
		})
	}
	sebtest.Eventually(t, "all wait", func() bool { return class.Used() > class.Limit()-3<<20+100*smallWrite || over.Load() > 0 })
	view.lead("leader")
	done.Wait()
}

// smallWrite is less than what a small write that waits for a leader reserves.
const smallWrite = 16 << 10

// TestASilentLeaderIsNotWaitedFor: a request that a deposed leader has, which is not heard any more,
// ends soon. One that is heard has a second to answer.
func TestASilentLeaderIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	leads, standby, view := pair(t)
	newTopic(leads, "t", 1)
	asked := make(chan struct{})
	other := newStub(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	})
	view.members = append(view.members, member("other", other.URL))
	took := func(up bool) time.Duration {
		view.mu.Lock()
		view.members[2].Up = up
		view.mu.Unlock()
		view.lead("other")
		answer := make(chan *answered)
		go func() { answer <- standby.post("topic-name=t", api.TextPlain, "x") }()
		<-asked
		began := time.Now()
		view.lead("leader")
		if a := <-answer; a.problem(t).Code != api.OutcomeUnknown {
			t.Errorf("%s", a)
		}
		return time.Since(began)
	}
	if d := took(true); d < time.Second {
		t.Errorf("a leader that is heard had %v to answer", d)
	}
	sebtest.Eventually(t, "the request of a silent leader ends before a second", func() bool { return took(false) < time.Second })
}

// TestCanceledForward: a client that leaves ends the request at the leader.
func TestCanceledForward(t *testing.T) {
	_, standby, view := pair(t)
	ended := make(chan struct{})
	other := newStub(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(ended)
	})
	view.members = append(view.members, member("other", other.URL))
	view.lead("other")
	ctx, cancel := context.WithCancel(t.Context())
	req := must.Get(http.NewRequestWithContext(ctx, "POST", "http://"+standby.addr+"/records?topic-name=t", strings.NewReader("x")))(t)
	authorization("Bearer " + canary)(req)
	req.Header.Set("Content-Type", api.TextPlain)
	failed := make(chan error, 1)
	go func() {
		_, err := standby.client.Do(req)
		failed <- err
	}()
	sebtest.Eventually(t, "the request is forwarded", func() bool { return other.n.Load() > 0 })
	cancel()
	<-ended
	check.Error(t, <-failed, "a canceled request succeeded")
}

// TestStandbyWithoutItsStore: a standby whose store fails cannot check a token, and lets the leader
// check it.
func TestStandbyWithoutItsStore(t *testing.T) {
	t.Parallel() // it waits for the store
	memory := objstore.NewMemory()
	leads := start(t, func(c *setup) { c.store = memory })
	newTopic(leads, "t", 1)
	good, read := leads.token("good", time.Time{}, permit(access.Write, access.Topic, "t")), leads.token("reader", time.Time{}, permit(access.Read, access.Topic, "t"))
	view := newPeers(member("standby", ""), member("leader", "http://"+leads.addr))
	view.lead("leader")
	store := storetest.NewFaulty(memory, 1, storetest.Faults{})
	standby := start(t, func(c *setup) {
		c.store, c.http.Cluster = store, view
		c.broker.Standby, c.broker.Core.Standby = true, true
		c.broker.Timeouts.Read = 100 * time.Millisecond
	})
	store.SetFaults(storetest.Faults{Get: storetest.Rates{storetest.Hang: 1}, List: storetest.Rates{storetest.Hang: 1}})
	defer store.SetFaults(storetest.Faults{})
	var all sync.WaitGroup
	defer all.Wait()
	for key, want := range map[string]int{good: 201, read: 403, good + "x": 401} {
		all.Go(func() {
			if a := standby.matrix("POST", "/records?topic-name=t", api.TextPlain, "x", authorization("Bearer "+key)); a.status != want {
				t.Errorf("%.12s: %s, want %d", key, a, want)
			}
		})
	}
}

// TestStreamsAreForwarded: events of a stream from the leader arrive while it lasts.
func TestStreamsAreForwarded(t *testing.T) {
	leads, standby, _ := pair(t)
	leads.mustPost("topic-name=t", api.TextPlain, "one")
	conn := standby.dial()
	fmt.Fprintf(conn, "GET /records?topic-name=t&offset=0&read=latest HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\n\r\n", canary)
	_ = conn.SetReadDeadline(time.Now().Add(sebtest.Limit))
	seen := ""
	wait := func(text string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(seen, text) {
			n, err := conn.Read(buf)
			if seen += string(buf[:n]); err != nil {
				t.Fatalf("%q: %v", seen, err)
			}
		}
	}
	wait("one")
	check.Containsf(t, seen, api.HeaderLeader, "not of the leader")
	leads.mustPost("topic-name=t", api.TextPlain, "two")
	wait("two")
}
