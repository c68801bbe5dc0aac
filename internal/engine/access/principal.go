package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

const (
	// PrincipalsMax and RulesMax bound a Table.
	PrincipalsMax = 10_000
	RulesMax      = 10_000
	// IDMax bounds the ID of a principal, bytes.
	IDMax = 64
	// TokensMax bounds the tokens of a principal that are valid at the same time: two, while one
	// replaces the other.
	TokensMax = 2
	// IterationsMin and IterationsMax bound the iterations of a SCRAM verifier. The largest number is
	// that of Kafka: a failed login with a password costs 8 ms of CPU.
	IterationsMin = 4096
	IterationsMax = 16_384
	// TokenIterations is the number of iterations of the SCRAM verifiers of a token.
	TokenIterations = 8192
)

// Mechanism is a SASL mechanism with stored verifiers. The values are those of Kafka's protocol.
type Mechanism uint8

// The mechanisms.
const (
	SCRAMSHA256 Mechanism = 1
	SCRAMSHA512 Mechanism = 2
)

// String is the mechanism's name in SASL.
func (m Mechanism) String() string {
	switch m {
	case SCRAMSHA256:
		return "SCRAM-SHA-256"
	case SCRAMSHA512:
		return "SCRAM-SHA-512"
	}
	return "unknown"
}

// Principal is a client with rights of its own. A stored principal is never changed in place. Times
// are µs since 1970; 0 is none.
type Principal struct {
	ID      string
	Issuer  string // the principal that created it; "" is the root key
	Created int64
	Expires int64    // no secret is valid from then on
	Secrets []Secret // the newest first
}

// Secret is one way for a principal to authenticate: a token, or a password that was set as SCRAM
// verifiers.
type Secret struct {
	ID      uint64            // random, so that a secret is never taken for a later one
	Hash    [sha256.Size]byte // SHA-256 of the token; zero for a password
	Created int64
	Expires int64
	Used    int64 // the last use, at most an hour old
	// Scram has a verifier per mechanism. The tokens of a principal share salt and iterations,
	// because the server sends them before it knows which token the client has.
	Scram []Scram
}

// Scram is the verifier of a password (RFC 5802).
type Scram struct {
	Mechanism            Mechanism
	Iterations           uint32
	Salt                 []byte
	StoredKey, ServerKey []byte
}

// IsToken reports whether the secret is a token.
func (s *Secret) IsToken() bool { return s.Hash != [sha256.Size]byte{} }

// Verifier returns the verifier for a mechanism, or nil.
func (s *Secret) Verifier(m Mechanism) *Scram {
	for i := range s.Scram {
		if s.Scram[i].Mechanism == m {
			return &s.Scram[i]
		}
	}
	return nil
}

// Secret returns a secret by ID, or nil.
func (p *Principal) Secret(id uint64) *Secret {
	for i := range p.Secrets {
		if p.Secrets[i].ID == id {
			return &p.Secrets[i]
		}
	}
	return nil
}

// ExpiresAt is when a secret of the principal ends, or 0 if it does not.
func (p *Principal) ExpiresAt(s *Secret) int64 {
	if p.Expires == 0 || s.Expires != 0 && s.Expires < p.Expires {
		return s.Expires
	}
	return p.Expires
}

// Clone returns a copy whose Secrets can be changed. Verifiers stay shared.
func (p *Principal) Clone() *Principal {
	c := *p
	c.Secrets = slices.Clone(p.Secrets)
	for i := range c.Secrets {
		c.Secrets[i].Scram = slices.Clone(p.Secrets[i].Scram)
	}
	return &c
}

// ValidID reports whether an ID can name a principal: 1 to IDMax bytes of printable ASCII without
// space, '*', ',', '=', ':', '"' and '\'. The ID "seb" is the user name of the root key.
func ValidID(id string) bool {
	if len(id) == 0 || len(id) > IDMax || id == RootID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c <= ' ' || c > '~':
			return false
		case c == '*' || c == ',' || c == '=' || c == ':' || c == '"' || c == '\\':
			return false
		}
	}
	return true
}

// RootID is the user name of the root key.
const RootID = "seb"

const (
	// QuotasMax bounds the quotas of a Table.
	QuotasMax = 10_000
	// RateMax bounds each limit of a quota, per second: 1 TiB.
	RateMax = 1 << 40
)

// Quota limits the bytes and requests of a principal per second on one broker. A limit of 0 is no
// limit; a stored quota has at least one limit.
type Quota struct {
	// Principal is an ID, which need not exist, or Any: each principal without a quota of its own.
	Principal    string
	ProduceBytes uint64
	FetchBytes   uint64
	Requests     uint64
}

// Limits reports whether the quota has a limit.
func (q *Quota) Limits() bool { return q.ProduceBytes != 0 || q.FetchBytes != 0 || q.Requests != 0 }

// ErrNoLimit: a quota without a limit cannot be stored.
var ErrNoLimit = errors.New("want at least one limit")

// Check returns why the quota cannot be stored, or nil.
func (q *Quota) Check() error {
	switch {
	case q.Principal != Any && !ValidID(q.Principal):
		return fmt.Errorf("principal %.80q: want an ID of 1 to %d characters, or *; the root key has no quota", q.Principal, IDMax)
	case !q.Limits():
		return ErrNoLimit
	case max(q.ProduceBytes, q.FetchBytes, q.Requests) > RateMax:
		return fmt.Errorf("limit %d per second: the highest is %d", max(q.ProduceBytes, q.FetchBytes, q.Requests), uint64(RateMax))
	}
	return nil
}

// A token is "seb_" ID "_" secret "_" check. The check is the CRC-32 (IEEE) of all before its
// separator, as eight hexadecimal digits, so that a client or a scanner recognizes a mistyped token
// without a broker.
const (
	// TokenPrefix begins every token.
	TokenPrefix = "seb_"
	secretChars = 26 // at least 128 bits in base32
	checkChars  = 8
	// tokenMax bounds a token, bytes.
	tokenMax = len(TokenPrefix) + IDMax + 1 + 64 + 1 + checkChars
)

// The errors of ParseToken.
var (
	// ErrNotToken: the text does not look like a token; it may be the root key.
	ErrNotToken = errors.New("not a token")
	// ErrMistyped: the text begins like a token, but it is incomplete or has a wrong character.
	ErrMistyped = errors.New("token is truncated or mistyped: its check digits do not match")
)

// FormatToken makes the token of a principal and a secret of at least 26 characters a-z and 2-7.
func FormatToken(id, secret string) string {
	if !ValidTokenID(id) || len(secret) < secretChars || strings.Contains(secret, "_") {
		panic(fmt.Sprintf("access: token of ID %q and a secret of %d characters", id, len(secret)))
	}
	text := TokenPrefix + id + "_" + secret
	return text + "_" + check(text)
}

func check(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// ParseToken returns the ID of a token's principal. It does not tell whether the token is valid.
// Errors: ErrNotToken, ErrMistyped.
func ParseToken(token string) (id string, err error) {
	rest, ok := strings.CutPrefix(token, TokenPrefix)
	if !ok {
		return "", ErrNotToken
	}
	parts := strings.Split(rest, "_")
	if len(token) > tokenMax || len(parts) != 3 || !ValidTokenID(parts[0]) || len(parts[1]) < secretChars {
		return "", ErrMistyped
	}
	if check(token[:len(token)-len(parts[2])-1]) != parts[2] {
		return "", ErrMistyped
	}
	return parts[0], nil
}

// ValidTokenID reports whether a principal with this ID can have tokens: a-z, 0-9, '.' and '-', and
// ValidID.
func ValidTokenID(id string) bool {
	for i := range len(id) {
		if c := id[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-') {
			return false
		}
	}
	return ValidID(id)
}
