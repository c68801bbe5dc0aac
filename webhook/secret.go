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

// Length of a secret's key in bytes, according to the specification.
const (
	SecretBytesMin = 24
	SecretBytesMax = 64
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32 // of a new secret: the useful maximum of HMAC-SHA256
	maskedSecret = secretPrefix + "***"
)

// Secret is a key that sender and receiver share, written as "whsec_" and the key in base64.
// Formatting, encoding and logging mask it; only Reveal returns the text. The zero Secret has no
// key. A Secret may be used concurrently.
type Secret struct {
	// key is a function because package fmt prints unexported fields, and follows pointers for some
	// verbs.
	key func() []byte
}

// NewSecret returns a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never returns an error: it ends the process instead
	return Secret{func() []byte { return key }}
}

// ParseSecret parses the text of Reveal. Its errors do not contain the text.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, fmt.Errorf("webhook secret: does not begin with %s", secretPrefix)
	}
	if len(encoded) > base64.StdEncoding.EncodedLen(SecretBytesMax) {
		return Secret{}, fmt.Errorf("webhook secret: longer than %d bytes in base64", SecretBytesMax)
	}
	if strings.ContainsAny(encoded, "\r\n") { // the decoder ignores them
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

// IsZero reports whether the secret has no key.
func (s Secret) IsZero() bool { return s.key == nil }

// Reveal returns the text for ParseSecret; "" for the zero Secret.
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

// MarshalText masks the secret in JSON and other encodings. Use Reveal to store it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a secret; an empty text is the zero Secret.
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
