package auth

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/sebbroker/seb/internal/access"
)

// Password is a user's password for one mechanism, as Kafka's AlterUserScramCredentials sends it.
type Password struct {
	User       string
	Mechanism  access.Mechanism
	Iterations uint32
	Salt       []byte
	Salted     []byte // the salted password
}

// ErrNoPassword: the user has no password for the mechanism.
var ErrNoPassword = errors.New("no such SCRAM credential")

// SetPassword sets a user's password for one mechanism. A user that does not exist is created, with
// the rules that name it. Errors: *state.InvalidError, ErrBeyondIssuer, and those of ChangeAccess.
func (a *Authority) SetPassword(ctx context.Context, by *Identity, w Password) error {
	switch {
	case !access.ValidID(w.User):
		return invalid("user", "%.80q: want 1 to %d printable characters without space * , = : \" \\, and not %q", w.User, access.IDMax, access.RootID)
	case w.Iterations < access.IterationsMin || w.Iterations > access.IterationsMax:
		return invalid("iterations", "%d: want %d to %d", w.Iterations, access.IterationsMin, access.IterationsMax)
	case len(w.Salt) == 0 || len(w.Salt) > 128:
		return invalid("salt", "%d bytes: want 1 to 128", len(w.Salt))
	case len(w.Salted) != hashOf(w.Mechanism)().Size():
		return invalid("salted password", "%d bytes: want %d", len(w.Salted), hashOf(w.Mechanism)().Size())
	}
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		p := t.Principal(w.User)
		if p == nil {
			p = &access.Principal{ID: w.User, Created: a.now().UnixMicro()}
			p.Expires, _ = by.endIn(t)
			if !by.Root() {
				p.Issuer = by.id
			}
		}
		if err := coversPrincipal(by, t, p); err != nil {
			return access.Change{}, err
		}
		p, s := withoutPassword(p, w.Mechanism)
		var number [8]byte
		_, _ = rand.Read(number[:])
		s.ID, s.Created = max(1, binary.LittleEndian.Uint64(number[:])), a.now().UnixMicro() // ends sessions of the old password
		s.Scram = append(s.Scram, verifier(w.Mechanism, slices.Clone(w.Salt), w.Iterations, w.Salted))
		p.Secrets = append(p.Secrets, s)
		return access.Change{Put: []access.Principal{*p}}, nil
	})
}

// DeletePassword deletes a user's password for one mechanism. A user without any secret is deleted;
// its rules and its quota stay, as in Kafka. Errors: ErrNoPassword, and those of ChangeAccess.
func (a *Authority) DeletePassword(ctx context.Context, user string, m access.Mechanism) error {
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		p := t.Principal(user)
		if p == nil || passwordOf(p, m) == nil {
			return access.Change{}, ErrNoPassword
		}
		p, s := withoutPassword(p, m)
		if len(s.Scram) > 0 {
			p.Secrets = append(p.Secrets, s)
		}
		if len(p.Secrets) == 0 {
			return access.Change{Delete: []string{user}}, nil
		}
		return access.Change{Put: []access.Principal{*p}}, nil
	})
}

// Passwords returns the verifiers of a principal's password.
func Passwords(p *access.Principal) []access.Scram {
	for i := range p.Secrets {
		if !p.Secrets[i].IsToken() {
			return p.Secrets[i].Scram
		}
	}
	return nil
}

func passwordOf(p *access.Principal, m access.Mechanism) *access.Scram {
	for i := range p.Secrets {
		if s := &p.Secrets[i]; !s.IsToken() {
			return s.Verifier(m)
		}
	}
	return nil
}

// withoutPassword returns a copy of a principal without its password, and the password without a
// mechanism.
func withoutPassword(p *access.Principal, m access.Mechanism) (rest *access.Principal, password access.Secret) {
	rest = p.Clone()
	if i := slices.IndexFunc(rest.Secrets, func(s access.Secret) bool { return !s.IsToken() }); i >= 0 {
		password = rest.Secrets[i]
		rest.Secrets = slices.Delete(rest.Secrets, i, i+1)
		password.Scram = slices.DeleteFunc(password.Scram, func(c access.Scram) bool { return c.Mechanism == m })
	}
	return rest, password
}
