package access

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

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
