package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// The length of a secret's key in bytes, as the specification has it.
const (
	SecretBytesMin = 24
	SecretBytesMax = 64
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32 // of a new one: what HMAC-SHA256 can use
	maskedSecret = secretPrefix + "***"
)

// Secret is a key that sender and receiver share, written "whsec_" and the key in base64. It never prints itself, whatever
// the verb, the encoder or the logger; Reveal gives the text. The zero Secret is none. It may be used concurrently.
type Secret struct {
	// key is a function since package fmt looks into unexported fields, and with a wrong verb through pointers too.
	key func() []byte
}

// NewSecret draws a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails: it ends the program instead
	return Secret{func() []byte { return key }}
}

// ParseSecret reads a secret as Reveal writes it. Its errors do not repeat what they were given.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("webhook secret: does not begin with %s", secretPrefix)
	}
	if len(encoded) > base64.StdEncoding.EncodedLen(SecretBytesMax) {
		return Secret{}, fmt.Errorf("webhook secret: longer than %d bytes in base64", SecretBytesMax)
	}
	if strings.ContainsAny(encoded, "\r\n") { // the decoder passes over them
		return Secret{}, errors.New("webhook secret: has a line break")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("webhook secret: not base64 with padding after %s", secretPrefix)
	}
	if len(key) < SecretBytesMin || len(key) > SecretBytesMax {
		return Secret{}, fmt.Errorf("webhook secret: %d bytes, want %d to %d", len(key), SecretBytesMin, SecretBytesMax)
	}
	return Secret{func() []byte { return key }}, nil
}

// IsZero says whether there is no key.
func (s Secret) IsZero() bool { return s.key == nil }

// Reveal is the text that ParseSecret reads; "" for the zero Secret.
func (s Secret) Reveal() string {
	if s.key == nil {
		return ""
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(s.key())
}

// String masks the secret.
func (s Secret) String() string {
	if s.key == nil {
		return ""
	}
	return maskedSecret
}

// Format masks the secret with every verb of package fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue masks the secret in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks the secret in JSON and the like: what must keep it writes Reveal.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSecret; an empty text is the zero Secret.
func (s *Secret) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Secret{}
		return nil
	}
	parsed, err := ParseSecret(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}
