package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rootKey = "root-key-of-the-test"

// world is a broker with an Authority whose clock the test moves.
type world struct {
	t      testing.TB
	store  objstore.Store
	b      *broker.Broker
	a      *auth.Authority
	looked func()     // called at each look at the clock, if set
	mu     sync.Mutex // guards now
	now    time.Time
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: objstore.NewMemory(), now: time.Unix(1_800_000_000, 0)}
	w.b, w.a = w.open(rootKey, false)
	return w
}

func (w *world) open(key string, readOnly bool) (*broker.Broker, *auth.Authority) {
	w.t.Helper()
	b := must.Get(broker.Open(w.t.Context(), broker.Options{
		Options:    log.Options{Store: w.store, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond, DeferWait: time.Millisecond}, Core: core.Config{ReadOnly: readOnly}},
		AutoCreate: true,
	}))(w.t)
	a := auth.New(auth.Options{Broker: b, RootKey: key, Internal: []string{"firings"}, Now: w.clock})
	w.t.Cleanup(func() {
		a.Close()
		_ = b.Close(context.Background()) // a fenced broker reports that
	})
	return b, a
}

func (w *world) clock() time.Time {
	if w.looked != nil {
		w.looked()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func allow(t access.ResourceType, name string, o access.Operation) access.Rule {
	return access.Rule{Resource: t, Name: name, Operation: o, Host: access.Any}
}

// create creates a token with the root key.
func (w *world) create(spec auth.TokenSpec) string {
	w.t.Helper()
	_, token := must.Get2(w.a.CreateToken(w.t.Context(), w.a.Root(), spec))(w.t)
	return token
}

func (w *world) login(token string) *auth.Identity {
	w.t.Helper()
	i := must.Get(w.a.Key(w.t.Context(), token, "192.0.2.1:5"))(w.t)
	return i
}

func (w *world) refused(token string, want error) {
	w.t.Helper()
	if _, err := w.a.Key(w.t.Context(), token, "192.0.2.1:5"); !errors.Is(err, auth.ErrUnauthenticated) || !errors.Is(err, want) {
		w.t.Errorf("login with %.12s...: %v, want %v", token, err, want)
	}
}

// appendAs appends a record with the authority of an identity as of now.
func (w *world) appendAs(i *auth.Identity, topic string) func() error {
	w.t.Helper()
	verify, ok := i.Check(access.Write, access.Topic, topic)
	if !ok {
		w.t.Fatalf("%s may not write to %s", i.Name(), topic)
	}
	return func() error { return w.append(topic, verify) }
}

// append appends a record.
func (w *world) append(topic string, verify *access.Check) error {
	w.t.Helper()
	a := brokertest.Append(topic, 0, recordtest.Values("v")...)
	a.Check = verify
	return brokertest.Try(w.t.Context(), w.b, a).Err
}

func TestLifeOfAToken(t *testing.T) {
	w := newWorld(t)
	token := w.create(auth.TokenSpec{ID: "orders", Rules: []access.Rule{allow(access.Topic, "orders", access.Write)}})
	i := w.login(token)
	if i.Name() != "orders" || !i.Allow(access.Write, access.Topic, "orders") || i.Allow(access.Read, access.Topic, "orders") {
		t.Errorf("%s: write %v, read %v", i.Name(), i.Allow(access.Write, access.Topic, "orders"), i.Allow(access.Read, access.Topic, "orders"))
	}
	w.refused(token[:len(token)-1], access.ErrMistyped)
	w.refused(strings.Replace(token, "seb_o", "seb_a", 1), access.ErrMistyped)
	w.refused(access.FormatToken("orders", strings.Repeat("a", 32)), auth.ErrUnauthenticated)

	_, second := must.Get2(w.a.RotateToken(t.Context(), w.a.Root(), "orders", time.Hour))(t)
	w.login(token)
	w.login(second)
	_, third := must.Get2(w.a.RotateToken(t.Context(), w.a.Root(), "orders", time.Hour))(t)
	w.refused(token, auth.ErrUnauthenticated) // at most two tokens
	if i.Valid() {
		t.Error("the session of the oldest token is valid after two rotations")
	}
	session := w.login(second)
	w.wait(time.Hour)
	w.refused(second, auth.ErrExpired)
	if session.Valid() {
		t.Error("the session of an expired token is valid")
	}
	must.NoError(t, w.a.RevokeToken(t.Context(), "orders"))
	w.refused(third, auth.ErrUnauthenticated)
	if left := w.b.Access().RulesOf("orders"); len(left) > 0 {
		t.Errorf("rules of the revoked token: %v", left)
	}
	check.ErrorIsf(t, w.a.RevokeToken(t.Context(), "orders"), auth.ErrUnknownToken, "second revocation")
}

// TestNothingIsStoredAfterARevocation: an append that was allowed before a revocation, and reaches
// the log after it, is refused.
// TestOnBehalf: a client that another broker has authenticated has the rights of its principal, and
// none once its secret is revoked. Without a secret it is one with a certificate.
func TestOnBehalf(t *testing.T) {
	w := newWorld(t)
	must.Get(w.b.CreateTopic(t.Context(), "orders", broker.TopicSpec{}))(t)
	token := w.create(auth.TokenSpec{ID: "ann", Rules: []access.Rule{allow(access.Topic, "orders", access.Write)}})
	origin := w.login(token).Origin()
	ann := w.a.OnBehalf(origin.Principal, origin.Secret, time.Time{}, "192.0.2.1:5")
	certified := w.a.OnBehalf("ann", 0, w.a.Now().Add(time.Minute), "192.0.2.1:5")
	for _, i := range []*auth.Identity{ann, certified} {
		if i.Root() || i.Name() != "ann" || i.Err() != nil || i.Allow(access.Write, access.Topic, "other") {
			t.Errorf("%s: %v", i.Name(), i.Err())
		}
		check.NoError(t, w.appendAs(i, "orders")())
	}
	if !w.a.OnBehalf(access.RootID, 0, time.Time{}, "").Root() || w.a.OnBehalf("ann", origin.Secret+1, time.Time{}, "").Valid() {
		t.Error("the root key, or a secret that does not exist")
	}
	must.NoError(t, w.a.RevokeToken(t.Context(), "ann"))
	if ann.Allow(access.Write, access.Topic, "orders") || !errors.Is(ann.Err(), auth.ErrRevoked) {
		t.Errorf("after the revocation: %v", ann.Err())
	}
	if certified.Allow(access.Write, access.Topic, "orders") {
		t.Error("a principal without rules may write")
	}
}

func TestNothingIsStoredAfterARevocation(t *testing.T) {
	w := newWorld(t)
	rule := allow(access.Topic, "orders", access.Write)
	must.Get(w.b.CreateTopic(t.Context(), "orders", broker.TopicSpec{}))(t)
	for name, revoke := range map[string]func(id string) error{
		"revoked": func(id string) error { return w.a.RevokeToken(t.Context(), id) },
		"rotated": func(id string) error {
			_, _, err := w.a.RotateToken(t.Context(), w.a.Root(), id, 0)
			return err
		},
		"rule removed": func(id string) error {
			r := rule
			r.Principal = id
			return w.a.ChangeRules(t.Context(), w.a.Root(), nil, []access.Rule{r})
		},
		"denied": func(id string) error {
			r := rule
			r.Principal, r.Deny = id, true
			return w.a.ChangeRules(t.Context(), w.a.Root(), []access.Rule{r}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, token := must.Get2(w.a.CreateToken(t.Context(), w.a.Root(), auth.TokenSpec{Rules: []access.Rule{rule}}))(t)
			i := w.login(token)
			must.NoErrorf(t, w.appendAs(i, "orders")(), "append before")
			late := w.appendAs(i, "orders")
			must.NoError(t, revoke(p.ID))
			check.ErrorIsf(t, late(), state.ErrUnauthorized, "append after")
			if _, ok := i.Check(access.Write, access.Topic, "orders"); ok {
				t.Error("a new append is allowed")
			}
		})
	}
}

func TestATokenGrantsOnlyWhatItHas(t *testing.T) {
	w := newWorld(t)
	cluster := allow(access.Cluster, access.ClusterName, access.All)
	orders := access.Rule{Resource: access.Topic, Name: "orders.", Prefix: true, Operation: access.All, Host: access.Any}
	issuer := w.login(w.create(auth.TokenSpec{ID: "issuer", Rules: []access.Rule{cluster, orders}, Expires: w.clock().Add(time.Hour)}))
	w.create(auth.TokenSpec{ID: "strong", Rules: []access.Rule{allow(access.Topic, "*", access.Read)}})
	read := func(name string) access.Rule { return allow(access.Topic, name, access.Read) }
	of := func(r access.Rule, principal string) access.Rule { r.Principal = principal; return r }
	create := func(spec auth.TokenSpec) error {
		_, _, err := w.a.CreateToken(t.Context(), issuer, spec)
		return err
	}
	rules := func(put, remove []access.Rule) error { return w.a.ChangeRules(t.Context(), issuer, put, remove) }
	deny := of(read("*"), "*")
	deny.Deny = true
	for _, c := range []struct {
		name string
		do   func() error
		want error
	}{
		{"a token with a part of its rights", func() error { return create(auth.TokenSpec{Rules: []access.Rule{read("orders.a")}}) }, nil},
		{"a token with more rights", func() error { return create(auth.TokenSpec{Rules: []access.Rule{read("payments")}}) }, auth.ErrBeyondIssuer},
		{"a token that ends later", func() error { return create(auth.TokenSpec{Expires: w.clock().Add(2 * time.Hour)}) }, state.ErrInvalid},
		{"a rule for another principal", func() error { return rules([]access.Rule{of(read("orders.b"), "bob")}, nil) }, nil},
		{"a wider rule for another principal", func() error { return rules([]access.Rule{of(read("*"), "bob")}, nil) }, auth.ErrBeyondIssuer},
		{"a denial", func() error { return rules([]access.Rule{deny}, nil) }, nil},
		{"removing a denial", func() error { return rules(nil, []access.Rule{deny}) }, auth.ErrBeyondIssuer},
		{"the secret of a stronger principal", func() error {
			_, _, err := w.a.RotateToken(t.Context(), issuer, "strong", 0)
			return err
		}, auth.ErrBeyondIssuer},
		{"the password of a stronger principal", func() error {
			return w.a.SetPassword(t.Context(), issuer, auth.Password{
				User: "strong", Mechanism: access.SCRAMSHA256, Iterations: 4096, Salt: []byte("salt"), Salted: make([]byte, 32),
			})
		}, auth.ErrBeyondIssuer},
	} {
		t.Run(c.name, func(t *testing.T) { check.ErrorIs(t, c.do(), c.want) })
	}
	p, _, err := w.a.CreateToken(t.Context(), issuer, auth.TokenSpec{})
	if err != nil || p.Expires != issuer.Expires().UnixMicro() || p.Issuer != "issuer" {
		t.Errorf("a token without an end: %+v, %v; want that of its issuer", p, err)
	}
}

// TestOldRulesOfANewName: rules may be older than the principal that they name.
func TestOldRulesOfANewName(t *testing.T) {
	w := newWorld(t)
	rule := allow(access.Topic, "payments", access.Read)
	rule.Principal = "future"
	must.NoError(t, w.a.ChangeRules(t.Context(), w.a.Root(), []access.Rule{rule}, nil))
	issuer := w.login(w.create(auth.TokenSpec{Rules: []access.Rule{allow(access.Cluster, access.ClusterName, access.All)}}))
	if _, _, err := w.a.CreateToken(t.Context(), issuer, auth.TokenSpec{ID: "future"}); !errors.Is(err, auth.ErrBeyondIssuer) {
		t.Errorf("a token with rules that its issuer lacks: %v", err)
	}
	if i := w.login(w.create(auth.TokenSpec{ID: "future"})); !i.Allow(access.Read, access.Topic, "payments") {
		t.Error("the rule does not apply to the new principal")
	}
}

func TestInvalidRules(t *testing.T) {
	w := newWorld(t)
	rule := access.Rule{Principal: "ann", Resource: access.Topic, Name: "a", Operation: access.Read}
	for name, change := range map[string]func(*access.Rule){
		"a topic that cannot exist":   func(r *access.Rule) { r.Name = "a/b" },
		"a prefix *":                  func(r *access.Rule) { r.Name, r.Prefix = "*", true },
		"an empty prefix":             func(r *access.Rule) { r.Name, r.Prefix = "", true },
		"an unknown resource":         func(r *access.Rule) { r.Resource = 99 },
		"an operation of another one": func(r *access.Rule) { r.Operation = access.ClusterAction },
		"a host name":                 func(r *access.Rule) { r.Host = "example.com" },
		"the root key":                func(r *access.Rule) { r.Principal = access.RootID },
		"another cluster":             func(r *access.Rule) { r.Resource, r.Name = access.Cluster, "other" },
		"a group that cannot exist":   func(r *access.Rule) { r.Resource, r.Name = access.Group, strings.Repeat("g", 1000) },
	} {
		r := rule
		change(&r)
		check.ErrorIsf(t, w.a.ChangeRules(t.Context(), w.a.Root(), []access.Rule{r}, nil), state.ErrInvalid, "%s", name)
	}
	check.Equalf(t, len(w.b.Access().Rules()), 0, "rules are stored")
}

// TestPrincipalsSurviveALostDisk opens a second broker on the bucket, with another root key.
func TestPrincipalsSurviveALostDisk(t *testing.T) {
	w := newWorld(t)
	token := w.create(auth.TokenSpec{ID: "orders", Rules: []access.Rule{allow(access.Topic, "orders", access.Read)}})
	for i := range 40 { // more slots than between two snapshots
		must.Get(w.b.CreateTopic(t.Context(), fmt.Sprint("t", i), broker.TopicSpec{}))(t)
	}
	_, a := w.open("another-root-key", false)
	i, err := a.Key(t.Context(), token, "192.0.2.1:5")
	if err != nil || !i.Allow(access.Read, access.Topic, "orders") {
		t.Fatalf("token on the new broker: %v", err)
	}
	check.ErrorIsf(t, check.Err(a.Key(t.Context(), rootKey, "")), auth.ErrUnauthenticated, "the old root key")
	if i, err := a.Key(t.Context(), "another-root-key", ""); err != nil || !i.Root() {
		t.Errorf("the new root key: %v", err)
	}
}

// TestAFollowerLearnsOfATokenBeforeItRefusesIt: a second after a token or a user was made, a follower
// that has confirmed its state less than 5 s ago accepts it.
func TestAFollowerLearnsOfATokenBeforeItRefusesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.create(auth.TokenSpec{ID: "first"})
		_, follower := w.open(rootKey, true)
		must.Get(follower.Key(t.Context(), first, ""))(t)
		second := w.create(auth.TokenSpec{ID: "second"})
		time.Sleep(time.Second)
		check.NoErrorf(t, check.Err(follower.Key(t.Context(), second, "")), "a new token")
		third := w.create(auth.TokenSpec{ID: "third"})
		time.Sleep(time.Second)
		if i, err := follower.Password(t.Context(), "third", third, ""); err != nil || i.Name() != "third" {
			t.Errorf("a new user: %v", err)
		}
		_, rotated := must.Get2(w.a.RotateToken(t.Context(), w.a.Root(), "first", time.Hour))(t)
		time.Sleep(time.Second)
		check.NoErrorf(t, check.Err(follower.Key(t.Context(), rotated, "")), "a rotated token")
	})
}

// hanging is a store that does not answer while hangs is set.
type hanging struct {
	objstore.Store
	hangs atomic.Bool
}

func (h *hanging) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return objstore.Object{}, fmt.Errorf("%w: %w", objstore.ErrNoVerdict, ctx.Err())
	}
	return h.Store.Get(ctx, key, r)
}

// TestTheRootKeyNeedsNoStore: a follower whose store does not answer accepts the root key at once.
// Other keys get an error that is no refusal.
func TestTheRootKeyNeedsNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(auth.TokenSpec{ID: "orders"})
		store := &hanging{Store: w.store}
		w.store = store
		_, follower := w.open(rootKey, true)
		store.hangs.Store(true)
		time.Sleep(time.Minute) // the state is old
		began := time.Now()
		if i, err := follower.Key(t.Context(), rootKey, ""); err != nil || !i.Root() {
			t.Errorf("over HTTP: %v", err)
		}
		if i, err := follower.Password(t.Context(), "any name", rootKey, ""); err != nil || !i.Root() {
			t.Errorf("SASL PLAIN: %v", err)
		}
		if list, err := follower.Candidates(t.Context(), access.RootID, access.SCRAMSHA256); err != nil || len(list) != 1 {
			t.Errorf("SCRAM as %s: %d candidates, %v", access.RootID, len(list), err)
		}
		check.Equalf(t, time.Since(began), 0, "the logins took")
		for user, password := range map[string]string{"orders": rootKey, "another": "wrong"} {
			if _, err := follower.Password(t.Context(), user, password, ""); err == nil || errors.Is(err, auth.ErrUnauthenticated) {
				t.Errorf("password of %s: %v, want an error of the store", user, err)
			}
		}
	})
}

// TestAFollowerLearnsOfARevocation: a follower without readers does not look for commits by itself,
// but a login is judged by a state that is at most 5 s old.
func TestAFollowerLearnsOfARevocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.create(auth.TokenSpec{ID: "orders"})
		_, follower := w.open(rootKey, true)
		must.NoErrorf(t, check.Err(follower.Key(t.Context(), token, "")), "login at the follower")
		must.NoError(t, w.a.RevokeToken(t.Context(), "orders"))
		time.Sleep(5 * time.Second)
		check.ErrorIsf(t, check.Err(follower.Key(t.Context(), token, "")), auth.ErrUnauthenticated, "login 5 s after the revocation")
	})
}

func TestWatchedSessionsEnd(t *testing.T) {
	w := newWorld(t)
	spec := auth.TokenSpec{Rules: []access.Rule{allow(access.Topic, "a", access.Read)}}
	ended := func(i *auth.Identity) <-chan struct{} {
		done := make(chan struct{})
		stop := i.Watch(func() bool { return i.Allow(access.Read, access.Topic, "a") }, func() { close(done) })
		t.Cleanup(stop)
		return done
	}
	p, token := must.Get2(w.a.CreateToken(t.Context(), w.a.Root(), spec))(t)
	q, otherToken := must.Get2(w.a.CreateToken(t.Context(), w.a.Root(), spec))(t)
	first, other := ended(w.login(token)), ended(w.login(otherToken))
	must.NoError(t, w.a.RevokeToken(t.Context(), p.ID))
	<-first
	select {
	case <-other:
		t.Error("the session of another principal has ended")
	default:
	}
	r := spec.Rules[0]
	r.Principal = q.ID
	must.NoError(t, w.a.ChangeRules(t.Context(), w.a.Root(), nil, []access.Rule{r}))
	<-other
}

// TestPasswords: two users with the same password, as Kafka's tools set it.
func TestPasswords(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"ann", "bob_b@x"} {
		set := auth.Password{User: user, Mechanism: access.SCRAMSHA512, Iterations: 8192, Salt: []byte("salt of " + user)}
		set.Salted = auth.Salted(set.Mechanism, "secret", set.Salt, set.Iterations)
		must.NoError(t, w.a.SetPassword(t.Context(), w.a.Root(), set))
		i, err := w.a.Password(t.Context(), user, "secret", "192.0.2.1:5")
		if err != nil || i.Name() != user {
			t.Fatalf("login of %s: %v", user, err)
		}
		check.ErrorIsf(t, check.Err(w.a.Password(t.Context(), user, "Secret", "")), auth.ErrUnauthenticated, "wrong password")
		check.ErrorIsf(t, check.Err(w.a.Password(t.Context(), user, rootKey, "")), auth.ErrUnauthenticated, "the root key under the name of a user")
		must.NoError(t, w.a.DeletePassword(t.Context(), user, access.SCRAMSHA512))
		if i.Valid() || w.b.Access().Principal(user) != nil {
			t.Errorf("%s is still there", user)
		}
	}
	if i, err := w.a.Password(t.Context(), "any name", rootKey, ""); err != nil || !i.Root() {
		t.Errorf("the root key under another name: %v", err)
	}
}

// TestConcurrentChanges: changes that were planned from the same table do not undo each other.
func TestConcurrentChanges(t *testing.T) {
	w := newWorld(t)
	w.create(auth.TokenSpec{ID: "shared"})
	var group sync.WaitGroup
	changes := sebtest.Runs(8, 4)
	for n := range changes {
		group.Go(func() {
			r := allow(access.Topic, fmt.Sprint("t", n), access.Read)
			r.Principal = "shared"
			check.NoError(t, w.a.ChangeRules(t.Context(), w.a.Root(), []access.Rule{r}, nil))
			if _, _, err := w.a.RotateToken(t.Context(), w.a.Root(), "shared", time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if rules, tokens := w.b.Access().RulesOf("shared"), w.b.Access().Principal("shared").Secrets; len(rules) != changes || len(tokens) != access.TokensMax {
		t.Errorf("%d rules and %d tokens", len(rules), len(tokens))
	}
}
