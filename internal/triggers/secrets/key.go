// Package secrets encrypts the secrets of webhooks in definitions of triggers, with a key that is
// not in the bucket. FORMAT.md describes the encrypted form.
package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

const (
	keyBytes  = 32
	keyPrefix = "sebsecrets_"
	// keysMax bounds the keys of a ring: the active one, and those of definitions not yet rewrapped.
	keysMax = 16
)

// KeyID identifies a key and does not reveal it. The zero KeyID identifies no key.
type KeyID [8]byte

func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Key is a master key.
type Key struct {
	id     KeyID
	reveal func() string // a function, because package fmt prints unexported fields
	aead   cipher.AEAD
}

// NewKey returns a random key.
func NewKey() *Key {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // never returns an error: it ends the process instead
	return newKey(b)
}

func newKey(b []byte) *Key {
	mac := hmac.New(sha256.New, b)
	_, _ = mac.Write([]byte("seb secrets key id"))
	digits := hex.EncodeToString(b)
	k := &Key{reveal: func() string { return keyPrefix + digits + "_" + check(digits) }, aead: newAEAD(b)}
	copy(k.id[:], mac.Sum(nil))
	return k
}

// check returns the check digits of a key.
func check(digits string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(digits))) }

func newAEAD(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("secrets: " + err.Error()) // of a wrong length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("secrets: " + err.Error())
	}
	return aead
}

// ID returns the key's ID.
func (k *Key) ID() KeyID { return k.id }

// Reveal returns the text for Parse.
func (k *Key) Reveal() string { return k.reveal() }

// String masks the key.
func (k *Key) String() string { return "secrets key " + k.id.String() }

// Ring is the keys of a broker. The first one encrypts; all decrypt. A nil Ring has none. A Ring
// does not change and may be used concurrently.
type Ring struct{ keys []*Key }

// Parse parses the text of a key file: a key on each line, the active one first. Empty lines and
// comments with # are ignored. Its errors do not contain the text.
func Parse(text string) (*Ring, error) {
	r := &Ring{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		k, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if !r.Has(k.id) {
			r.keys = append(r.keys, k)
		}
	}
	if n := len(r.keys); n < 1 || n > keysMax {
		return nil, fmt.Errorf("%d keys, want 1 to %d", n, keysMax)
	}
	return r, nil
}

func parseKey(text string) (*Key, error) {
	body, ok := strings.CutPrefix(text, keyPrefix)
	digits, sum, _ := strings.Cut(body, "_")
	b, err := hex.DecodeString(digits)
	switch {
	case !ok || err != nil || len(b) != keyBytes:
		return nil, fmt.Errorf("not a secrets key: want %s, %d hexadecimal digits, _ and 8 check digits", keyPrefix, 2*keyBytes)
	case sum != check(digits):
		return nil, errors.New("the check digits of the secrets key are wrong: a character was changed or is missing")
	}
	return newKey(b), nil
}

// Active returns the ID of the key that encrypts; zero without a key.
func (r *Ring) Active() (id KeyID) {
	if r != nil {
		id = r.keys[0].id
	}
	return id
}

// Check returns bytes that two brokers compare without sending them: those of the active key's ID, or
// nil without a key.
func (r *Ring) Check() []byte {
	if r == nil {
		return nil
	}
	id := r.Active()
	return id[:]
}

// IDs returns the IDs of all keys, the active one first.
func (r *Ring) IDs() (ids []KeyID) {
	if r != nil {
		for _, k := range r.keys {
			ids = append(ids, k.id)
		}
	}
	return ids
}

// Has reports whether a key is in the ring.
func (r *Ring) Has(id KeyID) bool { return r.find(id) != nil }

func (r *Ring) find(id KeyID) *Key {
	if r == nil {
		return nil
	}
	if i := slices.IndexFunc(r.keys, func(k *Key) bool { return k.id == id }); i >= 0 {
		return r.keys[i]
	}
	return nil
}
