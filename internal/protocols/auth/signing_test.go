package auth_test

import (
	"context"
	"testing"

	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestSigningKeyFollowsTheSecretsKey: after a rewrap a broker that has only the new key verifies the same
// secrets, and one without it none.
func TestSigningKeyFollowsTheSecretsKey(t *testing.T) {
	w := newWorld(t)
	b, first := w.b, w.a
	old, next := secrets.NewKey(), secrets.NewKey()
	open := func(keys ...*secrets.Key) *auth.Authority {
		text := ""
		for _, k := range keys {
			text += k.Reveal() + "\n"
		}
		a := auth.New(auth.Options{Broker: b, RootKey: "root", Keys: must.Get(secrets.Parse(text))(t)})
		t.Cleanup(a.Close)
		return a
	}
	_, _, err := first.CreateToken(t.Context(), first.Root(), auth.TokenSpec{ID: "mailer"})
	must.NoError(t, err)
	a := open(old)
	pair := must.Get(a.SigningPair(t.Context(), a.Root(), "mailer"))(t)
	secret := func(a *auth.Authority) string {
		_, secret, err := a.Signer(context.Background(), pair.AccessKey, "127.0.0.1:1")
		if err != nil {
			check.ErrorIs(t, err, auth.ErrSigning)
			return ""
		}
		return secret
	}
	check.Equal(t, secret(a), pair.Secret)
	check.Equal(t, secret(open(next)), "")
	both := open(next, old)
	must.NoError(t, both.RewrapSigning(t.Context()))
	check.Equal(t, secret(both), pair.Secret)
	check.Equal(t, secret(open(next)), pair.Secret)
	check.Equal(t, secret(open(old)), "")
	for _, key := range []string{"", "mailer", "mailer.", "mailer.00", pair.AccessKey + "0", "unknown." + pair.AccessKey[7:]} {
		_, _, err := both.Signer(t.Context(), key, "")
		check.ErrorIsf(t, err, auth.ErrUnauthenticated, "%s", key)
	}
}
