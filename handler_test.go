package seb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sebbroker/seb"
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/webhook"
)

const apiKey = "key-of-the-tests-of-Handler"

// hook returns the address of a webhook receiver, and the firings that it gets.
func hook(t *testing.T) (deliver json.RawMessage, firings <-chan webhook.Firing) {
	t.Helper()
	secret, came := webhook.NewSecret(), make(chan webhook.Firing, 100)
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var f webhook.Firing
		m, err := verifier.Receive(r)
		if err == nil {
			err = json.Unmarshal(m.Body, &f)
		}
		check.NoError(t, err)
		came <- f
	}))
	t.Cleanup(s.Close)
	return json.RawMessage(fmt.Sprintf(`{"url":%q,"secrets":[%q]}`, s.URL, secret.Reveal())), came
}

// TestAllCallsOfTheClient: events, triggers, firings, entities and groups, by every way to them.
func TestAllCallsOfTheClient(t *testing.T) {
	b := open(t, seb.Options{Bucket: t.TempDir(), APIKey: apiKey, WebhookTargets: []string{"127.0.0.0/8"}, BatchWait: -1, AuditTopic: "audit"})
	root := httptest.NewServer(b.Handler())
	t.Cleanup(root.Close)
	mux := http.NewServeMux()
	mux.Handle("/events/", http.StripPrefix("/events", b.Handler()))
	below := httptest.NewServer(mux)
	t.Cleanup(below.Close)
	remote := func(address string) *client.Client {
		c := must.Get(client.New(address, client.Options{APIKey: apiKey}))(t)
		t.Cleanup(c.Close)
		return c
	}
	for id, c := range map[string]*client.Client{"here": b.Client(), "served": remote(root.URL), "below": remote(below.URL + "/events/")} {
		t.Run(id, func(t *testing.T) { allCalls(t, c, id) })
	}
	audit := read(t, b, "audit", seb.ReadOptions{})
	check.Containsf(t, audit, `{"actor":{"principal":"seb"},"protocol":"library","action":"trigger.put","resource":{"type":"trigger","name":"here"}`, "audit records")
	check.Containsf(t, audit, `{"actor":{"principal":"seb"},"from":"127.0.0.1:`, "audit records")
	check.ErrorIsf(t, check.Err(b.Client().Trigger(t.Context(), "none")), client.ErrUnknownTrigger, "an unknown trigger")
}

func allCalls(t *testing.T, c *client.Client, id string) {
	ctx, entity := t.Context(), "e/"+id
	deliver, firings := hook(t)
	must.Get(c.PutTrigger(ctx, id, client.TriggerSpec{Expr: "signup THEN purchase", Deliver: deliver}))(t)
	event := func(name string) {
		stored := must.Get(c.ProduceEvent(ctx, client.Event{Name: name, EntityID: entity}, client.EventOptions{}))(t)
		check.Equalf(t, stored.Topic, "events", "topic")
	}
	event("signup")
	sebtest.Eventually(t, "the trigger awaits the second event", func() bool {
		x := must.Get(c.Explain(ctx, id, entity))(t)
		return x.Known
	})
	event("purchase")
	got := <-firings
	check.Equalf(t, got.Data.Entity, entity, "entity of the webhook")
	sebtest.Eventually(t, "the log has the answer of the webhook", func() bool { // a resend before it would be a part of this delivery
		list, _ := must.Get2(c.Firings(ctx, client.FiringQuery{Trigger: id}))(t)
		return len(list) == 1 && list[0].State == "delivered"
	})
	must.Get(c.PauseTrigger(ctx, id, true))(t)
	must.Get(c.PauseTrigger(ctx, id, false))(t)
	list, _ := must.Get2(c.Firings(ctx, client.FiringQuery{Trigger: id}))(t)
	must.Equalf(t, len(list), 1, "firings")
	must.Get(c.ResendFiring(ctx, list[0].ID))(t)
	again := <-firings
	check.Equalf(t, again.Data.Entity, entity, "entity of the second webhook")
	check.Equalf(t, len(must.Get(c.Firing(ctx, list[0].ID))(t).Witness), 2, "matched events")
	seen := 0
	dry := must.Get(c.DryRunWith(ctx, client.TriggerSpec{Expr: "purchase"}, client.DryRunOptions{Progress: func(client.DryRunProgress) { seen++ }}))(t)
	check.Equalf(t, dry.Firings >= 1, true, "dry run of %d firings", dry.Firings)
	must.NoError(t, c.EraseEntity(ctx, "", entity))

	must.NoError(t, c.CommitOffsets(ctx, id, client.OffsetCommit{Topic: "events", Offset: 1}))
	check.Equalf(t, must.Get(c.Group(ctx, id))(t).Offsets[0].Offset, 1, "committed offset")
	must.NoError(t, c.DeleteGroup(ctx, id))
	must.NoError(t, c.DeleteTrigger(ctx, id))
	check.ErrorIsf(t, check.Err(c.Trigger(ctx, id)), client.ErrUnknownTrigger, "a deleted trigger")
}

// TestHandlerAuthenticates: without Options.APIKey only tokens are accepted.
func TestHandlerAuthenticates(t *testing.T) {
	get := func(s *httptest.Server, path, key string) (int, string) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil))(t)
		r.Header.Set("Accept", "text/html, application/json, "+api.ProblemJSON)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp := must.Get(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(t))
	}
	for _, key := range []string{"", apiKey} {
		b := open(t, seb.Options{Bucket: "mem:", APIKey: key})
		token := must.Get(b.Client().CreateToken(t.Context(), client.TokenSpec{ID: "ann", Scopes: client.Scopes{Read: []string{"*"}}}))(t)
		s := httptest.NewServer(b.Handler())
		t.Cleanup(s.Close)
		for given, want := range map[string]int{"": 401, "another-key-of-the-tests": 401, token.Secret: 200, apiKey: map[string]int{"": 401, apiKey: 200}[key]} {
			if status, body := get(s, "/topics", given); status != want {
				t.Errorf("key %q: request with key %q: %d %s", key, given, status, body)
			}
		}
		status, page := get(s, "/console/", "")
		check.Equalf(t, status, http.StatusOK, "console")
		check.Containsf(t, page, "<html", "console")
		for _, path := range []string{"/stats", "/latency", "/status", "/metrics", "/cost", "/cluster", "/groups", "/tokens", "/secrets", "/time", "/upgrade", "/readyz"} {
			if status, body := get(s, path, key); key != "" && status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
	for _, key := range []string{"short", "with a space in the key"} {
		check.ErrorContains(t, check.Err(seb.Open(t.Context(), seb.Options{Bucket: "mem:", APIKey: key})), "Options.APIKey")
	}
}

// TestCloseEndsRequests: a long poll and a call end with the broker, and later ones fail at once.
func TestCloseEndsRequests(t *testing.T) {
	var log sebtest.Log
	b := must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:", APIKey: apiKey, Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	produce(t, b, "t", "a")
	s := httptest.NewServer(b.Handler())
	t.Cleanup(s.Close)
	remote := must.Get(client.New(s.URL, client.Options{APIKey: apiKey, RetryTime: -1}))(t)
	t.Cleanup(remote.Close)
	ended := make(chan error, 2)
	for _, c := range []*client.Client{b.Client(), remote} {
		began := make(chan struct{})
		go func() {
			var last error
			for _, err := range c.Records(t.Context(), "t", client.ReadOptions{Offset: client.Earliest, Follow: true}) {
				if last = err; err == nil {
					close(began)
				}
			}
			ended <- last
		}()
		<-began
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/records?topic-name=t&offset=0", nil))(t)
	r.Header.Set("Authorization", "Bearer "+apiKey)
	r.Header.Set("Accept", api.EventStream)
	stream := must.Get(http.DefaultClient.Do(r))(t)
	defer stream.Body.Close()
	check.Equalf(t, stream.StatusCode, http.StatusOK, "event stream")
	must.NoError(t, b.Close(t.Context()))
	for range 2 {
		check.Error(t, <-ended, "a long poll continues without a broker")
	}
	text := must.Get(io.ReadAll(stream.Body))(t)
	check.Containsf(t, string(text), "data:", "event stream")
	_, err := b.Client().ProduceEvent(t.Context(), client.Event{Name: "a", EntityID: "1"}, client.EventOptions{})
	check.ErrorIs(t, err, seb.ErrClosed)
	check.ErrorIs(t, err, client.ErrRejected)
	_, err = remote.Topics(t.Context())
	var fault *client.Error
	if !errors.As(err, &fault) || fault.Code != string(api.ShuttingDown) {
		t.Errorf("after Close: %v", err)
	}
	must.NoError(t, b.Close(t.Context()))
	check.Equalf(t, strings.Contains(log.String(), apiKey), false, "the key is in the log")
	late := must.Get(seb.Open(t.Context(), seb.Options{Bucket: "mem:"}))(t)
	must.NoError(t, late.Close(t.Context()))
	check.ErrorIsf(t, check.Err(late.Client().Topics(t.Context())), seb.ErrClosed, "the first call after Close")
}

// TestTakeover: the first write of the earlier broker has an unknown outcome, because its PUT may have
// been stored. From then on every call is fenced.
func TestTakeover(t *testing.T) {
	dir := t.TempDir()
	first := open(t, seb.Options{Bucket: dir, APIKey: apiKey})
	s := httptest.NewServer(first.Handler())
	t.Cleanup(s.Close)
	produce(t, first, "events", "a")
	second := open(t, seb.Options{Bucket: dir})
	_, err := first.Produce(t.Context(), "events", 0, record.Record{Value: []byte("lost")})
	check.ErrorIsf(t, err, seb.ErrOutcomeUnknown, "first write")
	<-first.Done()
	check.ErrorIsf(t, check.Err(first.Produce(t.Context(), "events", 0, record.Record{Value: []byte("lost")})), seb.ErrFenced, "second write")
	event := client.Event{Name: "a", EntityID: "1"}
	check.ErrorIsf(t, check.Err(first.Client().ProduceEvent(t.Context(), event, client.EventOptions{})), seb.ErrFenced, "event")
	resp := must.Get(http.DefaultClient.Do(posting(t, s.URL+"/event", `{"event":"a","entity_id":"1"}`)))(t)
	defer resp.Body.Close()
	if body := must.Get(io.ReadAll(resp.Body))(t); resp.StatusCode != http.StatusServiceUnavailable || !bytes.Contains(body, []byte(`"code":"fenced"`)) {
		t.Errorf("event over HTTP: %d %s", resp.StatusCode, body)
	}
	must.Get(second.Client().ProduceEvent(t.Context(), event, client.EventOptions{}))(t)
	must.NoError(t, first.Close(context.Background()))
}

func posting(t *testing.T, url, body string) *http.Request {
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body)))(t)
	r.Header.Set("Authorization", "Bearer "+apiKey)
	r.Header.Set("Content-Type", api.JSON)
	return r
}
