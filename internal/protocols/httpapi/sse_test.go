package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// event is one event of a stream; for a comment only that field is set.
type event struct{ id, kind, data, comment string }

// events reads a stream until it or its context ends.
func (s *server) events(ctx context.Context, query, last string) <-chan event {
	s.t.Helper()
	return s.eventsAs(ctx, canary, query, last)
}

func (s *server) eventsAs(ctx context.Context, key, query, last string) <-chan event {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+"/records?"+query, nil))(s.t)
	req.Header.Set("Authorization", key)
	req.Header.Set("Accept", api.EventStream)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp := must.Get(s.client.Do(req))(s.t)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != api.EventStream || resp.Header.Get(api.HeaderEpoch) == "" {
		s.t.Fatalf("%v", resp)
	}
	return parseEvents(resp.Body)
}

// parseEvents returns the events of a stream, which it closes.
func parseEvents(body io.ReadCloser) <-chan event {
	out := make(chan event, 10_000)
	go func() {
		defer body.Close()
		defer close(out)
		var e event
		lines := bufio.NewScanner(body)
		for lines.Buffer(nil, 1<<20); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case lines.Text() == "":
				out <- e
				e = event{}
			case name == "id":
				e.id = value
			case name == "event":
				e.kind = value
			case name == "data":
				e.data += value
			case name == "":
				e.comment = ":" + value
			}
		}
	}()
	return out
}

// next returns the next event that is not a comment.
func next(t *testing.T, ch <-chan event) event {
	t.Helper()
	for e := range ch {
		if e.comment == "" {
			return e
		}
	}
	t.Fatal("the stream has ended")
	return event{}
}

func wantEvent(t *testing.T, ch <-chan event, offset int64, value string) {
	t.Helper()
	e := next(t, ch)
	var r api.Record
	if err := json.Unmarshal([]byte(e.data), &r); err != nil || e.id != strconv.FormatInt(offset, 10) || r.Offset != offset || *r.Value != value {
		t.Fatalf("event %+v, %v; want %d %q", e, err, offset, value)
	}
}

func TestEventStreamFollows(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb")
	ch := s.events(t.Context(), "topic-name=t&offset=1", "")
	wantEvent(t, ch, 1, "b")
	s.mustPost("topic-name=t", api.JSON, `{"value":"two\nlines"}`)
	wantEvent(t, ch, 2, "two\nlines")
	for e := range ch { // after a heartbeat records continue
		if e.comment != "" {
			break
		}
	}
	s.mustPost("topic-name=t", api.TextPlain, "d")
	wantEvent(t, ch, 3, "d")
}

func TestEventStreamResumes(t *testing.T) {
	s := start(t)
	var lines strings.Builder
	const n = 5000
	for i := range n {
		fmt.Fprintf(&lines, "%d\n", i)
	}
	s.mustPost("topic-name=t", api.TextPlain, lines.String())
	// Interrupted repeatedly and resumed after the last received ID, a client gets each record
	// exactly once.
	last := ""
	for i := 0; i < n; {
		ctx, cancel := context.WithCancel(t.Context())
		ch := s.events(ctx, "topic-name=t&offset=0", last)
		for range min(n-i, 1+i%1501) {
			wantEvent(t, ch, int64(i), strconv.Itoa(i))
			last = strconv.Itoa(i)
			i++
		}
		cancel()
	}
}

func TestEventStreamLimits(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb\nc")
	ch := s.events(t.Context(), "topic-name=t&offset=0&max-records=2", "")
	wantEvent(t, ch, 0, "a")
	wantEvent(t, ch, 1, "b")
	if e, ok := <-ch; ok {
		t.Errorf("%+v after the last event", e)
	}
	count := func(query string) (n int) {
		for e := range s.events(t.Context(), "topic-name=t&offset=0&"+query, "") {
			if e.comment == "" {
				n++
			}
		}
		return n
	}
	for _, query := range []string{"timeout=100ms", "timeout=0s", "timeout=0s&max-records=0"} {
		check.Equalf(t, count(query), 3, "%s: events", query)
	}
	s.api.Stop()
	if n := count(""); n != 3 { // the client reconnects to a stream
		t.Errorf("stopping server: %d events", n)
	}
}

func TestEventStreamEnds(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	ctx, cancel := context.WithCancel(t.Context())
	gone := s.events(ctx, "topic-name=t&offset=1", "")
	sebtest.Eventually(t, "the stream waits", func() bool { return s.api.stops.Waits() == 1 })
	cancel()
	for range gone {
	}
	sebtest.Eventually(t, "the broker has ended the stream", func() bool { return s.api.stops.Waits() == 0 })

	ch := s.events(t.Context(), "topic-name=t&offset=0", "")
	wantEvent(t, ch, 0, "a")
	s.api.Stop()
	for range ch {
	}
}

func TestEventStreamFaults(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a")
	for query, code := range map[string]api.Code{
		"topic-name=no&offset=0": api.UnknownTopic, "topic-name=t": api.BadRequest, "topic-name=t&offset=0&partition=3": api.UnknownPartition,
		"topic-name=t&offset=0&max-records=x": api.BadRequest,
	} {
		if p := s.get("/records?"+query, api.EventStream).problem(t); p.Code != code {
			t.Errorf("%s: %+v", query, p)
		}
	}
	a := s.do(call{method: "GET", path: "/records?topic-name=t", header: map[string]string{"Accept": api.EventStream, "Last-Event-ID": "x"}})
	check.Equalf(t, a.problem(t).Field, "Last-Event-ID", "%s", a)
	// Deleting a topic ends the stream with an error event.
	ch := s.events(t.Context(), "topic-name=t&offset=0", "")
	wantEvent(t, ch, 0, "a")
	if a := s.do(call{method: "DELETE", path: "/topic?topic-name=t"}); a.status != 204 {
		t.Fatal(a)
	}
	var p api.Problem
	if e := next(t, ch); e.kind != "error" || json.Unmarshal([]byte(e.data), &p) != nil || p.Code != api.UnknownTopic || p.Status != 404 {
		t.Errorf("%+v", e)
	}
	if e, ok := <-ch; ok {
		t.Errorf("%+v after the error", e)
	}
}
