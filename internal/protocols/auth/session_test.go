package auth_test

import (
	"errors"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestSessionsSurviveATakeover: a session of the old leader is valid at the new one, which has the
// same root key, and at a read-only broker. With another root key it is not.
func TestSessionsSurviveATakeover(t *testing.T) {
	w := newWorld(t)
	reader := w.login(w.create(auth.TokenSpec{ID: "reader", Rules: []access.Rule{allow(access.Topic, "t", access.Read)}}))
	for name, i := range map[string]*auth.Identity{access.RootID: w.a.Root(), "reader": reader} {
		s := must.Get(w.a.NewSession(i))(t)
		for _, c := range []struct {
			key      string
			readOnly bool
			valid    bool
		}{{rootKey, true, true}, {rootKey, false, true}, {rootKey + "x", false, false}} {
			_, a := w.open(c.key, c.readOnly)
			who, expires, err := a.Session(t.Context(), s.Cookie, s.Page, "127.0.0.1:1")
			switch {
			case c.valid && (err != nil || who.Name() != name || !expires.Equal(s.Expires)):
				t.Errorf("%s at %+v: %v %v %v", name, c, who, expires, err)
			case !c.valid && !errors.Is(err, auth.ErrUnauthenticated):
				t.Errorf("%s with another root key: %v", name, err)
			}
		}
	}
}

// TestASessionNamesItsSecret: a rotation ends the sessions of the old secret after the overlap, and
// a session of the new secret goes on.
func TestASessionNamesItsSecret(t *testing.T) {
	w := newWorld(t)
	session := func(i *auth.Identity) func() error {
		s := must.Get(w.a.NewSession(i))(t)
		return func() error {
			_, _, err := w.a.Session(t.Context(), s.Cookie, s.Page, "127.0.0.1:1")
			return err
		}
	}
	older := session(w.login(w.create(auth.TokenSpec{ID: "app"})))
	_, token := must.Get2(w.a.RotateToken(t.Context(), w.a.Root(), "app", auth.SessionLife/2))(t)
	newer := session(w.login(token))
	check.NoErrorf(t, errors.Join(older(), newer()), "within the overlap")
	w.wait(auth.SessionLife/2 + 1)
	check.ErrorIsf(t, older(), auth.ErrUnauthenticated, "the old secret after the overlap")
	check.NoErrorf(t, newer(), "the new secret")
}
