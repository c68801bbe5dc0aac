package httpconn

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

// Matches says whether the Authorization headers of a request carry the key, as "Bearer <key>" or alone, in constant time.
// More than one header is none: who is in between may go by the other.
func (k *Key) Matches(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	given := KeyOf(strings.TrimPrefix(headers[0], "Bearer "))
	return subtle.ConstantTimeCompare(given[:], k[:]) == 1
}
