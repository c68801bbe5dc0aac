package delivery_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/webhook"
)

// TestConcurrency: a trigger has as many messages in flight as it says, and connections for them.
func TestConcurrency(t *testing.T) {
	const concurrency, entities = 40, 200
	w := newFixture(t)
	var mu sync.Mutex // guards the two below
	inflight, most := 0, 0
	full := make(chan struct{})
	var connections atomic.Int64
	r := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		if inflight++; inflight == concurrency && most < concurrency {
			close(full)
		}
		most = max(most, inflight)
		mu.Unlock()
		<-full
		mu.Lock()
		inflight--
		mu.Unlock()
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	w.put("x", "a", to(r.URL, fmt.Sprintf(`, "concurrency": %d`, concurrency)), nil)
	for i := range entities {
		w.event(fmt.Sprint("user-", i), "a")
	}
	w.firings(all(entities, rule.Delivered))
	check.Equalf(t, most, concurrency, "messages in flight")
	if n := connections.Load(); n > 2*concurrency {
		t.Errorf("%d connections for %d messages, %d in flight", n, entities, concurrency)
	}
}

// TestOrderOfEntity: messages of an entity are sent one after the other, in the order of its firings.
// An entity with many of them does not keep those of others waiting.
func TestOrderOfEntity(t *testing.T) {
	const others, each, many = 4, 5, 100
	w := newFixture(t)
	var mu sync.Mutex // guards the fields below
	inflight, last, waiting := map[string]bool{}, map[string]int64{}, others*each
	sent := make(chan struct{}) // closed when the messages of the others have arrived
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var f webhook.Firing
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			t.Error(err)
			return
		}
		entity, offset := f.Data.Entity, f.Data.Witness[0].Offset
		mu.Lock()
		if inflight[entity] || offset <= last[entity] {
			t.Errorf("%s: message of offset %d after %d; another one is in flight: %v", entity, offset, last[entity], inflight[entity])
		}
		inflight[entity], last[entity] = true, offset
		if entity != "many" {
			if waiting--; waiting == 0 {
				close(sent)
			}
		}
		mu.Unlock()
		if entity == "many" {
			<-sent
		}
		mu.Lock()
		inflight[entity] = false
		mu.Unlock()
	}))
	t.Cleanup(r.Close)
	w.put("x", "a", to(r.URL, `, "concurrency": 8`), func(d *rule.Definition) { d.Fire = rule.OnReset })
	w.event("first", "b") // so that no offset is 0
	for range many {
		w.event("many", "a")
	}
	for range each {
		for i := range others {
			w.event(fmt.Sprint("other-", i), "a")
		}
	}
	w.firings(all(many+others*each, rule.Delivered))
}

// TestChangeInFlight: after a pause, or another receiver, no message to the old receiver begins, and
// none is built in vain. After that everything is delivered, once.
func TestChangeInFlight(t *testing.T) {
	const concurrency, entities = 4, 60
	for name, change := range map[string]func(w *fixture, to string){
		"pause":  func(w *fixture, _ string) { must.NoError(w.t, w.node.Triggers().Pause(w.t.Context(), "x", true)) },
		"update": func(w *fixture, to string) { w.put("x", "a", to, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			changed := make(chan struct{})
			old := receive(t, func(int, http.ResponseWriter, *http.Request) { <-changed })
			other := receive(t, nil)
			set := fmt.Sprintf(`, "concurrency": %d`, concurrency)
			w.put("x", "a", to(old.URL, set), nil)
			for i := range entities {
				w.event(fmt.Sprint("user-", i), "a")
			}
			old.wait(concurrency)
			w.firings(func(list []rules.Firing) bool { // not suppressed by the pause
				return len(list) == entities && !slices.ContainsFunc(list, func(x rules.Firing) bool { return x.Recorded == 0 })
			})
			change(w, to(other.URL, set))
			close(changed)
			w.firings(func(list []rules.Firing) bool {
				n := 0
				for i := range list {
					if list[i].State == rule.Delivered {
						n++
					}
				}
				return n >= concurrency
			})
			if name == "pause" {
				must.NoError(t, w.node.Triggers().Pause(t.Context(), "x", false))
			}
			w.firings(all(entities, rule.Delivered))
			if n := len(old.list()); name == "update" && n != concurrency {
				t.Errorf("%d messages to the old receiver, want %d", n, concurrency)
			}
			check.Equalf(t, len(old.list())+len(other.list()), entities, "messages")
			var b strings.Builder
			w.set.WritePrometheus(&b)
			if want := "seb_deliveries_cancelled_total 0"; !strings.Contains(b.String(), want) {
				t.Errorf("missing %s in:\n%s", want, b.String())
			}
		})
	}
}
