package httpapi

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// checked starts a check and waits for its end.
func (s *server) checked(t *testing.T) (out api.Fsck) {
	t.Helper()
	if s.must(202, s.send("POST", "/fsck", ""), &out); out.State == "none" || out.StartedAt.IsZero() {
		t.Errorf("%+v", out)
	}
	sebtest.Eventually(t, "the check has ended", func() bool {
		out = api.Fsck{}
		s.must(200, s.get("/fsck"), &out)
		return out.State != "running"
	})
	return out
}

// TestFsckFindsDamage: a check beside the broker finds an object that lost a byte, and names its
// records. The broker stays at work.
func TestFsckFindsDamage(t *testing.T) {
	store := objstore.NewMemory()
	s := start(t, func(c *setup) { c.store = store })
	if a := s.get("/fsck"); a.status != 200 || string(a.body) != `{"state":"none","listed":{"objects":0,"bytes":0},"checked":{"objects":0,"bytes":0},"damages":0,"kinds":{},"findings":[]}` {
		t.Errorf("%s", a)
	}
	newTopic(s, "t", 1)
	for i := range 5 {
		s.mustPost("topic-name=t", api.TextPlain, fmt.Sprint("value ", i))
	}
	out := s.checked(t)
	if out.State != "done" || out.Damages != 0 || out.Summary == nil || out.Summary.Records != 5 || out.Summary.Topics != 1 || out.EndedAt.Before(out.StartedAt) ||
		out.Listed.Objects < 6 || out.Checked.Objects < 6 || out.Checked.Bytes == 0 || out.Error != "" {
		t.Errorf("%+v", out)
	}
	damage(t, store, "value 3")
	out = s.checked(t)
	if out.State != "done" || out.Damages != 1 || out.Kinds["damage: corrupt batches"] != 1 || len(out.Findings) != 1 {
		t.Fatalf("%+v", out)
	}
	f := out.Findings[0]
	if f.Severity != "damage" || f.Key == "" || f.Text == "" || len(f.Lost) != 1 || f.Lost[0] != (api.LostRecords{Topic: "t", From: 3, To: 4}) {
		t.Errorf("%+v", f)
	}
	if out.Estimate != nil {
		t.Errorf("an estimate without the parameter: %+v", out.Estimate)
	}
	s.must(200, s.get("/fsck?estimate=true"), &out)
	if out.Estimate == nil || out.Estimate.Objects < out.Listed.Objects || out.Estimate.Bytes == 0 {
		t.Errorf("%+v", out)
	}
	if p := s.get("/fsck?estimate=perhaps").problem(t); p.Code != api.BadRequest || p.Field != "estimate" {
		t.Errorf("%+v", p)
	}
}

// damage changes the last byte of the object with a text.
func damage(t *testing.T, store objstore.Store, text string) {
	t.Helper()
	ctx := t.Context()
	list, _ := must.Get2(store.List(ctx, objstore.ListOptions{}))(t)
	for _, e := range list {
		o := must.Get(store.Get(ctx, e.Key, objstore.Whole))(t)
		b, err := io.ReadAll(o.Body)
		_ = o.Body.Close()
		must.NoError(t, err)
		if !strings.Contains(string(b), text) {
			continue
		}
		b[len(b)-1] ^= 4
		must.NoError(t, store.Delete(ctx, e.Key))
		must.NoError(t, store.Put(ctx, e.Key, objstore.NewBody(b)))
		return
	}
	t.Fatalf("no object has %q", text)
}

// TestFsckIsCancelled: one check runs at a time, and it ends when it is cancelled.
func TestFsckIsCancelled(t *testing.T) {
	store := storetest.NewFaulty(objstore.NewMemory(), 1, storetest.Faults{})
	s := start(t, func(c *setup) { c.store = store })
	newTopic(s, "t", 1)
	store.SetFaults(storetest.Faults{Get: storetest.Rates{storetest.Hang: 1}})
	defer store.SetFaults(storetest.Faults{})
	var out api.Fsck
	s.must(202, s.send("POST", "/fsck", ""), &out)
	if p := s.send("POST", "/fsck", "").problem(t); p.Code != api.FsckRunning || !strings.Contains(p.Detail, "objects are checked") {
		t.Errorf("a second one: %+v", p)
	}
	s.must(200, s.send("DELETE", "/fsck", ""), &out)
	if out.State != "cancelled" || out.EndedAt.IsZero() || out.Summary != nil || out.Error != "" {
		t.Errorf("%+v", out)
	}
	s.must(200, s.send("DELETE", "/fsck", ""), &out) // the last one again
	check.Equalf(t, out.State, "cancelled", "%+v", out)
	s.must(202, s.send("POST", "/fsck", ""), &out)
	s.fsck.Close() // as at the stop of the broker
	if s.must(200, s.get("/fsck"), &out); out.State != "cancelled" {
		t.Errorf("%+v", out)
	}
	if p := s.send("POST", "/fsck", "").problem(t); p.Code != api.ShuttingDown {
		t.Errorf("%+v", p)
	}
}

// TestFsckNeedsMemory: a check that would exceed its part of the memory is refused with the limit.
func TestFsckNeedsMemory(t *testing.T) {
	s := start(t, func(c *setup) { c.limit = 16 << 20 })
	for i := 0; ; i++ {
		if held, _ := s.b.StateMemory(); held.Sum() > 50<<10 {
			break
		}
		newTopic(s, fmt.Sprintf("%d-%s", i, strings.Repeat("t", 200)), 100)
	}
	p := s.send("POST", "/fsck", "").problem(t)
	if p.Code != api.TooLarge || p.Limit == nil || p.Given == nil || *p.Given <= *p.Limit || !strings.Contains(p.Detail, "raise --memory-limit") {
		t.Errorf("%+v", p)
	}
}

// TestFsckRights: a client that may describe the cluster sees a check, and cannot start or cancel
// it.
func TestFsckRights(t *testing.T) {
	s := start(t)
	key := s.token("client", time.Time{})
	s.allow("client", permit(access.Describe, access.Cluster, access.ClusterName))
	for method, status := range map[string]int{"GET": 200, "POST": 403, "DELETE": 403} {
		if a := s.matrix(method, "/fsck", "", "", authorization(key)); a.status != status {
			t.Errorf("%s: %s", method, a)
		}
	}
	check.NoError(t, s.fsck.Cancel(context.Background()))
}
