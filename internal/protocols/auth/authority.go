// Package auth authenticates clients and manages principals, tokens and rules. Front ends ask an
// Authority who a client is; the answer is an Identity, which decides by the newest committed rules
// (package access) what the client may do. Failures delays and logs failed logins by their network.
//
// The root key stands outside: it is not in the log, may do everything, and is the way back in
// when rules lock every principal out.
package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// The errors of a login.
var (
	// ErrUnauthenticated: the key, token or password is wrong.
	ErrUnauthenticated = errors.New("invalid or missing API key")
	// ErrExpired: the token was valid once.
	ErrExpired = errors.New("token has expired")
	// ErrRevoked: the token is well-formed, but no principal has it.
	ErrRevoked = errors.New("token is unknown or has been revoked")

	errCertificateEnded = errors.New("certificate has ended or was revoked")
)

// loginError is an ErrUnauthenticated with a reason that the client may know.
type loginError struct{ reason error }

func (e *loginError) Error() string   { return e.reason.Error() }
func (e *loginError) Is(t error) bool { return t == ErrUnauthenticated }
func (e *loginError) Unwrap() error   { return e.reason }

const (
	// followerAge is the largest age of the state by which a follower accepts a login.
	followerAge = 5 * time.Second
	// refusalAge is the largest age of the state by which a follower refuses a token or a user that it
	// does not know. It bounds the requests to the store that unauthenticated clients cause.
	refusalAge = time.Second
	// sessionAge is the age of the state at which a follower with sessions confirms it.
	sessionAge = followerAge - time.Second
)

// loginWait bounds the time that a follower takes to confirm its state, because the store may be
// unavailable.
const loginWait = 10 * time.Second

// Options configure an Authority. Broker and RootKey are required.
type Options struct {
	Broker  *broker.Broker
	RootKey string
	// Internal are topics of Seb itself, such as that of firings. Only rules with the exact name
	// match them.
	Internal []string
	// Keys encrypt the signing key of the cluster; nil: there are no signatures.
	Keys    *secrets.Ring
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: none
	Metrics *metrics.Set     // nil: a set of its own
}

// Authority authenticates clients. Its methods may be called concurrently.
type Authority struct {
	b    *broker.Broker
	root [sha256.Size]byte // digest of the root key
	// rootScram returns the verifiers of the root key, SCRAM-SHA-256 and SCRAM-SHA-512. They are made
	// for the first client that needs them, because that takes 10 ms, and not stored.
	rootScram func() []access.Scram
	// sessionKey returns the key of sessions.
	sessionKey func() []byte
	seals      sync.Pool // of hash.Hash with sessionKey
	internal   []string
	now        func() time.Time
	log        *slog.Logger
	compiled   atomic.Pointer[compiled]
	logins     logins
	rootID     Identity
	uses       uses
	watches    watches
	meters     *meters
	keys       *secrets.Ring
	signing    atomic.Pointer[opened]
}

// New returns an Authority. The caller closes it before the broker.
func New(o Options) *Authority {
	a := &Authority{b: o.Broker, root: sha256.Sum256([]byte(o.RootKey)), internal: o.Internal, now: o.Now, log: o.Logger, keys: o.Keys}
	if a.now == nil {
		a.now = time.Now
	}
	a.log = cmp.Or(a.log, slog.New(slog.DiscardHandler))
	began := a.now()
	a.meters = newMeters(func() int64 { return int64(a.now().Sub(began)) }, cmp.Or(o.Metrics, metrics.NewSet()))
	a.rootID.a = a
	a.sessionKey = sync.OnceValue(func() []byte { return newSessionKey(o.RootKey) })
	a.rootScram = sync.OnceValue(func() []access.Scram { return verifiersOf(o.RootKey, nil) })
	a.compiled.Store(&compiled{table: &access.Table{}})
	a.start()
	return a
}

// compiled caches the rules of principals, arranged for decisions, for one table.
type compiled struct {
	table  *access.Table
	grants sync.Map // string to *access.Grants
}

// current returns the compiled rules of the newest committed table.
func (a *Authority) current() *compiled {
	t, c := a.b.Access(), a.compiled.Load()
	if c.table != t {
		c = &compiled{table: t}
		a.compiled.Store(c)
	}
	return c
}

func (c *compiled) of(id string) *access.Grants {
	if g, ok := c.grants.Load(id); ok {
		return g.(*access.Grants)
	}
	g, _ := c.grants.LoadOrStore(id, c.table.Compile(id))
	return g.(*access.Grants)
}

// Bearer authenticates an HTTP request by its Authorization headers: the root key or a token, as
// "Bearer <key>", with a scheme in any case, or alone. More than one header is refused, because a proxy may have checked
// another one. The comparisons take constant time. Errors: ErrUnauthenticated, access.ErrMistyped,
// ErrExpired, ErrRevoked; of a follower also those of FreshWithin.
func (a *Authority) Bearer(ctx context.Context, headers []string, remote string) (*Identity, error) {
	if len(headers) != 1 {
		return nil, ErrUnauthenticated
	}
	key := headers[0]
	if scheme, rest, ok := strings.Cut(key, " "); ok && strings.EqualFold(scheme, "Bearer") { // RFC 9110, 11.1
		key = strings.TrimLeft(rest, " ")
	}
	return a.Key(ctx, key, remote)
}

// Key authenticates a client by the root key or a token. Errors: as Bearer.
func (a *Authority) Key(ctx context.Context, key, remote string) (*Identity, error) {
	given := digestOf(key)
	if a.isRoot(given) {
		return a.Root(), nil
	}
	id, ok := strings.CutPrefix(key, access.TokenPrefix)
	if !ok {
		return nil, ErrUnauthenticated
	}
	id, _, _ = strings.Cut(id, "_")
	host := hostOf(remote)
	for _, age := range a.ages() {
		if err := a.fresh(ctx, age); err != nil {
			return nil, err
		}
		if i, err := a.token(id, given, host); i != nil || err != nil {
			return i, err
		}
	}
	if _, err := access.ParseToken(key); err != nil {
		return nil, &loginError{err}
	}
	return nil, &loginError{ErrRevoked}
}

func digestOf(key string) [sha256.Size]byte {
	var buf [128]byte // longer than usual keys, so that they need no memory of their own
	return sha256.Sum256(append(buf[:0], key...))
}

// isRoot compares a digest with that of the root key, in constant time.
func (a *Authority) isRoot(given [sha256.Size]byte) bool {
	return subtle.ConstantTimeCompare(given[:], a.root[:]) == 1
}

// token returns the identity of a token by its digest, or nil if the principal does not have it.
// Error: ErrExpired.
func (a *Authority) token(id string, digest [sha256.Size]byte, host string) (*Identity, error) {
	if i := a.logins.find(digest, host); i != nil && i.Valid() {
		i.used.Store(a.now().UnixMicro())
		return i, nil
	}
	p := a.b.Access().Principal(id)
	if p == nil {
		return nil, nil
	}
	for i := range p.Secrets {
		if s := &p.Secrets[i]; s.IsToken() && subtle.ConstantTimeCompare(digest[:], s.Hash[:]) == 1 {
			i, err := a.accept(p, s, host)
			if err == nil {
				a.logins.add(digest, i)
			}
			return i, err
		}
	}
	return nil, nil
}

// ages are the ages of the state by which a login is judged, one after the other until it is known.
// A follower looks for new commits before it refuses one, because the principal may be new.
func (a *Authority) ages() []time.Duration {
	if a.b.Follows() {
		return []time.Duration{followerAge, refusalAge}
	}
	return []time.Duration{0}
}

// Certificate authenticates a client by its certificate, which the connection has verified. The rules
// for the principal decide what it may do; the principal needs no token. Errors: ErrUnauthenticated
// if the certificate has no principal or is no longer valid; of a follower those of FreshWithin.
func (a *Authority) Certificate(ctx context.Context, p *tlsport.Peer, remote string) (*Identity, error) {
	if err := a.fresh(ctx, followerAge); err != nil {
		return nil, err
	}
	return a.Holder(p, remote)
}

// Holder is Certificate for a request that another broker answers: this one need not know the newest
// rules. Error: ErrUnauthenticated.
func (a *Authority) Holder(p *tlsport.Peer, remote string) (*Identity, error) {
	if i, ok := p.Login.Load().(*Identity); ok {
		return i, i.Err()
	}
	id, err := p.Principal()
	if err != nil {
		return nil, &loginError{err}
	}
	i := &Identity{a: a, id: id, peer: p, expires: p.Ends().UnixMicro(), host: hostOf(remote)}
	p.Login.Store(i)
	return i, i.Err()
}

// fresh makes a follower confirm a state that is older than age.
func (a *Authority) fresh(ctx context.Context, age time.Duration) error {
	if !a.b.Follows() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginWait)
	defer cancel()
	return a.b.FreshWithin(ctx, age)
}

// principal returns a principal for a login, or nil if it does not exist. Errors: of a follower those
// of FreshWithin.
func (a *Authority) principal(ctx context.Context, id string) (p *access.Principal, err error) {
	if !access.ValidID(id) {
		return nil, nil // no state has it, such as access.RootID
	}
	for _, age := range a.ages() {
		if err := a.fresh(ctx, age); err != nil {
			return nil, err
		}
		if p = a.b.Access().Principal(id); p != nil {
			break
		}
	}
	return p, nil
}

// accept returns the identity of a principal that has proved a secret. remote is its address, with
// or without a port.
func (a *Authority) accept(p *access.Principal, s *access.Secret, remote string) (*Identity, error) {
	i := &Identity{a: a, id: p.ID, secret: s.ID, expires: p.ExpiresAt(s), host: hostOf(remote)}
	now := a.now().UnixMicro()
	if i.expires != 0 && now >= i.expires {
		return nil, expired(i.id, i.expires)
	}
	i.used = a.uses.of(p.ID, s.ID)
	i.used.Store(now)
	return i, nil
}

func expired(id string, at int64) error {
	return &loginError{fmt.Errorf("%w: %s ended at %s", ErrExpired, id, time.UnixMicro(at).UTC().Format(time.RFC3339))}
}

// loginsMax bounds the remembered logins. Beyond it all are forgotten.
const loginsMax = 4096

// logins are the identities of tokens that were accepted before, so that a request with a known
// token allocates nothing. An identity is checked again at each use.
type logins struct {
	mu  sync.RWMutex // guards all
	all map[login]*Identity
}

// login is a token, by its digest, from one host.
type login struct {
	token [sha256.Size]byte
	host  string
}

func (l *logins) find(token [sha256.Size]byte, host string) *Identity {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[login{token, host}]
}

func (l *logins) add(token [sha256.Size]byte, i *Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil || len(l.all) >= loginsMax {
		l.all = map[login]*Identity{}
	}
	l.all[login{token, i.host}] = i
}

func hostOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// Root is the identity of the root key.
func (a *Authority) Root() *Identity { return &a.rootID }

// OnBehalf is the identity of a client that another broker with the root key has authenticated: the
// root key, a principal with the number of its secret, or with 0, one with a certificate. What such a
// client creates may not outlive the certificate, which is valid until ends.
func (a *Authority) OnBehalf(principal string, number uint64, ends time.Time, remote string) *Identity {
	if principal == access.RootID {
		return a.Root()
	}
	i := &Identity{a: a, id: principal, secret: number, vouched: number == 0, host: hostOf(remote)}
	if i.vouched {
		i.expires = ends.UnixMicro()
	}
	return i
}

// Now is the time by which tokens expire.
func (a *Authority) Now() time.Time { return a.now() }

// Internal reports whether a topic is one of Seb itself.
func (a *Authority) Internal(topic string) bool { return slices.Contains(a.internal, topic) }

// Vouch returns a code for a statement about a request that this broker forwards. A broker with the
// same root key recognizes the code with Vouched.
func (a *Authority) Vouch(statement ...string) string {
	return hex.EncodeToString(a.sealed("forwarded", []byte(strings.Join(statement, "\n"))))
}

// Vouched reports whether a broker with the root key has made code for the statement.
func (a *Authority) Vouched(code string, statement ...string) bool {
	given, err := hex.DecodeString(code)
	return err == nil && hmac.Equal(given, a.sealed("forwarded", []byte(strings.Join(statement, "\n"))))
}
