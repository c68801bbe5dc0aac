package secrets

import (
	"log/slog"
	"strconv"
)

const masked = "***"

// Text is a secret that is masked when it is printed. It is a pflag.Value; Reveal returns the text.
type Text string

// Set stores s unchanged.
func (s *Text) Set(v string) error { *s = Text(v); return nil }

// String masks the secret.
func (s Text) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the secret in %#v.
func (s Text) GoString() string { return strconv.Quote(s.String()) }

// LogValue masks the secret in logs.
func (s Text) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks the secret in JSON and other encodings.
func (s Text) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Type is the name of the value in help texts.
func (*Text) Type() string { return "key" }

// Reveal returns the text.
func (s Text) Reveal() string { return string(s) }
