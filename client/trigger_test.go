package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// triggerBroker returns a client of a broker with a trigger engine, with options.
func triggerBroker(t *testing.T, options ...client.Options) *client.Client {
	t.Helper()
	n := must.Get(node.Open(t.Context(), node.Options{
		Store: objstore.NewMemory(), DataDir: t.TempDir(), BatchWait: node.BatchNone, NoMerge: true, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	authority := auth.New(auth.Options{Broker: n.Broker, RootKey: testKey})
	t.Cleanup(authority.Close)
	a := must.Get(httpapi.New(n.Broker, httpapi.Options{Auth: authority, Triggers: n.Triggers()}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := a.Server()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	o := append(options, client.Options{RetryTime: -1})[0]
	o.APIKey = testKey
	c := must.Get(client.New("http://"+l.Addr().String(), o))(t)
	t.Cleanup(func() {
		c.Close()
		_ = srv.Close()
		<-done
		check.NoError(t, n.Close(context.Background()))
	})
	return c
}

// knownBy checks that only one trigger, with one firing, knows an entity.
func knownBy(t *testing.T, c *client.Client, entity, trigger string) {
	t.Helper()
	known := 0
	for x, err := range c.EntityTriggers(t.Context(), entity, "aa") {
		if err != nil || x.Trigger != trigger || x.Firings != 1 || x.Last == nil {
			t.Errorf("%+v, %v", x, err)
		}
		known++
	}
	check.Equalf(t, known, 1, "triggers know the entity")
	for x, err := range c.EntityTriggers(t.Context(), entity, trigger) {
		t.Errorf("after the last one: %+v, %v", x, err)
	}
}

func TestTriggersOfAClient(t *testing.T) {
	c, ctx := triggerBroker(t), t.Context()
	made, err := c.PutTrigger(ctx, "ab", client.TriggerSpec{Expr: "a THEN b", Fire: "edge", Cooldown: "1h", Deliver: json.RawMessage(`{"topic":"out"}`)})
	if err != nil || made.Version != 1 || made.Cooldown != "1h" || !made.CarryFired || string(made.Deliver) != `{"topic":"out"}` || len(made.History) != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	changed, err := c.PutTrigger(ctx, "ab", client.TriggerSpec{Expr: ` {"then":[{"event":"a"},{"event":"b"}]}`, CarryFired: new(false)})
	if err != nil || changed.Version != 2 || changed.Text != "a THEN b" || changed.CarryFired {
		t.Fatalf("%+v, %v", changed, err)
	}
	must.Get(c.ProduceEvents(ctx, []client.Event{{Name: "a", EntityID: "ü/1"}, {Name: "b", EntityID: "ü/1"}}, client.EventOptions{}))(t)
	var list []client.Firing
	sebtest.Eventually(t, "the firing is recorded", func() bool {
		var next int64
		if list, next, err = c.Firings(ctx, client.FiringQuery{Trigger: "ab"}); err != nil || next != 0 {
			t.Fatalf("%+v, %d, %v", list, next, err)
		}
		return len(list) > 0 && !list[0].RecordedAt.IsZero()
	})
	selectFirings(t, c, list[0])
	one, err := c.Firing(ctx, list[0].ID)
	if err != nil || len(one.Witness) != 2 || one.Entity != "ü/1" {
		t.Errorf("%+v, %v", one, err)
	}
	if again, err := c.ResendFiring(ctx, one.ID); err != nil || again.ID != one.ID {
		t.Errorf("%+v, %v", again, err)
	}
	if x, err := c.Explain(ctx, "ab", "ü/1"); err != nil || !x.Fired || x.Next != nil || len(x.Firings) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
	knownBy(t, c, "ü/1", "ab")
	if run, err := c.DryRun(ctx, client.TriggerSpec{Expr: "a"}); err != nil || run.Firings != 1 || len(run.Samples) != 1 {
		t.Errorf("%+v, %v", run, err)
	}
	dryRunWith(t, c)
	if got, err := c.PauseTrigger(ctx, "ab", true); err != nil || got.Status != "paused" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.PauseTrigger(ctx, "ab", false); err != nil || got.Status != "active" {
		t.Errorf("%+v, %v", got, err)
	}
	check.NoError(t, c.EraseEntity(ctx, "", "ü/1"))
	if list, _, err := c.Firings(ctx, client.FiringQuery{}); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if all, err := c.CountedTriggers(ctx); err != nil || len(all) != 1 || all[0].Firings == nil || len(all[0].Firings.States) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := c.Triggers(ctx); err != nil || len(all) != 1 || all[0].ID != "ab" {
		t.Errorf("%+v, %v", all, err)
	}
	check.NoError(t, c.DeleteTrigger(ctx, "ab"))
	check.ErrorIs(t, check.Err(c.Trigger(ctx, "ab")), client.ErrUnknownTrigger)
	if _, err := c.ResendFiring(ctx, one.ID); !errors.Is(err, client.ErrUnknownFiring) || !errors.Is(err, client.ErrRejected) {
		t.Error(err)
	}
}

// dryRunWith makes dry runs with options.
func dryRunWith(t *testing.T, c *client.Client) {
	t.Helper()
	var list []client.DryRunProgress
	o := client.DryRunOptions{Since: time.Unix(1, 5), Sample: 1, Progress: func(p client.DryRunProgress) { list = append(list, p) }}
	run, err := c.DryRunWith(t.Context(), client.TriggerSpec{Expr: "a"}, o)
	if err != nil || run.Firings != 1 || run.Sample != 1 || len(run.Samples) != 1 || len(list) == 0 || list[0].Read != 0 || list[0].Total == 0 {
		t.Errorf("%+v, %+v, %v", run, list, err)
	}
	if run, err = c.DryRunWith(t.Context(), client.TriggerSpec{Expr: "a"}, client.DryRunOptions{Until: time.Unix(1, 0), Sample: 50}); err != nil || run.Firings != 0 ||
		run.Sample != 50 || run.Estimate == nil || run.Until == nil || !run.Until.Equal(time.Unix(1, 0)) {
		t.Errorf("%+v, %v", run, err)
	}
	o.Sample = 1 << 20
	if _, err := c.DryRunWith(t.Context(), client.TriggerSpec{Expr: "a"}, o); !strings.Contains(fmt.Sprint(err), "from 0 to 65536") {
		t.Error(err)
	}
}

// TestDryRunStreams: an error event is the broker's error, and an interrupted stream is repeated.
func TestDryRunStreams(t *testing.T) {
	answers := []string{
		"event: progress\ndata: {\"read\":5,\"total\":10,\"percent\":50}\n\n",
		": a comment\n\nevent: progress\ndata: {\"read\":0}\n\nevent: error\r\ndata: {\"code\":\"over_budget\",\"status\":429,\"detail\":\"x\"}\r\n\r\n",
		"event: result\ndata: {\"firings\":7}\n\n",
		"event: error\ndata: {\"code\":\"too_large\",\"status\":413,\"detail\":\"y\"}\n\n",
		"event: other\ndata: 1\n\n",
	}
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, answers[n])
		n++
	}))
	defer s.Close()
	c := must.Get(client.New(s.URL, client.Options{}))(t)
	var read []int64
	o := client.DryRunOptions{Progress: func(p client.DryRunProgress) { read = append(read, p.Read) }}
	run, err := c.DryRunWith(t.Context(), client.TriggerSpec{Expr: "a"}, o)
	if err != nil || run.Firings != 7 || fmt.Sprint(read) != "[5 0]" || n != 3 {
		t.Errorf("after %d answers: %+v, %v, %v", n, run, read, err)
	}
	_, err = c.DryRunWith(t.Context(), client.TriggerSpec{Expr: "a"}, o)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 413 || e.Error() != "too large: y" || n != 4 {
		t.Errorf("after %d answers: %+v", n, err)
	}
	if _, err = c.DryRunWith(t.Context(), client.TriggerSpec{Expr: "a"}, o); err == nil || n != 5 {
		t.Errorf("after %d answers: %v", n, err)
	}
}

func TestStoriesOfAClient(t *testing.T) {
	c := triggerBroker(t)
	for _, expr := range []string{"a THEN (NOT b WITHIN 7 days)", ` {"then":[{"event":"a"},{"within":{"not":{"event":"b"}},"for":"7d"}]}`} {
		a, err := c.Stories(t.Context(), expr)
		if err != nil || len(a.Stories) < 4 || *a.Stories[0].FiresMS != 7*24*3600*1000 || a.Stories[0].DiffersFrom != nil || *a.Stories[1].DiffersFrom != 0 {
			t.Errorf("%s: %+v, %v", expr, a, err)
		}
	}
	if a, err := c.Stories(t.Context(), "NOT a"); err != nil || a.NoneFires != "true_at_start" {
		t.Errorf("%+v, %v", a, err)
	}
	_, err := c.Stories(t.Context(), "a THEN")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Line != 1 || e.Column != 7 {
		t.Errorf("%+v", err)
	}
}

func TestExpressionErrorsHaveTheirPosition(t *testing.T) {
	c := triggerBroker(t)
	for expr, want := range map[string]string{"a\nTHEN": "2 5 ", `{"and":[{"event":"a"},{"or":1}]}`: "0 0 /and/1/or"} {
		_, err := c.PutTrigger(t.Context(), "t", client.TriggerSpec{Expr: expr})
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Outcome != client.OutcomeRejected || fmt.Sprintf("%d %d %s", e.Line, e.Column, e.Pointer) != want {
			t.Errorf("%q: %+v", expr, err)
		}
	}
	check.ErrorIs(t, check.Err(realBroker(t).Triggers(t.Context())), client.ErrTriggersOff)
}

// selectFirings finds the only firing of trigger ab with filters, and in counts.
func selectFirings(t *testing.T, c *client.Client, one client.Firing) {
	t.Helper()
	ctx := t.Context()
	for want, q := range map[string]client.FiringQuery{
		one.ID: {Entity: "ü/1", Newest: true, Before: one.Seq + 1},
		"":     {Entity: "ü/1", State: "dead", Newest: true},
	} {
		got, next, err := c.Firings(ctx, q)
		if err != nil || next != 0 || len(got) != min(len(want), 1) || len(got) > 0 && got[0].ID != want {
			t.Errorf("%+v: %+v, %d, %v", q, got, next, err)
		}
	}
	if x, err := c.CountedTrigger(ctx, "ab"); err != nil || x.Firings.Week != 1 || x.Firings.Last == nil || !x.Firings.Last.Equal(one.At) {
		t.Errorf("%+v, %v", x.Firings, err)
	}
}
