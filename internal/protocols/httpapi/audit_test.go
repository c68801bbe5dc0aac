package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// audits reads n records of the audit topic, and waits for them.
func (s *server) audits(n int) (all []api.AuditRecord) {
	s.t.Helper()
	s.must(200, s.as(canary, "GET", fmt.Sprintf("/records?topic-name=audit&offset=%d&timeout=20s", n-1), ""), nil) // waits
	for i := range n {
		var of api.AuditRecord
		s.must(200, s.as(canary, "GET", fmt.Sprintf("/record?topic-name=audit&offset=%d", i), ""), &of)
		all = append(all, of)
	}
	return all
}

// TestAuditOverHTTP: records of changes and of denials name the client and its request.
func TestAuditOverHTTP(t *testing.T) {
	s := start(t, func(c *setup) {
		c.broker.AuditTopic = "audit"
		c.broker.Batch = log.Config{DeferWait: time.Millisecond}
	})
	created := s.as(canary, "POST", "/tokens", `{"id":"shop","admin":["orders.*"],"cluster":true}`)
	var shop api.TokenCreated
	s.must(201, created, &shop)
	check.Equalf(t, shop.Hint, "", "hint")
	a := s.matrix("PUT", "/topic?topic-name=orders.new", api.JSON, `{"settings":{"retention-time":"1h"}}`,
		func(r *http.Request) {
			header("Authorization", "Bearer "+shop.Secret)(r)
			header("X-Request-Id", "req-7")(r)
		})
	must.Equalf(t, a.status, 201, "%v", a)
	s.must(201, s.as(shop.Secret, "POST", "/tokens/shop/rotate", ""), nil)
	for range 3 {
		if a := s.as(shop.Secret, "POST", "/topic/trim?topic-name=other&partition=0&offset=1", ""); a.status != 403 {
			t.Error(a)
		}
	}
	if a := s.as(shop.Secret, "POST", "/tokens", `{"id":"more","read":["*"]}`); a.status != 403 {
		t.Error(a)
	}
	if a := s.as(canary, "POST", "/records?topic-name=audit", `[{"value":"x"}]`); a.status != 403 {
		t.Error(a)
	}
	if root, limited := s.login(canary), s.login(shop.Secret); root.session.AuditTopic != "audit" || limited.session.AuditTopic != "" {
		t.Errorf("audit topics of sessions: %+v, %+v", root.session, limited.session)
	}
	got := s.audits(5)
	want := []api.AuditRecord{
		{Actor: api.AuditActor{Principal: access.RootID}, Action: "token.create", Resource: api.AuditResource{Type: "principal", Name: "shop"}, Outcome: "done"},
		{Actor: api.AuditActor{Principal: "shop"}, Action: "topic.create", Resource: api.AuditResource{Type: "topic", Name: "orders.new"}, Outcome: "done", Request: "req-7"},
		{Actor: api.AuditActor{Principal: "shop"}, Action: "token.rotate", Resource: api.AuditResource{Type: "principal", Name: "shop"}, Outcome: "done"},
		{Actor: api.AuditActor{Principal: "shop"}, Action: "topic.delete", Resource: api.AuditResource{Type: "topic", Name: "other"}, Outcome: "denied"},
		{Actor: api.AuditActor{Principal: "shop"}, Action: "cluster.alter", Resource: api.AuditResource{Type: "cluster", Name: access.ClusterName}, Outcome: "denied"},
	}
	for i, g := range got {
		w := want[i]
		if g.Actor.Principal != w.Actor.Principal || g.Action != w.Action || g.Resource != w.Resource || g.Outcome != w.Outcome || g.Request != w.Request {
			t.Errorf("record %d: %+v, want %+v", i, g, w)
		}
		if g.Protocol != "http" || !strings.HasPrefix(g.From, "127.0.0.1:") || (g.Actor.Secret == "") != (g.Actor.Principal == access.RootID) {
			t.Errorf("record %d: %+v", i, g)
		}
		if text, _ := json.Marshal(g); strings.Contains(string(text), shop.Secret) || strings.Contains(string(text), canary) {
			t.Errorf("record %d has a secret: %s", i, text)
		}
	}
}

// TestHintOfTheFirstToken: without an audit topic the first token comes with a hint.
func TestHintOfTheFirstToken(t *testing.T) {
	s := start(t)
	for i, id := range []string{"first", "second"} {
		var created api.TokenCreated
		s.must(201, s.as(canary, "POST", "/tokens", `{"id":"`+id+`"}`), &created)
		check.Equalf(t, strings.Contains(created.Hint, "--audit-topic"), i == 0, "%s token: hint %q", id, created.Hint)
	}
}
