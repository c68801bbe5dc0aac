package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
)

// keyDigest stands for the API key, so that the key itself is nowhere to be logged and all comparisons are of one length.
type keyDigest [sha256.Size]byte

func digestOf(key string) keyDigest { return sha256.Sum256([]byte(key)) }

// matches says whether an Authorization header carries the key, as "Bearer <key>" or alone, in constant time.
func (d *keyDigest) matches(header string) bool {
	given := digestOf(strings.TrimPrefix(header, "Bearer "))
	return subtle.ConstantTimeCompare(given[:], d[:]) == 1
}
