package record

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// ID is a random number of 16 bytes: a cluster ID, a topic ID or the nonce of an epoch. The zero ID
// means none.
type ID [16]byte

// NewID returns a random ID from the system's generator. It is never zero.
func NewID() ID {
	for {
		var id ID
		rand.Read(id[:]) // never returns an error: it ends the process instead
		if id != (ID{}) {
			return id
		}
	}
}

// String returns 32 lower-case hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id is the zero ID, which NewID never returns.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID parses the text of String: exactly 32 lower-case hex digits.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("parse id: %d characters, want %d", len(s), 2*len(id))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("parse id: %w", err)
	}
	if id.String() != s {
		return ID{}, fmt.Errorf("parse id: upper-case digits")
	}
	return id, nil
}
