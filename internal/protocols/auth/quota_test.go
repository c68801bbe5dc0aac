package auth_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// limit sets the quota of a principal.
func (w *world) limit(q access.Quota) {
	w.t.Helper()
	must.NoError(w.t, w.a.ChangeQuota(w.t.Context(), q.Principal, func(to *access.Quota) error { *to = q; return nil }))
}

// limited creates a token with a quota and returns its identity.
func (w *world) limited(q access.Quota) *auth.Identity {
	w.t.Helper()
	w.wait(time.Minute) // the broker is not new
	i := w.login(w.create(auth.TokenSpec{ID: q.Principal}))
	w.limit(q)
	return i
}

func (w *world) begins(i *auth.Identity, k auth.Kind, n int64, want time.Duration) {
	w.t.Helper()
	check.Equalf(w.t, i.Meter().Begin(k, n), want, "a request of %d %s waits", n, k)
}

func TestQuotaOfProducedBytes(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", ProduceBytes: 1000})
	w.begins(i, auth.Produced, 400, 0) // 0.4 of the burst of a second
	w.begins(i, auth.Produced, 3000, 0)
	w.begins(i, auth.Produced, 1, 2400*time.Millisecond)
	w.begins(i, auth.Fetched, 1, 0)
	w.begins(i, auth.Requests, 1, 0)
	w.wait(2399 * time.Millisecond)
	w.begins(i, auth.Produced, 1, time.Millisecond)
	w.wait(time.Millisecond)
	w.begins(i, auth.Produced, 500, 0)
	w.begins(i, auth.Produced, 1, 500*time.Millisecond)
	w.wait(time.Hour) // the burst is that of a second, however long the principal was idle
	w.begins(i, auth.Produced, 1000, 0)
	w.begins(i, auth.Produced, 100, 0)
	w.begins(i, auth.Produced, 1, 100*time.Millisecond)
}

func TestQuotaOfFetchedBytesIsChargedAfterwards(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", FetchBytes: 100})
	w.begins(i, auth.Fetched, 0, 0)
	i.Meter().Use(auth.Fetched, 300)
	i.Meter().Use(auth.Fetched, 100)
	e := i.Meter().Throttle(auth.Fetched)
	if e == nil || *e != (auth.QuotaError{Kind: auth.Fetched, Limit: 100, Wait: 3 * time.Second}) || !errors.Is(e, auth.ErrQuota) {
		t.Fatalf("throttled by %v", e)
	}
	if want := "quota of 100 fetched bytes per second exceeded: retry in 3s"; e.Error() != want {
		t.Errorf("error %q, want %q", e, want)
	}
	if e := i.Meter().Throttle(auth.Produced); e != nil {
		t.Errorf("a write is throttled: %v", e)
	}
}

func TestQuotaOfRequestsHoldsForEveryKind(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", Requests: 2, ProduceBytes: 1000})
	for _, k := range []auth.Kind{auth.Requests, auth.Produced, auth.Fetched} {
		w.begins(i, k, 0, 0)
	}
	for _, k := range []auth.Kind{auth.Requests, auth.Produced, auth.Fetched} {
		w.begins(i, k, 0, 500*time.Millisecond)
	}
	if e := i.Meter().Throttle(auth.Produced); e == nil || e.Kind != auth.Requests {
		t.Errorf("throttled by %v, want the requests", e)
	}
	w.wait(500 * time.Millisecond)
	w.begins(i, auth.Produced, 3000, 0)
	w.begins(i, auth.Produced, 1, 2*time.Second) // the refused requests did not count
	w.wait(500 * time.Millisecond)
	w.begins(i, auth.Requests, 0, 0)
}

func TestDebtOfOneRequestIsBounded(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", ProduceBytes: 1, FetchBytes: access.RateMax})
	w.begins(i, auth.Produced, 1<<40, 0)
	w.begins(i, auth.Produced, 1, auth.RequestDebtMax-time.Second)
	i.Meter().Use(auth.Fetched, access.RateMax)
	if e := i.Meter().Throttle(auth.Fetched); e != nil {
		t.Errorf("a burst of the highest limit is throttled: %v", e)
	}
}

func TestMeterIsSharedByTheConnectionsOfAPrincipal(t *testing.T) {
	w := newWorld(t)
	token := w.create(auth.TokenSpec{ID: "shop"})
	other := w.login(w.create(auth.TokenSpec{ID: "billing"}))
	w.limit(access.Quota{Principal: access.Any, ProduceBytes: 1000})
	i := w.login(token)
	w.begins(i, auth.Produced, 2000, 0)
	again := must.Get(w.a.Key(t.Context(), token, "192.0.2.77:5"))(t)
	w.begins(again, auth.Produced, 1, time.Second)
	w.begins(other, auth.Produced, 2000, 0) // a principal with the default quota has its own meter
	if w.a.Root().Meter() != nil {
		t.Error("the root key has a quota")
	}
}

func TestChangedQuotaActsAtItsCommit(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", ProduceBytes: 1000})
	w.begins(i, auth.Produced, 5000, 0)
	w.limit(access.Quota{Principal: "other", Requests: 1})
	w.begins(i, auth.Produced, 1, 4*time.Second) // the change of another quota leaves the debt
	changed := i.Changed()
	w.limit(access.Quota{Principal: "shop"})
	if i.Meter() != nil || w.a.CheckQuota("shop", func(q *access.Quota) error { return errors.Join(q.Check()) }) == nil {
		t.Error("the quota is still there after its removal")
	}
	<-changed
	w.limit(access.Quota{Principal: access.Any, Requests: 1})
	if got := i.Meter().Limit(auth.Requests); got != 1 {
		t.Errorf("limit %d after the default was set", got)
	}
	w.limit(access.Quota{Principal: "shop", FetchBytes: 9})
	if m := i.Meter(); m.Limit(auth.Fetched) != 9 || m.Limit(auth.Requests) != 0 {
		t.Errorf("an own quota does not replace the default: %d, %d", m.Limit(auth.Fetched), m.Limit(auth.Requests))
	}
}

func TestRevokedTokenHasNoQuota(t *testing.T) {
	w := newWorld(t)
	w.limited(access.Quota{Principal: "shop", Requests: 1})
	must.NoError(t, w.a.RevokeToken(t.Context(), "shop"))
	if q := w.b.Access().Quotas(); len(q) != 0 {
		t.Errorf("quotas after the revocation: %+v", q)
	}
}

func TestRefusedQuotas(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		q    access.Quota
		want string
	}{
		{access.Quota{Principal: "seb", Requests: 1}, "the root key has no quota"},
		{access.Quota{Principal: "a b", Requests: 1}, "want an ID"},
		{access.Quota{Principal: "shop", Requests: access.RateMax + 1}, "the highest is"},
	} {
		set := func(q *access.Quota) error { *q = c.q; return nil }
		var invalid *state.InvalidError
		for _, err := range []error{w.a.ChangeQuota(t.Context(), c.q.Principal, set), w.a.CheckQuota(c.q.Principal, set)} {
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.q, err, c.want)
			}
		}
	}
	check.Equalf(t, w.b.Access().Version, 0, "changes are stored")
}

func TestQuotaNeedsTheLevel(t *testing.T) {
	w := &world{t: t, store: objstore.NewMemory(), now: time.Now()}
	must.Get(forged.OldBucket(t.Context(), w.store))(t)
	w.b, w.a = w.open(rootKey, false)
	set := func(q *access.Quota) error { q.Requests = 1; return nil }
	var level *state.LevelError
	if err := w.a.ChangeQuota(t.Context(), "shop", set); !errors.As(err, &level) || level.Needs != state.LevelSecrets {
		t.Errorf("a quota at level 1: %v", err)
	}
	if err := w.a.CheckQuota("shop", set); !errors.As(err, &level) {
		t.Errorf("the check of a quota at level 1: %v", err)
	}
}

// TestIdleMetersAreForgotten checks that the meters do not grow with the principals that ever were
// active, and that a forgotten principal is limited again.
func TestIdleMetersAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.limit(access.Quota{Principal: access.Any, Requests: 1})
	i, busy := w.login(w.create(auth.TokenSpec{ID: "idle"})), w.login(w.create(auth.TokenSpec{ID: "busy"}))
	before, debtor := i.Meter(), busy.Meter()
	var others []*auth.Identity
	var meters []*auth.Meter
	for n := range 2000 {
		others = append(others, w.client(n))
		meters = append(meters, others[n].Meter())
		busy.Meter().Use(auth.Requests, 100)
	}
	kept := 0
	for n, of := range slices.Backward(others) {
		if of.Meter() == meters[n] {
			kept++
		}
	}
	if kept == 0 || kept > 1024 {
		t.Errorf("%d meters, of which one is in use", kept)
	}
	check.Equalf(t, busy.Meter(), debtor, "a meter with debt was forgotten")
	if after := i.Meter(); after == before || after.Limit(auth.Requests) != 1 {
		t.Error("the meter of an idle principal was not forgotten, or not made again")
	}
	before.Begin(auth.Requests, 0)
	w.begins(i, auth.Requests, 0, 0)
	w.begins(i, auth.Requests, 0, 0)
	w.begins(i, auth.Requests, 0, time.Second)
}

// TestMetersAreBounded checks the memory of meters whose principals all have debt.
func TestMetersAreBounded(t *testing.T) {
	w := newWorld(t)
	w.limit(access.Quota{Principal: access.Any, Requests: 1})
	before := sebtest.Heap()
	for n := range 60_000 {
		w.client(n).Meter().Use(auth.Requests, 100)
	}
	if held := sebtest.Heap() - before; held > 6<<20 {
		t.Errorf("the meters take %d bytes, want at most 6 MiB", held)
	}
}

// client is a client that another broker has authenticated by its certificate.
func (w *world) client(n int) *auth.Identity {
	return w.a.OnBehalf(fmt.Sprint("p", n), 0, w.clock().Add(time.Hour), "192.0.2.1:1")
}

// TestConcurrentUse checks that no use is lost or counted twice.
func TestConcurrentUse(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", Requests: 1000, ProduceBytes: 1000, FetchBytes: 1000})
	var begun, used sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for range 8 {
		begun.Go(func() {
			for range 500 {
				if i.Meter().Begin(auth.Produced, 1) == 0 {
					mu.Lock()
					count++
					mu.Unlock()
				}
			}
		})
		used.Go(func() {
			for range 1000 {
				i.Meter().Use(auth.Fetched, 1)
			}
		})
	}
	begun.Wait()
	used.Wait()
	if count != 1001 { // those of the burst, and the one that makes the debt
		t.Errorf("%d of 4000 requests began, want 1001", count)
	}
	w.begins(i, auth.Produced, 0, time.Millisecond)
	if e := i.Meter().Throttle(auth.Fetched); e == nil || e.Wait != 7*time.Second {
		t.Errorf("the debt is %v, want 7s", e)
	}
}

func TestMeterAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	i := w.limited(access.Quota{Principal: "shop", Requests: 1 << 30, ProduceBytes: 1 << 30, FetchBytes: 1 << 30})
	if n := testing.AllocsPerRun(100, func() {
		i.Meter().Begin(auth.Produced, 10)
		i.Meter().Use(auth.Fetched, 10)
		i.Meter().Throttle(auth.Fetched)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
