package auth

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"time"
)

// SessionLife is how long a session lasts.
const SessionLife = 12 * time.Hour

var (
	errNoSession    = &loginError{errors.New("session is incomplete or was not made by this broker: log in again")}
	errSessionEnded = &loginError{errors.New("session has ended: log in again")}
	errCertificate  = errors.New("a session needs a key: the certificate of the connection is enough without one")
)

// Session is the login of a web page. Both halves are needed: the cookie, which a script cannot
// read, and the page's half, which a browser sends to no other server. The broker stores neither.
// The cookie names the principal and its secret; a session is as valid as that secret, and ends with
// the root key from which its keys are derived.
type Session struct {
	Cookie, Page string
	Expires      time.Time
}

// sessionHead is the length of a cookie's content before the ID: expiry in µs, secret, nonce.
const sessionHead = 8 + 8 + 16

// NewSession returns a session of a client that has proved a key.
func (a *Authority) NewSession(i *Identity) (*Session, error) {
	if i.peer != nil || i.vouched {
		return nil, errCertificate
	}
	expires := a.now().Add(SessionLife).Truncate(time.Microsecond)
	b := make([]byte, sessionHead, sessionHead+len(i.id))
	binary.BigEndian.PutUint64(b, uint64(expires.UnixMicro()))
	binary.BigEndian.PutUint64(b[8:], i.secret)
	rand.Read(b[16:])
	b = append(b, i.id...)
	return &Session{
		Cookie:  base64.RawURLEncoding.EncodeToString(append(a.sealed("cookie", b), b...)),
		Page:    base64.RawURLEncoding.EncodeToString(a.sealed("page", b)),
		Expires: expires,
	}, nil
}

// Session authenticates a client by the two halves of a session. Errors: ErrUnauthenticated; of a
// follower also those of FreshWithin.
func (a *Authority) Session(ctx context.Context, cookie, page, remote string) (i *Identity, expires time.Time, err error) {
	given, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(given) < sha256.Size+sessionHead {
		return nil, expires, errNoSession
	}
	half, err := base64.RawURLEncoding.DecodeString(page)
	b := given[sha256.Size:]
	if err != nil || !hmac.Equal(given[:sha256.Size], a.sealed("cookie", b)) || !hmac.Equal(half, a.sealed("page", b)) {
		return nil, expires, errNoSession
	}
	expires = time.UnixMicro(int64(binary.BigEndian.Uint64(b)))
	if !a.now().Before(expires) {
		return nil, expires, errSessionEnded
	}
	i, err = a.ofSession(ctx, string(b[sessionHead:]), binary.BigEndian.Uint64(b[8:]), remote)
	return i, expires, err
}

// ofSession returns the identity of a principal that proved a secret at its login.
func (a *Authority) ofSession(ctx context.Context, id string, secret uint64, remote string) (*Identity, error) {
	if id == "" {
		return a.Root(), nil
	}
	for _, age := range a.ages() {
		if err := a.fresh(ctx, age); err != nil {
			return nil, err
		}
		if p := a.b.Access().Principal(id); p != nil {
			if s := p.Secret(secret); s != nil {
				return a.accept(p, s, hostOf(remote))
			}
		}
	}
	return nil, &loginError{ErrRevoked}
}

// sealed returns the authentication code of a session's content for one of its halves.
func (a *Authority) sealed(half string, b []byte) []byte {
	h, ok := a.seals.Get().(hash.Hash)
	if !ok {
		h = hmac.New(sha256.New, a.sessionKey())
	}
	defer a.seals.Put(h)
	h.Reset()
	h.Write([]byte(half))
	h.Write(b)
	return h.Sum(nil)
}

// newSessionKey derives the key of sessions from the root key.
func newSessionKey(root string) []byte {
	key, err := hkdf.Key(sha256.New, []byte(root), nil, "seb console session", sha256.Size)
	if err != nil {
		panic("auth: session key: " + err.Error()) // the length is valid
	}
	return key
}
