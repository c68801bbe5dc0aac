package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// The errors of managing principals.
var (
	ErrTokenExists  = errors.New("token exists")
	ErrUnknownToken = errors.New("unknown token")
	// ErrBeyondIssuer: the client would give away a right that it does not have.
	ErrBeyondIssuer = fmt.Errorf("%w: a token can grant only rights that it has", state.ErrUnauthorized)
)

// TokenSpec describes a new token.
type TokenSpec struct {
	ID      string        // "": generated
	Expires time.Time     // zero: with its issuer
	Rules   []access.Rule // their Principal is ignored
}

// DefaultOverlap is how long both tokens of a principal are valid after a rotation.
const DefaultOverlap = 24 * time.Hour

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// random returns n random characters of 5 bits.
func random(n int) string {
	b := make([]byte, (n*5+7)/8)
	_, _ = rand.Read(b) // never fails
	return lower.EncodeToString(b)[:n]
}

const (
	idChars     = 10
	secretChars = 32 // 160 bits
)

// newSecret makes a token of a principal, which is nil if it is new, and the secret to store. The
// hash needs no salt and no slow function, because the token is random.
func (a *Authority) newSecret(id string, p *access.Principal) (token string, s access.Secret) {
	var number [8]byte
	_, _ = rand.Read(number[:])
	token = access.FormatToken(id, random(secretChars))
	s = access.Secret{ID: max(1, binary.LittleEndian.Uint64(number[:])), Hash: sha256.Sum256([]byte(token)), Created: a.now().UnixMicro()}
	s.Scram = verifiersOf(token, p)
	return token, s
}

// CreateToken creates a principal with a token and rules, waits until that is committed, and
// returns the token, which is not stored anywhere. Errors: *state.InvalidError, ErrTokenExists,
// ErrBeyondIssuer, and those of ChangeAccess.
func (a *Authority) CreateToken(ctx context.Context, by *Identity, spec TokenSpec) (p *access.Principal, token string, err error) {
	if spec.ID == "" {
		spec.ID = random(idChars)
	}
	p = &access.Principal{ID: spec.ID, Created: a.now().UnixMicro()}
	if !access.ValidTokenID(p.ID) {
		return nil, "", invalid("id", "%.80q: want 1 to %d of a-z 0-9 . -, and not %q", p.ID, access.IDMax, access.RootID)
	}
	if !spec.Expires.IsZero() && !spec.Expires.After(a.now()) {
		return nil, "", invalid("expires", "%s is not in the future", spec.Expires.UTC().Format(time.RFC3339))
	}
	if !by.Root() {
		p.Issuer = by.id
	}
	rules := slices.Clone(spec.Rules)
	for i := range rules {
		rules[i].Principal = p.ID
		if err := CheckRule(&rules[i]); err != nil {
			return nil, "", err
		}
	}
	token, s := a.newSecret(p.ID, nil)
	p.Secrets = []access.Secret{s}
	err = a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		if t.Principal(p.ID) != nil {
			return access.Change{}, ErrTokenExists
		}
		if p.Expires, err = expiry(by, t, spec.Expires); err != nil {
			return access.Change{}, err
		}
		if err := coversAll(by, slices.Concat(rules, t.RulesOf(p.ID))); err != nil { // rules may be older than their principal
			return access.Change{}, err
		}
		return access.Change{Put: []access.Principal{*p}, PutRules: rules}, nil
	})
	return p, token, err
}

// expiry is when a token of an issuer ends: not after its issuer.
func expiry(by *Identity, t *access.Table, wanted time.Time) (int64, error) {
	end, _ := by.endIn(t)
	switch {
	case wanted.IsZero():
		return end, nil
	case end != 0 && wanted.UnixMicro() > end:
		return 0, invalid("expires", "%s is after the end of the issuing token, %s", wanted.UTC().Format(time.RFC3339), time.UnixMicro(end).UTC().Format(time.RFC3339))
	}
	return wanted.UnixMicro(), nil
}

// RotateToken makes a new token for a principal and lets the newest of its tokens expire after
// overlap; older ones end at once. A password stays. Errors: as CreateToken, and ErrUnknownToken.
func (a *Authority) RotateToken(ctx context.Context, by *Identity, id string, overlap time.Duration) (p *access.Principal, token string, err error) {
	if overlap < 0 {
		return nil, "", invalid("overlap", "%s is negative", overlap)
	}
	err = a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		old := t.Principal(id)
		if old == nil {
			return access.Change{}, ErrUnknownToken
		}
		if !access.ValidTokenID(id) {
			return access.Change{}, invalid("id", "%.80q: it cannot have tokens: want a-z 0-9 . -", id)
		}
		if err := coversPrincipal(by, t, old); err != nil {
			return access.Change{}, err
		}
		var s access.Secret
		token, s = a.newSecret(id, old)
		p = old.Clone()
		p.Secrets = []access.Secret{s}
		tokens := 1
		for _, o := range old.Clone().Secrets {
			if o.IsToken() {
				end := a.now().Add(overlap).UnixMicro()
				if tokens++; tokens > access.TokensMax || overlap == 0 {
					continue
				}
				if o.Expires == 0 || end < o.Expires {
					o.Expires = end
				}
			}
			p.Secrets = append(p.Secrets, o)
		}
		return access.Change{Put: []access.Principal{*p}}, nil
	})
	return p, token, err
}

// RevokeToken deletes a principal with all its secrets, its rules and its quota. Errors:
// ErrUnknownToken, and those of ChangeAccess.
func (a *Authority) RevokeToken(ctx context.Context, id string) error {
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		if t.Principal(id) == nil {
			return access.Change{}, ErrUnknownToken
		}
		c := access.Change{Delete: []string{id}, DeleteRules: t.RulesOf(id)}
		if _, limited := t.Quota(id); limited {
			c.DeleteQuotas = []string{id}
		}
		return c, nil
	})
}

// ChangeRules adds and deletes rules. Rules that are there already, or gone already, change nothing.
// Errors: *state.InvalidError, ErrBeyondIssuer, and those of ChangeAccess.
func (a *Authority) ChangeRules(ctx context.Context, by *Identity, put, remove []access.Rule) error {
	for i := range put {
		if err := CheckRule(&put[i]); err != nil {
			return err
		}
	}
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		c := access.Change{}
		if err := coversAll(by, put); err != nil {
			return c, err
		}
		for _, r := range remove {
			if r.Deny && !by.covers(&r) { // without the denial others have what it denies
				return c, fmt.Errorf("%w: %s", ErrBeyondIssuer, r)
			}
		}
		for _, r := range remove {
			if t.Has(r) {
				c.DeleteRules = append(c.DeleteRules, r)
			}
		}
		for _, r := range put {
			if !t.Has(r) || slices.Contains(c.DeleteRules, r) {
				c.PutRules = append(c.PutRules, r)
			}
		}
		return c, nil
	})
}

// CheckRule checks that a rule can match something, and writes its host in canonical form. The error
// is a *state.InvalidError.
func CheckRule(r *access.Rule) error {
	r.Host = cmp.Or(r.Host, access.Any)
	if r.Host != access.Any {
		host, err := netip.ParseAddr(r.Host)
		if err != nil {
			return invalid("host", "%.80q: want an IP address or *", r.Host)
		}
		r.Host = host.Unmap().String()
	}
	switch {
	case r.Principal != access.Any && !access.ValidID(r.Principal):
		return invalid("principal", "%.80q: want an ID of 1 to %d characters, or *; rules do not apply to the root key", r.Principal, access.IDMax)
	case !r.Operation.Exists(r.Resource):
		return invalid("operation", "%s does not exist on a %s", r.Operation, r.Resource)
	case r.Prefix && (r.Name == "" || r.Name == access.Any):
		return invalid("name", "a prefix %q would match every name: use the literal name *", r.Name)
	}
	if r.Name == access.Any && r.Resource != access.Cluster && r.Resource != access.Metrics {
		return nil
	}
	var err error
	switch r.Resource {
	case access.Topic:
		err = state.CheckTopicName(r.Name)
		if r.Prefix && (r.Name == "." || r.Name == "..") {
			err = nil // names can begin with them
		}
	case access.Group:
		err = state.CheckGroupName(r.Name)
	case access.Cluster:
		err = only(r, access.ClusterName)
	case access.Metrics:
		err = only(r, access.MetricsName)
	default:
		if len(r.Name) == 0 || len(r.Name) > 249 || strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			err = fmt.Errorf("%s name %.80q: want 1 to 249 bytes without control characters", r.Resource, r.Name)
		}
	}
	if err != nil {
		return invalid("name", "%v", err)
	}
	return nil
}

func only(r *access.Rule, name string) error {
	if r.Name != name || r.Prefix {
		return fmt.Errorf("%.80q: the only %s is %q", r.Name, r.Resource, name)
	}
	return nil
}

// coversPrincipal checks that a client may get a secret of a principal: it has all rights of it and
// does not end before it. So a token that a rotation replaces, and that may have leaked, cannot
// replace its successor.
func coversPrincipal(by *Identity, t *access.Table, p *access.Principal) error {
	end, known := by.endIn(t)
	switch {
	case !known: // revoked meanwhile
		return state.ErrUnauthorized
	case end != 0 && (p.Expires == 0 || p.Expires > end) && by.id == p.ID:
		return fmt.Errorf("%w: the token of this request has been rotated: use its successor", state.ErrUnauthorized)
	case end != 0 && (p.Expires == 0 || p.Expires > end):
		return fmt.Errorf("%w: %s ends after the token of this request", ErrBeyondIssuer, p.ID)
	case by.Root() || by.id == p.ID:
		return nil
	}
	return coversAll(by, t.RulesOf(p.ID))
}

func coversAll(by *Identity, rules []access.Rule) error {
	for _, r := range rules {
		if !r.Deny && !by.covers(&r) {
			return fmt.Errorf("%w: %s", ErrBeyondIssuer, r)
		}
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &state.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
