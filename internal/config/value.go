package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size in bytes: "10485760", "10MiB", "1GiB" (powers of 1024; "10M" and "10MB" mean the
// same). It is a pflag.Value.
type Bytes int64

var sizeUnits = []struct {
	suffix string
	shift  uint
}{{"gib", 30}, {"gb", 30}, {"g", 30}, {"mib", 20}, {"mb", 20}, {"m", 20}, {"kib", 10}, {"kb", 10}, {"k", 10}, {"b", 0}, {"", 0}}

var errSize = errors.New(`want a size such as 10485760, 10MiB or 1GiB`)

// Set parses s.
func (b *Bytes) Set(s string) error {
	low := strings.ToLower(strings.TrimSpace(s))
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(low, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
			return errSize
		}
		*b = Bytes(n << u.shift)
		return nil
	}
	return errSize
}

// String returns the size in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range sizeUnits {
		if u.shift > 0 && b > 0 && b%(1<<u.shift) == 0 {
			return strconv.FormatInt(int64(b)>>u.shift, 10) + map[uint]string{30: "GiB", 20: "MiB", 10: "KiB"}[u.shift]
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Type is the name of the value in help texts.
func (*Bytes) Type() string { return "size" }

// List is a list of texts without commas. It is a pflag.Value: each flag adds to the list, and a
// value may have several texts with commas.
type List string

// Set adds texts.
func (l *List) Set(s string) error {
	if *l != "" {
		s = string(*l) + "," + s
	}
	*l = List(s)
	return nil
}

// List returns the texts without surrounding white space.
func (l List) List() (texts []string) {
	for text := range strings.SplitSeq(string(l), ",") {
		if text = strings.TrimSpace(text); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// String returns the texts with commas.
func (l List) String() string { return strings.Join(l.List(), ",") }

// Type is the name of the value in help texts.
func (*List) Type() string { return "list" }

const masked = "***"

// Secret is a text that is masked when it is printed. It is a pflag.Value; Reveal returns the text.
type Secret string

// Set stores s unchanged.
func (s *Secret) Set(v string) error { *s = Secret(v); return nil }

// String masks the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the secret in %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue masks the secret in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks the secret in JSON and other encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Type is the name of the value in help texts.
func (*Secret) Type() string { return "key" }

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// level is the flag of a log level: a name, or a number of the original program's flag (3 warn, 4
// info, 5 debug).
type level slog.Level

func (l *level) Set(s string) error {
	switch strings.ToLower(s) {
	case "0", "1", "2", "error":
		*l = level(slog.LevelError)
	case "3", "warn", "warning":
		*l = level(slog.LevelWarn)
	case "4", "info":
		*l = level(slog.LevelInfo)
	case "5", "6", "debug":
		*l = level(slog.LevelDebug)
	default:
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

func (l *level) String() string { return strings.ToLower(slog.Level(*l).String()) }
func (*level) Type() string     { return "level" }

// autoDuration is a duration or "auto" (any negative value).
type autoDuration time.Duration

func (d *autoDuration) Set(s string) error {
	if s == "auto" {
		*d = autoDuration(AutoWait)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("want a duration such as 250ms, or auto")
	}
	*d = autoDuration(v)
	return nil
}

func (d *autoDuration) String() string {
	if *d < 0 {
		return "auto"
	}
	return time.Duration(*d).String()
}
func (*autoDuration) Type() string { return "duration" }
