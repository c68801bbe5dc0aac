package httpin

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// Key stands for the API key, of which it is the digest, so that the key itself is nowhere to be logged and all
// comparisons are of one length.
type Key [sha256.Size]byte

// KeyOf returns what stands for a key.
func KeyOf(key string) Key { return sha256.Sum256([]byte(key)) }

// Matches says whether an Authorization header carries the key, as "Bearer <key>" or alone, in constant time.
func (k *Key) Matches(header string) bool {
	given := KeyOf(strings.TrimPrefix(header, "Bearer "))
	return subtle.ConstantTimeCompare(given[:], k[:]) == 1
}
