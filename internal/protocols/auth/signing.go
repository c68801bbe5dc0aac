package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
)

// ErrSigning: the signing key of the cluster cannot be used.
var ErrSigning = errors.New("no key to verify signatures")

// SigningPair is what a client of the SQS API signs requests with, instead of a token.
type SigningPair struct{ AccessKey, Secret string }

// signingSecretBytes is the length of a secret: 40 characters, as those of AWS.
const signingSecretBytes = 25

// opened is the decrypted signing key of the cluster.
type opened struct {
	sealed string
	key    []byte
}

// accessKey names a token: its principal, and the number of the secret, so that a rotated token has another
// one. It is no secret.
func accessKey(id string, secret uint64) string {
	return id + "." + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, secret))
}

// parseAccessKey is the inverse of accessKey.
func parseAccessKey(text string) (id string, number uint64, ok bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return "", 0, false
	}
	digits, err := hex.DecodeString(text[at+1:])
	if err != nil || len(digits) != 8 {
		return "", 0, false
	}
	id, number = text[:at], binary.BigEndian.Uint64(digits)
	return id, number, access.ValidTokenID(id) && accessKey(id, number) == text
}

// signingSecret is the secret of an access key. It is derived, so that nothing of it is stored.
func signingSecret(key []byte, accessKey string) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("seb signing secret\x00" + accessKey))
	return lower.EncodeToString(mac.Sum(nil)[:signingSecretBytes])
}

// SigningPair returns the pair of the newest token of a principal, with an audit record. The client needs
// what RotateToken needs. The first call makes the signing key of the cluster. Errors: *state.InvalidError
// without a secrets key, ErrUnknownToken, ErrBeyondIssuer, and those of ChangeAccess.
func (a *Authority) SigningPair(ctx context.Context, by *Identity, id string) (pair SigningPair, err error) {
	key, err := a.makeSigningKey(ctx)
	if err != nil {
		return pair, err
	}
	t := a.b.Access()
	p := t.Principal(id)
	if p == nil {
		return pair, ErrUnknownToken
	}
	if err := coversPrincipal(by, t, p); err != nil {
		return pair, err
	}
	for i := range p.Secrets { // the newest first
		if s := &p.Secrets[i]; s.IsToken() {
			pair.AccessKey = accessKey(id, s.ID)
			pair.Secret = signingSecret(key, pair.AccessKey)
			change := audit.Change{Action: "token.aws", Resource: audit.Resource{Type: "principal", Name: id}}
			return pair, a.b.Audit(ctx, &change)
		}
	}
	return pair, invalid("id", "%.80q has a password and no token", id)
}

// makeSigningKey returns the signing key of the cluster, which it makes if there is none.
func (a *Authority) makeSigningKey(ctx context.Context) ([]byte, error) {
	if a.keys == nil {
		return nil, invalid("id", "this broker has no secrets key, which keeps the key of signatures secret in the bucket: "+
			"make one with seb secrets init, and start the broker with --secrets-key-file")
	}
	err := a.b.ChangeAccess(ctx, func(t *access.Table) (c access.Change, err error) {
		if t.Signing() == "" {
			_, c.PutSigning = a.keys.NewSigningKey(a.b.Cluster().String())
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return a.signingKey(a.b.Access())
}

// signingKey decrypts the signing key of a table. Error: ErrSigning.
func (a *Authority) signingKey(t *access.Table) ([]byte, error) {
	sealed := t.Signing()
	if known := a.signing.Load(); known != nil && known.sealed == sealed {
		return known.key, nil
	}
	if a.keys == nil {
		return nil, fmt.Errorf("%w: this broker has no secrets key (--secrets-key-file)", ErrSigning)
	}
	key, err := a.keys.OpenSigningKey(a.b.Cluster().String(), sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSigning, err)
	}
	a.signing.Store(&opened{sealed, key})
	return key, nil
}

// Signer returns the client with an access key, and the secret with which it must have signed its request.
// The caller verifies the signature before it uses the identity. Errors: ErrUnauthenticated, ErrExpired,
// ErrRevoked, ErrSigning; of a follower also those of FreshWithin.
func (a *Authority) Signer(ctx context.Context, key, remote string) (i *Identity, secret string, err error) {
	id, number, ok := parseAccessKey(key)
	if !ok {
		return nil, "", ErrUnauthenticated
	}
	for _, age := range a.ages() {
		if err := a.fresh(ctx, age); err != nil {
			return nil, "", err
		}
		t := a.b.Access()
		p := t.Principal(id)
		if p == nil || t.Signing() == "" {
			continue
		}
		if s := p.Secret(number); s != nil && s.IsToken() {
			signing, err := a.signingKey(t)
			if err != nil {
				return nil, "", err
			}
			i, err := a.accept(p, s, remote)
			return i, signingSecret(signing, key), err
		}
	}
	return nil, "", &loginError{ErrRevoked}
}

// RewrapSigning encrypts the signing key with the active secrets key, if there is one and another has
// encrypted it. Errors: ErrSigning, and those of ChangeAccess.
func (a *Authority) RewrapSigning(ctx context.Context) error {
	return a.b.ChangeAccess(ctx, func(t *access.Table) (c access.Change, err error) {
		if t.Signing() == "" || a.keys == nil {
			return c, nil
		}
		sealed, err := a.keys.RewrapSigningKey(a.b.Cluster().String(), t.Signing())
		if err != nil {
			return c, fmt.Errorf("%w: %w", ErrSigning, err)
		}
		if sealed != t.Signing() {
			c.PutSigning = sealed
		}
		return c, nil
	})
}
