package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestStandbyForwardsQueues: producers and workers that know only a standby work with the queues of the leader,
// and lists are of the standby.
func TestStandbyForwardsQueues(t *testing.T) {
	t.Parallel()
	leads, standby, _ := pair(t)
	newQueue(standby, "q", "")
	standby.must(201, standby.sendOne("q", "", "a"), nil)
	list := standby.lease("q", `{"wait":"1m"}`)
	check.Equal(t, valuesOf(list), "a")
	check.Equal(t, strings.Join(standby.settle("q", api.Settlement{Receipt: list[0].Receipt, Do: "done"}), ","), "")
	standby.must(201, standby.sendOne("q", "", "b"), nil)
	a := standby.get("/queues/q/messages")
	if a.header.Get(api.HeaderLeader) != "" || !strings.Contains(string(a.body), `"value":"b"`) {
		t.Errorf("a list of the standby: %s", a)
	}
	if a := standby.get("/queues/q?read=latest"); a.status != 200 || a.header.Get(api.HeaderLeader) == "" {
		t.Errorf("read=latest: %s", a)
	}
	list = leads.lease("q", "")
	check.Equal(t, valuesOf(list), "b")
	check.Equal(t, standby.code("DELETE", "/queues/q/messages/"+list[0].ID), api.MessageLeased)

	ctx, leave := context.WithCancel(t.Context())
	req := must.Get(http.NewRequestWithContext(ctx, "POST", "http://"+standby.addr+"/queues/q/lease", strings.NewReader(`{"wait":"1m"}`)))(t)
	authorization("Bearer " + canary)(req)
	left := make(chan error, 1)
	go func() {
		_, err := standby.client.Do(req)
		left <- err
	}()
	sebtest.Eventually(t, "a worker waits at the leader", func() bool { return leads.api.o.Queues.Waiting("q") == 1 })
	leave()
	check.ErrorIs(t, <-left, context.Canceled)
	sebtest.Eventually(t, "the worker is gone at the leader", func() bool { return leads.api.o.Queues.Waiting("q") == 0 })
	leads.must(201, leads.sendOne("q", "", "c"), nil)
	check.Equal(t, valuesOf(leads.lease("q", "")), "c")

	stopped := make(chan *answered, 1)
	go func() { stopped <- standby.send("POST", "/queues/q/lease", `{"wait":"1m"}`) }()
	sebtest.Eventually(t, "a worker waits at the leader", func() bool { return leads.api.o.Queues.Waiting("q") == 1 })
	standby.api.Stop()
	check.Equal(t, (<-stopped).problem(t).Code, api.ShuttingDown)
}

// TestQueuesOfAReadOnlyBroker: it lists queues and messages, and gives none.
func TestQueuesOfAReadOnlyBroker(t *testing.T) {
	store := objstore.NewMemory()
	leads := start(t, func(c *setup) { c.store = store })
	newQueue(leads, "q", "")
	leads.must(201, leads.sendOne("q", "", "a"), nil)
	s := start(t, func(c *setup) { c.store, c.broker.Core.ReadOnly = store, true })
	check.Equal(t, s.queue("q").Ready, int64(1))
	if a := s.get("/queues/q/messages"); !strings.Contains(string(a.body), `"value":"a"`) {
		t.Errorf("messages: %s", a)
	}
	s.must(200, s.get("/queues"), nil)
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/queues/n", ""},
		{"DELETE", "/queues/q", ""},
		{"POST", "/queues/q/lease", ""},
		{"POST", "/queues/q/settle", `{"messages":[{"receipt":"x","do":"done"}]}`},
		{"POST", "/queues/q/redrive", ""},
		{"POST", "/queues/q/purge", ""},
		{"POST", "/queues/q/pause", ""},
		{"DELETE", "/queues/q/messages/0-0", ""},
	} {
		check.Equalf(t, s.send(c.method, c.path, c.body).problem(t).Code, api.ReadOnly, "%s %s", c.method, c.path)
	}
	check.Equal(t, s.sendOne("q", "", "x").problem(t).Code, api.ReadOnly)
}
