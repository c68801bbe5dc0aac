package auth

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"fmt"
	"hash"

	"github.com/sebbroker/seb/internal/engine/access"
)

// saltBytes is the length of a generated salt.
const saltBytes = 16

func hashOf(m access.Mechanism) func() hash.Hash {
	if m == access.SCRAMSHA512 {
		return sha512.New
	}
	return sha256.New
}

// verifier makes the verifier of a salted password (RFC 5802).
func verifier(m access.Mechanism, salt []byte, iterations uint32, salted []byte) access.Scram {
	h := hashOf(m)
	mac := func(text string) []byte {
		w := hmac.New(h, salted)
		w.Write([]byte(text))
		return w.Sum(nil)
	}
	stored := h()
	stored.Write(mac("Client Key"))
	return access.Scram{Mechanism: m, Iterations: iterations, Salt: salt, StoredKey: stored.Sum(nil), ServerKey: mac("Server Key")}
}

// Salted is a password after the salt and the iterations of a mechanism, as clients send it to set a
// password. It panics if Go runs in FIPS mode and the salt is too short for that.
func Salted(m access.Mechanism, password string, salt []byte, iterations uint32) []byte {
	h := hashOf(m)
	key, err := pbkdf2.Key(h, password, salt, int(iterations), h().Size())
	if err != nil {
		panic(fmt.Sprintf("auth: %s: %v", m, err))
	}
	return key
}

// verifiersOf makes the verifiers of a token. With a principal that has a token they have its salt
// and iterations.
func verifiersOf(token string, p *access.Principal) (list []access.Scram) {
	for _, m := range []access.Mechanism{access.SCRAMSHA256, access.SCRAMSHA512} {
		salt, iterations := make([]byte, saltBytes), uint32(access.TokenIterations)
		_, _ = rand.Read(salt) // never fails
		if old := tokenVerifier(p, m); old != nil {
			salt, iterations = old.Salt, old.Iterations
		}
		list = append(list, verifier(m, salt, iterations, Salted(m, token, salt, iterations)))
	}
	return list
}

func tokenVerifier(p *access.Principal, m access.Mechanism) *access.Scram {
	if p == nil {
		return nil
	}
	for i := range p.Secrets {
		if s := &p.Secrets[i]; s.IsToken() && s.Verifier(m) != nil {
			return s.Verifier(m)
		}
	}
	return nil
}

// Candidate is one secret by which a SCRAM client may prove its identity.
type Candidate struct {
	Scram     *access.Scram
	principal *access.Principal // nil for the root key
	secret    *access.Secret
}

// Candidates returns the secrets of a user for a mechanism, all with the same salt and iterations:
// its password if it has one, else its tokens. For a user name that names no principal it is the
// root key. Errors: ErrUnauthenticated if the user has no secret for the mechanism; of a follower
// those of FreshWithin.
func (a *Authority) Candidates(ctx context.Context, user string, m access.Mechanism) (list []Candidate, err error) {
	p, err := a.principal(ctx, user)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return []Candidate{{Scram: &a.rootScram()[m-1]}}, nil
	}
	for i := range p.Secrets {
		s := &p.Secrets[i]
		v := s.Verifier(m)
		switch {
		case v == nil:
		case !s.IsToken():
			return []Candidate{{v, p, s}}, nil
		default:
			list = append(list, Candidate{v, p, s})
		}
	}
	if len(list) == 0 {
		return nil, ErrUnauthenticated
	}
	return list, nil
}

// Prove checks the client's proof in the last message of a SCRAM conversation (RFC 5802, section 3)
// and returns the server's signature. authMessage is the three messages before the proof: the
// client's first without header, the server's first, and the client's last without proof.
func (c Candidate) Prove(authMessage string, proof []byte) (signature []byte, ok bool) {
	h := hashOf(c.Scram.Mechanism)
	sign := func(key []byte) []byte {
		w := hmac.New(h, key)
		w.Write([]byte(authMessage))
		return w.Sum(nil)
	}
	key := sign(c.Scram.StoredKey)
	if len(proof) != len(key) {
		return nil, false
	}
	subtle.XORBytes(key, key, proof)
	stored := h()
	stored.Write(key)
	if subtle.ConstantTimeCompare(stored.Sum(nil), c.Scram.StoredKey) != 1 {
		return nil, false
	}
	return sign(c.Scram.ServerKey), true
}

// Accept returns the identity of a client that has proved a candidate. Errors: ErrExpired.
func (a *Authority) Accept(c Candidate, remote string) (*Identity, error) {
	if c.principal == nil {
		return a.Root(), nil
	}
	return a.accept(c.principal, c.secret, remote)
}

// Password authenticates a user by name and password (SASL PLAIN): a principal by one of its tokens
// or its password, any other name by the root key. A follower accepts the root key without a look at
// the store. Errors: as Key.
func (a *Authority) Password(ctx context.Context, user, password, remote string) (*Identity, error) {
	if a.isRoot(digestOf(password)) && a.b.Access().Principal(user) == nil {
		return a.Root(), nil
	}
	p, err := a.principal(ctx, user)
	if err != nil {
		return nil, err
	}
	if p == nil {
		i, err := a.Key(ctx, password, remote)
		if err == nil && !i.Root() {
			return nil, fmt.Errorf("%w: the user name must be the ID of the token", ErrUnauthenticated)
		}
		return i, err
	}
	for i := range p.Secrets {
		s := &p.Secrets[i]
		if s.IsToken() || len(s.Scram) == 0 {
			continue
		}
		v := &s.Scram[0]
		given := verifier(v.Mechanism, v.Salt, v.Iterations, Salted(v.Mechanism, password, v.Salt, v.Iterations))
		if subtle.ConstantTimeCompare(given.StoredKey, v.StoredKey) == 1 {
			return a.accept(p, s, remote)
		}
	}
	i, err := a.Key(ctx, password, remote)
	if err == nil && i.id != p.ID {
		return nil, ErrUnauthenticated
	}
	return i, err
}
