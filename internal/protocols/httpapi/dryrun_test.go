package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// manyEntities posts an event of each of n entities, thousands in a request.
func (s *server) manyEntities(n int) {
	s.t.Helper()
	for i := 0; i < n; {
		var lines strings.Builder
		for range min(2000, n-i) {
			fmt.Fprintf(&lines, "{\"event\":\"a\",\"entity_id\":\"user-%d\"}\n", i)
			i++
		}
		s.must(201, s.event("", api.NDJSON, lines.String()), nil)
	}
}

// dryStream starts a dry run whose answer is an event stream.
func (s *server) dryStream(ctx context.Context, key, query, body string) (*http.Response, <-chan event) {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+"/triggers/dry-run"+query, strings.NewReader(body)))(s.t)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", api.EventStream+", "+api.ProblemJSON)
	resp := must.Get(s.client.Do(req))(s.t)
	return resp, parseEvents(resp.Body)
}

func TestDryRunOfARange(t *testing.T) {
	s := triggerServer(t)
	s.postEvents("a u1", "a u2", "c u3")
	sebtest.Eventually(t, "the next millisecond", func() bool {
		s.postEvents("c u3")
		return s.lastEventAfter("a")
	})
	var whole, early, late api.DryRun
	s.must(200, s.send("POST", "/triggers/dry-run", `{"expr":"a THEN b"}`), &whole)
	cut := whole.AsOf.Format(time.RFC3339Nano)
	s.postEvents("b u1", "a u4", "b u4")
	s.must(200, s.send("POST", "/triggers/dry-run?since="+cut, `{"expr":"a THEN b"}`), &late)
	if late.Firings != 2 || late.Fired != 2 || late.Entities != 3 || late.EntitiesSeen != 4 || len(late.NotFired) != 1 || late.NotFired[0].Entity != "u2" || late.Until != nil ||
		late.Since == nil || !late.Since.Equal(whole.AsOf) || late.Sample != 1 || late.Estimate != nil || late.CompleteFrom != nil {
		t.Errorf("from the middle on: %+v", late)
	}
	s.must(200, s.send("POST", "/triggers/dry-run?until="+cut, `{"expr":"a THEN b"}`), &early)
	if early.Firings != 0 || early.Matched != 2 || !early.AsOf.Equal(whole.AsOf.Add(-time.Millisecond)) || early.Until == nil || len(early.NotFired) != 2 {
		t.Errorf("up to the middle: %+v", early)
	}
}

// lastEventAfter reports whether the log time is past the millisecond of the last event with a name.
func (s *server) lastEventAfter(name string) bool {
	s.t.Helper()
	var run api.DryRun
	s.must(200, s.send("POST", "/triggers/dry-run", fmt.Sprintf(`{"expr":%q}`, name)), &run)
	return run.AsOf.After(run.Samples[len(run.Samples)-1].At)
}

func TestDryRunParameters(t *testing.T) {
	s := triggerServer(t)
	s.postEvents("a u1")
	for query, want := range map[string][2]string{
		"since=soon":        {"since", `want RFC 3339 or milliseconds since 1970, given "soon"`},
		"until=":            {"until", "want RFC 3339"},
		"until=0":           {"until", "want a time after since"},
		"since=20&until=20": {"until", "want a time after since, 1970-01-01T00:00:00.02Z, given 1970-01-01T00:00:00.02Z"},
		"sample=0":          {"sample", "want a number from 1 to 65536, given 0"},
		"sample=65537":      {"sample", "from 0 to 65536"},
		"sample=1&sample=2": {"sample", "given 2 times"},
	} {
		if p := s.send("POST", "/triggers/dry-run?"+query, `{"expr":"a"}`).problem(t); p.Code != api.BadRequest || p.Field != want[0] || !strings.Contains(p.Detail, want[1]) {
			t.Errorf("%s: %+v, want %v", query, p, want)
		}
	}
	if p := s.send("POST", "/triggers/dry-run?sample=4", `{"expr":"a THEN"}`).problem(t); p.Field != "expr" {
		t.Errorf("%+v", p)
	}
}

func TestDryRunOfASampleOverHTTP(t *testing.T) {
	s := triggerServer(t)
	s.manyEntities(2000)
	var run api.DryRun
	s.must(200, s.send("POST", "/triggers/dry-run?sample=8", `{"expr":"a"}`), &run)
	e := run.Estimate
	if run.Sample != 8 || e == nil || e.Firings.Value != 8*run.Firings || e.Firings.Low > 2000 || e.Firings.High < 2000 || e.Firings.Low <= 1200 ||
		run.Firings != int64(run.Entities) || run.Entities > 400 || run.EntitiesSeen != 2000 {
		t.Errorf("%+v, estimate %+v", run, e)
	}
}

// TestDryRunStream: the stream ends with the answer that a request without a stream gets.
func TestDryRunStream(t *testing.T) {
	s := triggerServer(t)
	s.manyEntities(3000)
	const body = `{"expr":"a THEN (NOT b WITHIN 7 days)"}`
	resp, list := s.dryStream(t.Context(), canary, "?since=5", body)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != api.EventStream || resp.Header.Get(api.HeaderEpoch) == "" {
		t.Fatalf("%v", resp)
	}
	last := api.DryRunProgress{}
	first, n := next(t, list), 1
	e := first
	for ; e.kind == "progress"; n++ {
		var p api.DryRunProgress
		if err := json.Unmarshal([]byte(e.data), &p); err != nil || p.Total != 3000 || p.Read < last.Read || p.Percent != int(p.Read*100/p.Total) {
			t.Fatalf("%s after %+v, %v", e.data, last, err)
		}
		last = p
		e = next(t, list)
	}
	var want, got api.DryRun
	s.must(200, s.send("POST", "/triggers/dry-run?since=5", body), &want)
	if err := json.Unmarshal([]byte(e.data), &got); err != nil || e.kind != "result" || first.kind != "progress" {
		t.Fatalf("%d events, the first %+v, the last %+v: %v", n, first, e, err)
	}
	if got.AsOf = want.AsOf; fmt.Sprintf("%+v", got.Waiting) != fmt.Sprintf("%+v", want.Waiting) || got.Waiting != 3000 || fmt.Sprint(got.NotFired[0].Entity, *got.Next) != fmt.Sprint(want.NotFired[0].Entity, *want.Next) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for e := range list {
		t.Errorf("%+v after the result", e)
	}
	// An error before the beginning is an ordinary answer.
	resp, list = s.dryStream(t.Context(), canary, "", `{"expr":"a THEN"}`)
	for range list {
	}
	if resp.StatusCode != 400 || resp.Header.Get("Content-Type") != api.ProblemJSON {
		t.Errorf("%v", resp)
	}
}

// TestProgressIsRare: there are at most two progress events a second.
func TestProgressIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &dryRunStream{a: &API{}, w: &countingWriter{}, began: true}
		for range 5000 {
			_ = s.progress(api.DryRunProgress{})
			time.Sleep(time.Millisecond)
		}
		check.Equalf(t, s.w.(*countingWriter).writes, 10, "events in 5 seconds")
	})
}

// countingWriter is a ResponseWriter that counts writes.
type countingWriter struct{ writes int }

func (d *countingWriter) Header() http.Header                { return http.Header{} }
func (d *countingWriter) WriteHeader(int)                    {}
func (d *countingWriter) Write(b []byte) (int, error)        { d.writes++; return len(b), nil }
func (d *countingWriter) FlushError() error                  { return nil }
func (d *countingWriter) SetWriteDeadline(_ time.Time) error { return nil }
func (d *countingWriter) SetReadDeadline(_ time.Time) error  { return nil }
func (d *countingWriter) ReadFrom(r io.Reader) (int64, error) {
	d.writes++
	return io.Copy(io.Discard, r)
}

// slots returns the running dry runs.
func (s *server) slots() int {
	g := s.api.triggers.dry
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.list)
}

// waitsForMemory reports whether a dry run has used its share and waits for the rest.
func (s *server) waitsForMemory() bool {
	g := s.api.triggers.dry
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.list) == 2 && g.list[1].all
}

// halted is a server with a history that needs more than half of the memory, and a dry run of
// another client, so that a dry run of the whole history stops in its middle.
func halted(t *testing.T) (*server, *dryRunSlot) {
	t.Helper()
	s := triggerServer(t, func(c *setup) { c.limit = 64 << 20 })
	s.manyEntities(6000)
	other := must.Get(s.api.triggers.dry.begin(t.Context(), "other"))(t)
	return s, other
}

// TestDryRunEndsWithItsClient: when the client closes its socket, the dry run ends in the middle of
// the history, and the next one begins at once.
func TestDryRunEndsWithItsClient(t *testing.T) {
	s, other := halted(t)
	defer other.end()
	for _, accept := range []string{api.EventStream, api.JSON} {
		conn := s.dial()
		const body = `{"expr":"a THEN (NOT b WITHIN 7 days)"}`
		fmt.Fprintf(conn, "POST /triggers/dry-run HTTP/1.1\r\nHost: x\r\nAccept: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			accept, canary, len(body), body)
		sebtest.Eventually(t, "the dry run is in the middle", s.waitsForMemory)
		conn.Close()
		sebtest.Eventually(t, "the dry run has ended", func() bool { return s.slots() == 1 })
		var run api.DryRun
		if s.must(200, s.send("POST", "/triggers/dry-run?sample=8", body), &run); run.Waiting == 0 || run.EntitiesSeen != 6000 {
			t.Errorf("after a dry run that was canceled: %+v", run)
		}
	}
	sebtest.Eventually(t, "all memory is free", func() bool { return s.slots() == 1 })
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

// TestDryRunGetsTheRestOfTheMemory when it is alone, and an error if the other one needs it too.
func TestDryRunGetsTheRestOfTheMemory(t *testing.T) {
	t.Parallel()
	s, other := halted(t)
	const body = `{"expr":"a THEN (NOT b WITHIN 7 days)"}`
	_, list := s.dryStream(t.Context(), canary, "", body)
	sebtest.Eventually(t, "the dry run is in the middle", s.waitsForMemory)
	if _, err := other.extend(t.Context()); err == nil || problemOf(err).Code != api.OverBudget || !strings.Contains(err.Error(), "both running dry runs need more than") {
		t.Errorf("two that need more than half: %v", err)
	}
	other.end()
	var e event
	for e = range list {
	}
	var run api.DryRun
	if err := json.Unmarshal([]byte(e.data), &run); err != nil || e.kind != "result" || run.Waiting != 6000 || run.Truncated {
		t.Errorf("%+v, %v", e, err)
	}
	// A new one does not begin while another one has all the memory.
	if other, _ = s.api.triggers.dry.begin(t.Context(), "other"); other == nil {
		t.Fatal("no slot")
	}
	defer other.end()
	s.api.triggers.dry.mu.Lock()
	other.all = true
	s.api.triggers.dry.mu.Unlock()
	if p := s.send("POST", "/triggers/dry-run", body).problem(t); p.Code != api.OverBudget || !strings.Contains(p.Detail, "1 of at most 2 dry runs are running, and have all the memory") {
		t.Errorf("%+v", p)
	}
}

// TestDryRunEndsWithTheRight: a revoked token ends the stream with an error.
func TestDryRunEndsWithTheRight(t *testing.T) {
	s, other := halted(t)
	defer other.end()
	key := s.token("viewer", time.Time{}, permit(access.Write, access.Trigger, "x"), permit(access.Read, access.Topic, "events"))
	_, list := s.dryStream(t.Context(), key, "", `{"expr":"a THEN (NOT b WITHIN 7 days)"}`)
	sebtest.Eventually(t, "the dry run is in the middle", s.waitsForMemory)
	s.must(204, s.send("DELETE", "/tokens/viewer", ""), nil)
	var e event
	for e = range list {
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(e.data), &p); err != nil || e.kind != "error" || p.Code != api.Unauthorized || p.Status != 401 {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestDryRunsAtOnce: one for each client and two together; a refusal names what runs.
func TestDryRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDryRuns(100)
		mine, err := g.begin(t.Context(), "ann")
		if err != nil || g.share() != 50 {
			t.Fatal(err)
		}
		mine.percent.Store(40)
		refused := func(client, want string) {
			t.Helper()
			began := time.Now()
			s, err := g.begin(t.Context(), client)
			if s != nil || problemOf(err).Code != api.OverBudget || !strings.Contains(err.Error(), want) || time.Since(began) != dryRunGrace {
				t.Errorf("%s after %s: %v, want %s", client, time.Since(began), err, want)
			}
		}
		time.Sleep(3 * time.Second)
		refused("ann", "a dry run with the same key is running for 3s (40 % read): wait for it or cancel it")
		second := must.Get(g.begin(t.Context(), "bob"))(t)
		refused("cat", "2 of at most 2 dry runs are running, and have all the memory; the first is running for 5s (40 % read): retry later")
		// The next one begins when another ends.
		time.AfterFunc(time.Second, second.end)
		began := time.Now()
		third, err := g.begin(t.Context(), "cat")
		if err != nil || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		// A canceled wait ends at once.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.begin(ctx, "dan"); err != context.Canceled {
			t.Errorf("canceled: %v", err)
		}
		third.end()
		if n, err := mine.extend(t.Context()); n != 100 || err != nil {
			t.Errorf("alone: %d, %v", n, err)
		}
		refused("bob", "1 of at most 2 dry runs are running")
		mine.end()
		if s, err := g.begin(t.Context(), "ann"); err != nil {
			t.Error(err)
		} else {
			s.end()
		}
	})
}
