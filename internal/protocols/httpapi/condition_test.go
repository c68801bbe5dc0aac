package httpapi

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/api"
)

func (s *server) putIf(id, body string, header ...string) *answered {
	s.t.Helper()
	return s.do(call{method: "PUT", path: "/triggers/" + id, body: strings.NewReader(body), header: map[string]string{"Content-Type": api.JSON, header[0]: header[1]}})
}

// TestTriggerConditions: If-Match and If-None-Match protect a change that another client has stored.
func TestTriggerConditions(t *testing.T) {
	t.Parallel()
	s := triggerServer(t)
	refused := func(a *answered, stored string) {
		t.Helper()
		if p := a.problem(t); p.Code != api.PreconditionFailed || !strings.Contains(p.Detail, stored) {
			t.Errorf("%+v, want one that names %q", p, stored)
		}
	}
	var first, second api.TriggerStored
	refused(s.putIf("t", `{"expr":"a"}`, "If-Match", `"1.0"`), `there is no trigger "t"`)
	refused(s.putIf("t", `{"expr":"a"}`, "If-Match", `*`), `there is no trigger "t"`)
	a := s.putIf("t", `{"expr":"a","deliver":`+signed+`}`, "If-None-Match", "*")
	s.must(201, a, &first)
	tag := a.header.Get("ETag")
	if first.Tag == "" || tag != `"`+first.Tag+`"` {
		t.Errorf("ETag %s, tag %q", tag, first.Tag)
	}
	s.must(200, s.putIf("t", `{"expr":"a","deliver":`+signed+`}`, "If-None-Match", "*"), nil) // a repetition
	refused(s.putIf("t", `{"expr":"a"}`, "If-None-Match", "*"), "version 1 is stored now, with the tag "+first.Tag)
	refused(s.putIf("t", `{"expr":"a"}`, "If-None-Match", tag), first.Tag)
	refused(s.putIf("t", `{"expr":"a"}`, "If-Match", "W/"+tag), first.Tag)
	refused(s.putIf("t", `{"expr":"a"}`, "If-Match", `"2.0"`), first.Tag)
	for _, accept := range []string{"identity", "gzip", "zstd"} { // a compressed answer has another tag
		a := s.do(call{method: "GET", path: "/triggers/t", header: map[string]string{"Accept-Encoding": accept}})
		got := a.header.Get("ETag")
		if accept == "identity" && got != tag || a.status != 200 {
			t.Errorf("ETag %s, want %s", got, tag)
		}
		s.must(200, s.putIf("t", `{"expr":"a","keep_deliver":true,"fire":"edge"}`, "If-Match", `"2.0", `+got), &second)
		if second.Tag == first.Tag || string(second.Deliver) != string(first.Deliver) {
			t.Errorf("%+v after %+v", second, first)
		}
		refused(s.putIf("t", `{"expr":"b"}`, "If-Match", got), second.Tag)
		tag = `"` + second.Tag + `"`
	}
	for _, path := range []string{"/triggers/t/pause", "/triggers/t/resume"} {
		var got api.Trigger
		a := s.send("POST", path, "")
		if s.must(200, a, &got); got.Tag == second.Tag || a.header.Get("ETag") != `"`+got.Tag+`"` {
			t.Errorf("%s: %+v", path, got)
		}
		refused(s.putIf("t", `{"expr":"b"}`, "If-Match", tag), got.Tag)
		tag = `"` + got.Tag + `"`
	}
	for _, header := range []string{"If-Match", "If-None-Match"} {
		for method, body := range map[string]string{"PUT": `{"expr":"b"}`, "DELETE": ""} {
			p := s.do(call{method: method, path: "/triggers/t", body: strings.NewReader(body), header: map[string]string{header: "1.0", "Content-Type": api.JSON}}).problem(t)
			if p.Code != api.BadRequest || p.Field != header {
				t.Errorf("%s: %+v", method, p)
			}
		}
	}
	remove := func(tag string) *answered {
		return s.do(call{method: "DELETE", path: "/triggers/t", header: map[string]string{"If-Match": tag}})
	}
	refused(remove(`"2.0"`), tag[1:len(tag)-1])
	s.must(204, remove(tag), nil)
	if p := remove(tag).problem(t); p.Code != api.UnknownTrigger {
		t.Errorf("%+v", p)
	}
}

// TestTriggerConditionsConcurrently: of many changes of one definition over sockets, one is stored.
func TestTriggerConditionsConcurrently(t *testing.T) {
	t.Parallel()
	const clients, rounds = 24, 4
	s := triggerServer(t)
	tag := `"` + s.putTrigger(201, "t", `{"expr":"a"}`).Tag + `"`
	for round := range rounds {
		var won, lost atomic.Int32
		var next atomic.Value
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				body := fmt.Sprintf(`{"expr":"a","deliver":{"url":"https://example.com/%d/%d","secrets":["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"]}}`, round, i)
				a, err := s.try(call{method: "PUT", path: "/triggers/t", body: strings.NewReader(body), header: map[string]string{"Content-Type": api.JSON, "If-Match": tag}})
				switch {
				case err != nil:
					t.Error(err)
				case a.status == 200:
					won.Add(1)
					next.Store(a.header.Get("ETag"))
				case a.status == 412:
					lost.Add(1)
				default:
					t.Errorf("%s", a)
				}
			})
		}
		all.Wait()
		got := s.get("/triggers/t").header.Get("ETag")
		if won.Load() != 1 || lost.Load() != clients-1 || got != next.Load() || got == tag {
			t.Fatalf("round %d: %d stored, %d refused, the stored one has the tag %s, want %v", round, won.Load(), lost.Load(), got, next.Load())
		}
		tag = got
	}
}
