package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// waiting is a request that waits for records.
type waiting struct {
	accept string
	path   string
	body   chan string // its status and body
}

// waitsOf starts reads of every form at the end of topic t, and an event stream.
func (s *server) waitsOf(key string) []*waiting {
	s.t.Helper()
	before := s.api.stops.Waits()
	var all []*waiting
	for _, accept := range readTypes {
		all = append(all, &waiting{accept: accept, path: "/records?topic-name=t&offset=1&timeout=5m&max-records=1"})
	}
	all = append(all, &waiting{accept: api.JSON, path: "/records?topic-name=t&group=g&timeout=5m"},
		&waiting{accept: api.JSON, path: "/key?topic-name=t&key=k&min-offset=1&partition=0&timeout=5m"})
	for _, w := range all {
		w.body = make(chan string, 1)
		req := must.Get(http.NewRequest("GET", "http://"+s.addr+w.path, nil))(s.t)
		req.Header.Set("Authorization", key)
		req.Header.Set("Accept", w.accept)
		go func() {
			resp, err := s.client.Do(req)
			if err != nil {
				w.body <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			w.body <- fmt.Sprint(resp.StatusCode, " ", resp.Header[api.HeaderNextOffset], string(body), err)
		}()
	}
	sebtest.Eventually(s.t, "all reads wait", func() bool { return s.api.stops.Waits() == before+len(all) })
	return all
}

// TestWaitsEndWithTheRight: reads that wait end when the token is revoked or expires, or a rule
// takes the right away. None of them gets the record that comes next. Other clients get it.
func TestWaitsEndWithTheRight(t *testing.T) {
	rules := []access.Rule{permit(access.Read, access.Topic, "t"), permit(access.Read, access.Group, "g")}
	for name, c := range map[string]struct {
		life   time.Duration
		end    func(s *server)
		status int
		want   string
	}{
		"revoked": {0, func(s *server) { s.must(204, s.send("DELETE", "/tokens/reader", ""), nil) }, 401, "unknown or has been revoked"},
		"expired": {2 * time.Second, nil, 401, "token has expired: reader ended at"},
		"denied": {0, func(s *server) {
			denial := `{"rules":[{"principal":"reader","resource":"topic","pattern":"*","operation":"read","deny":true}]}`
			s.must(200, s.as(canary, "POST", "/acls", denial), nil)
		}, 403, `does not allow read on topic`},
		"rotated": {0, func(s *server) {
			s.must(201, s.as(canary, "POST", "/tokens/reader/rotate?overlap=0s", ""), nil)
		}, 401, "unknown or has been revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := keyedServer(t, 1)
			s.mustPost("topic-name=t", api.NDJSON, `{"key":"k","value":"first"}`)
			s.must(200, s.send("PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":1}`), nil)
			var expires time.Time
			if c.life > 0 {
				expires = time.Now().Add(c.life)
			}
			ended, kept := s.waitsOf(s.token("reader", expires, rules...)), s.waitsOf(s.token("other", time.Time{}, rules...))
			if c.end != nil {
				c.end(s)
			} else {
				for _, w := range ended {
					w.body <- <-w.body // the time alone ends it
				}
			}
			s.mustPost("topic-name=t", api.NDJSON, `{"key":"k","value":"second"}`)
			for _, w := range ended {
				got := <-w.body
				if w.accept == api.EventStream {
					got = strings.Replace(strings.ReplaceAll(got, "\n\n:", ""), "200 [1]:\n\nevent: error\n", fmt.Sprint(c.status, " []"), 1)
				}
				if strings.Contains(got, "second") || !strings.HasPrefix(got, fmt.Sprint(c.status, " []")) || !strings.Contains(got, c.want) {
					t.Errorf("%s %s: %q, want %d with %q", w.accept, w.path, got, c.status, c.want)
				}
			}
			for _, w := range kept {
				check.Containsf(t, <-w.body, "second", "%s %s of another client", w.accept, w.path)
			}
		})
	}
}

// TestNoRecordAfterARevocation: produces are in flight while their token is revoked. After the answer
// to the revocation no record of theirs is stored, and every stored record was acknowledged.
func TestNoRecordAfterARevocation(t *testing.T) {
	s := start(t)
	newTopic(s, "t", 4)
	key := s.token("writer", time.Time{}, permit(access.Write, access.Topic, "t"))
	var acknowledged atomic.Int64
	var producers sync.WaitGroup
	for i := range 16 {
		producers.Go(func() {
			for {
				a := s.matrix("POST", fmt.Sprintf("/records?topic-name=t&partition=%d", i%4), api.TextPlain, "v", authorization(key))
				switch a.status {
				case http.StatusCreated:
					acknowledged.Add(1)
				case http.StatusUnauthorized:
					return
				default:
					t.Errorf("produce: %s", a)
					return
				}
			}
		})
	}
	sebtest.Eventually(t, "records are stored", func() bool { return acknowledged.Load() > 100 })
	s.must(204, s.send("DELETE", "/tokens/writer", ""), nil)
	stored := func() (n int64) {
		info := must.Get(s.b.Topic(t.Context(), "t", false))(t)
		for _, p := range info.Partitions {
			n += p.Next
		}
		return n
	}
	end := stored()
	producers.Wait()
	if after := stored(); after != end || acknowledged.Load() != end {
		t.Errorf("%d records at the answer to the revocation, %d after all produces, %d acknowledged", end, after, acknowledged.Load())
	}
}

// TestRevocationBetweenChecks: a token is revoked after its request was authorized, before the answer
// is written. Nothing of the answer is sent, also not its headers.
func TestRevocationBetweenChecks(t *testing.T) {
	var s *server
	s = start(t, func(c *setup) {
		c.http.WriteMetrics = func(w io.Writer) {
			s.revoke("scraper")
			fmt.Fprint(w, "secret 1\n")
		}
	})
	key := s.token("scraper", time.Time{}, permit(access.Describe, access.Metrics, access.MetricsName))
	a := s.matrix("GET", "/metrics", "", "", authorization(key))
	if p := a.problem(t); a.status != 401 || p.Code != api.Unauthorized || strings.Contains(a.String(), "secret") || a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("metrics of a revoked token: %s %v", a, a.header)
	}

	key = s.token("reader", time.Time{}, permit(access.Read, access.Topic, "t"))
	who := must.Get(s.auth.Key(t.Context(), key, "192.0.2.1:1"))(t)
	w := httptest.NewRecorder()
	p := &principal{caller: caller{Identity: who}, w: w}
	must.Get(p.Write([]byte("first")))(t)
	s.revoke("reader")
	if n, err := p.Write([]byte("second")); n != 0 || err == nil {
		t.Errorf("write after the revocation: %d bytes, %v", n, err)
	}
	if n, err := p.ReadFrom(bufio.NewReader(strings.NewReader("third"))); n != 0 || err == nil {
		t.Errorf("copy after the revocation: %d bytes, %v", n, err)
	}
	check.Equalf(t, w.Body.String(), "first", "sent")
	h := http.Header{"Etag": {"x"}, api.HeaderNextOffset: {"7"}, "Connection": {"close"}, "Access-Control-Allow-Origin": {"o"}}
	if forgetAnswer(h); len(h) != 2 || h.Get("Connection") == "" {
		t.Errorf("headers: %v", h)
	}
}

// TestAFiringIsCheckedWhenItIsWritten: the trigger of a firing is known only after the firing was
// read. The answer still needs the right to it when it is written, because the matched events may
// come slowly from the store.
func TestAFiringIsCheckedWhenItIsWritten(t *testing.T) {
	s := everyRoute(t)
	who := must.Get(s.auth.Key(t.Context(), s.token("reader", time.Time{}, permit(access.Read, access.Trigger, "fires")), "192.0.2.1:1"))(t)
	r, w := httptest.NewRequest("GET", "/firings/"+firedID, nil), httptest.NewRecorder()
	p := &principal{caller: caller{Identity: who}, w: w}
	id := must.Get(rule.ParseID(firedID))(t)
	c := &triggerCall{Engine: s.api.o.Triggers, r: r, by: &p.caller}
	must.Get(c.firing(id, access.Read))(t)
	s.allow("reader", permit(access.Read, access.Trigger, "other"))
	if n, err := p.Write([]byte("witness")); n != 0 || err == nil || w.Body.Len() > 0 {
		t.Errorf("write after the right is gone: %d bytes, %v", n, err)
	}
}

func (s *server) revoke(id string) {
	s.t.Helper()
	check.NoError(s.t, s.auth.RevokeToken(s.t.Context(), id))
}
