package httpconn

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// Key is the digest of the API key. The key itself is not kept, so it cannot be logged, and all
// comparisons have the same length.
type Key [sha256.Size]byte

// KeyOf returns the Key of an API key.
func KeyOf(key string) Key { return sha256.Sum256([]byte(key)) }

// Matches reports in constant time whether the Authorization headers carry the key, as "Bearer
// <key>" or alone. More than one header does not match, because a proxy may have checked another
// one.
func (k *Key) Matches(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	given := KeyOf(strings.TrimPrefix(headers[0], "Bearer "))
	return subtle.ConstantTimeCompare(given[:], k[:]) == 1
}
