package auth_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

// TestOneTableDecides: a secret is replaced while a decision about it runs, at each point where the
// decision looks at the clock. The rules of the principal stay. If the decision allows the request,
// the log must refuse it.
func TestOneTableDecides(t *testing.T) {
	w := newWorld(t)
	must.Get(w.b.CreateTopic(t.Context(), "orders", broker.TopicSpec{}))(t)
	spec := auth.TokenSpec{ID: "writer", Expires: w.clock().Add(time.Hour), Rules: []access.Rule{allow(access.Topic, "orders", access.Write)}}
	token, replaced := w.create(spec), 0
	for at := range 3 {
		i, looks, rotated := w.login(token), 0, false
		w.looked = func() {
			if looks++; looks == at+1 {
				w.looked, rotated = nil, true
				var err error
				if _, token, err = w.a.RotateToken(t.Context(), w.a.Root(), "writer", 0); err != nil {
					t.Error(err)
				}
			}
		}
		verify, ok := i.Check(access.Write, access.Topic, "orders")
		w.looked = nil
		if !rotated {
			continue
		}
		replaced++
		if ok {
			check.ErrorIsf(t, w.append("orders", verify), state.ErrUnauthorized, "append with a secret that was replaced at look %d at the clock", at+1)
		}
	}
	if replaced == 0 {
		t.Error("the decision did not look at the clock: the test examines nothing")
	}
}

// TestAReplacedTokenCannotProlongItself: within the overlap of a rotation the older token, which may
// have leaked, gets no secret that lives longer than it does.
func TestAReplacedTokenCannotProlongItself(t *testing.T) {
	w := newWorld(t)
	cluster := allow(access.Cluster, access.ClusterName, access.All)
	older := w.login(w.create(auth.TokenSpec{ID: "issuer", Rules: []access.Rule{cluster}}))
	_, token := must.Get2(w.a.RotateToken(t.Context(), older, "issuer", time.Hour))(t)
	end := w.clock().Add(time.Hour)
	newer := w.login(token)
	rotate := func(by *auth.Identity) error {
		_, _, err := w.a.RotateToken(t.Context(), by, "issuer", 0)
		return err
	}
	password := auth.Password{User: "issuer", Mechanism: access.SCRAMSHA256, Iterations: 4096, Salt: []byte("salt"), Salted: make([]byte, 32)}
	check.ErrorIsf(t, rotate(older), state.ErrUnauthorized, "rotation by the older token")
	check.ErrorIsf(t, w.a.SetPassword(t.Context(), older, password), state.ErrUnauthorized, "password set by the older token")
	p, _, err := w.a.CreateToken(t.Context(), older, auth.TokenSpec{})
	if err != nil || p.Expires != end.UnixMicro() {
		t.Errorf("token by the older token: %v, ends at %d, want %d", err, p.Expires, end.UnixMicro())
	}
	if _, _, err := w.a.CreateToken(t.Context(), older, auth.TokenSpec{Expires: end.Add(time.Second)}); !errors.Is(err, state.ErrInvalid) {
		t.Errorf("token by the older token that ends later: %v", err)
	}
	check.NoErrorf(t, w.a.SetPassword(t.Context(), newer, password), "password set by the newer token")
	check.NoErrorf(t, rotate(newer), "rotation by the newer token")
}

// TestWatchEndsWithTheOverlap: a session of the older token ends with the overlap of a rotation,
// without another change of rules.
func TestWatchEndsWithTheOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		i := w.login(w.create(auth.TokenSpec{ID: "reader"}))
		ended := make(chan time.Time, 1)
		defer i.Watch(nil, func() { ended <- time.Now() })()
		began := time.Now()
		must.Get2(w.a.RotateToken(t.Context(), w.a.Root(), "reader", time.Hour))(t)
		select {
		case at := <-ended:
			check.Equalf(t, at.Sub(began).Round(time.Minute), time.Hour, "the session ended after")
		case <-time.After(2 * time.Hour):
			t.Error("the session has not ended")
		}
		w.wait(time.Hour)
		check.ErrorIsf(t, i.Err(), auth.ErrExpired, "the reason")
	})
}

// TestSessionsOfAFollowerEnd: a follower whose clients read old records has no reason to look for new
// commits. Its sessions still end soon after a revocation, and when the follower cannot learn of one.
func TestSessionsOfAFollowerEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(w *world, store *storetest.Faulty)
		within time.Duration
	}{
		"revoked": {func(w *world, _ *storetest.Faulty) { check.NoError(w.t, w.a.RevokeToken(w.t.Context(), "reader")) }, 5 * time.Second},
		"store unavailable": {func(_ *world, store *storetest.Faulty) {
			store.SetFaults(storetest.All(storetest.Rates{storetest.Before: 1}))
		}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				token := w.create(auth.TokenSpec{ID: "reader"})
				store := storetest.NewFaulty(w.store, 1, storetest.Faults{})
				w.store = store
				_, follower := w.open(rootKey, true)
				i := must.Get(follower.Key(t.Context(), token, ""))(t)
				ended := make(chan struct{})
				defer i.Watch(nil, func() { close(ended) })()
				time.Sleep(time.Minute)
				select {
				case <-ended:
					t.Fatal("the session ended without a reason")
				default:
				}
				c.end(w, store)
				select {
				case <-ended:
				case <-time.After(c.within):
					t.Errorf("the session has not ended after %s", c.within)
				}
			})
		})
	}
}
