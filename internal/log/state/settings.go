package state

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Unlimited is the value of a retention without limit.
const Unlimited = -1

// Settings are a topic's settings with their defaults filled in.
type Settings struct {
	CleanupPolicy       string        // delete | compact | compact,delete
	RetentionTime       time.Duration // or Unlimited
	RetentionBytes      int64         // or Unlimited
	DeleteRetentionTime time.Duration
	MinCompactionLag    time.Duration
	TimestampType       string // TimestampCreate | TimestampAppend
	Compression         string // producer | none | gzip | snappy | lz4 | zstd
	MaxBatchBytes       int
	KeyIndex            bool
}

// The values of timestamp-type in canonical form, as in Kafka. CheckSettings also accepts create
// and append.
const (
	TimestampCreate = "CreateTime"    // records keep their producer's timestamps
	TimestampAppend = "LogAppendTime" // records get the append time of their slot
)

// MaxBatchBytesDefault is the default of max-batch-bytes, Kafka's.
const MaxBatchBytesDefault = 1_048_588

// maxBatchBytesMax bounds max-batch-bytes: no object may hold a larger record.
const maxBatchBytesMax = 30 << 20

// setting parses one setting: it returns the canonical text and sets the field of s.
type setting struct {
	name  string
	parse func(s *Settings, v string) (canonical string, err error)
}

var settings = []setting{
	{"cleanup-policy", oneOf(func(s *Settings) *string { return &s.CleanupPolicy }, "delete", "compact", "compact,delete")},
	{"retention-time", span(func(s *Settings) *time.Duration { return &s.RetentionTime }, true)},
	{"retention-bytes", bytesOf(func(s *Settings, n int64) { s.RetentionBytes = n }, 1, math.MaxInt64, true)},
	{"delete-retention-time", span(func(s *Settings) *time.Duration { return &s.DeleteRetentionTime }, false)},
	{"min-compaction-lag", span(func(s *Settings) *time.Duration { return &s.MinCompactionLag }, false)},
	{"timestamp-type", timestampType},
	{"compression", oneOf(func(s *Settings) *string { return &s.Compression }, "producer", "none", "gzip", "snappy", "lz4", "zstd")},
	{"max-batch-bytes", bytesOf(func(s *Settings, n int64) { s.MaxBatchBytes = int(n) }, 128, maxBatchBytesMax, false)},
	{"key-index", boolean(func(s *Settings, b bool) { s.KeyIndex = b })},
}

// SettingNames lists the settings of a topic.
func SettingNames() []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.name
	}
	return names
}

// CheckSettings returns the settings in canonical form, or an error that names every invalid
// setting, the given value and the allowed values.
func CheckSettings(given map[string]string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(given))
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.name == k })
		if i < 0 {
			errs = append(errs, fmt.Errorf("unknown setting %q; known settings: %s", k, strings.Join(SettingNames(), ", ")))
			continue
		}
		var s Settings
		v, err := settings[i].parse(&s, strings.TrimSpace(given[k]))
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %s: %w", k, err))
			continue
		}
		out[k] = v
	}
	return out, errors.Join(errs...)
}

// Resolve fills in the defaults. It skips unknown and invalid settings, which CheckSettings
// refuses.
func Resolve(canonical map[string]string) Settings {
	s := Settings{
		CleanupPolicy: "delete", RetentionTime: Unlimited, RetentionBytes: Unlimited, DeleteRetentionTime: 24 * time.Hour,
		TimestampType: TimestampCreate, Compression: "producer", MaxBatchBytes: MaxBatchBytesDefault,
	}
	s.KeyIndex = strings.HasPrefix(canonical["cleanup-policy"], "compact")
	for _, d := range settings {
		if v, ok := canonical[d.name]; ok {
			t := s
			if _, err := d.parse(&t, v); err == nil {
				s = t
			}
		}
	}
	return s
}

func oneOf(field func(*Settings) *string, allowed ...string) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		if !slices.Contains(allowed, v) {
			return "", fmt.Errorf("%q is not one of %s", v, strings.Join(allowed, " | "))
		}
		*field(s) = v
		return v, nil
	}
}

// timestampType accepts Kafka's names and shorter ones.
func timestampType(s *Settings, v string) (string, error) {
	switch v {
	case TimestampCreate, "create":
		s.TimestampType = TimestampCreate
	case TimestampAppend, "append":
		s.TimestampType = TimestampAppend
	default:
		return "", fmt.Errorf("%q is neither create (%s) nor append (%s)", v, TimestampCreate, TimestampAppend)
	}
	return s.TimestampType, nil
}

// LogAppendTime reports whether the records of the topic get the log's append time instead of their
// producer's timestamps. It only looks up one setting.
func (t *Topic) LogAppendTime() bool { return t.Settings["timestamp-type"] == TimestampAppend }

func boolean(set func(*Settings, bool)) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return "", fmt.Errorf("%q is not true or false", v)
		}
		set(s, b)
		return strconv.FormatBool(b), nil
	}
}

var bytesPattern = regexp.MustCompile(`^([0-9]{1,19})\s?(B|KiB|MiB|GiB|TiB)?$`)

func bytesOf(set func(*Settings, int64), low, high int64, unlimited bool) func(*Settings, string) (string, error) {
	units := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	return func(s *Settings, v string) (string, error) {
		if unlimited && (v == "unlimited" || v == "-1") {
			set(s, Unlimited)
			return "unlimited", nil
		}
		m := bytesPattern.FindStringSubmatch(v)
		if m == nil {
			return "", fmt.Errorf("%q is not a number of bytes like 1048576 or 16MiB", v)
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		unit := units[m[2]]
		if err != nil || n > math.MaxInt64/unit || n*unit < low || n*unit > high {
			return "", fmt.Errorf("%s is not between %d and %d bytes", v, low, high)
		}
		set(s, n*unit)
		return strconv.FormatInt(n*unit, 10), nil
	}
}

var daysPattern = regexp.MustCompile(`^([0-9]{1,6})d(.*)$`)

// span parses a Go duration that may begin with days: 7d, 1d12h, 90s.
func span(field func(*Settings) *time.Duration, unlimited bool) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		if unlimited && (v == "unlimited" || v == "-1") {
			*field(s) = Unlimited
			return "unlimited", nil
		}
		var days time.Duration
		rest := v
		if m := daysPattern.FindStringSubmatch(v); m != nil {
			n, _ := strconv.Atoi(m[1])
			if n > 100_000 {
				return "", fmt.Errorf("%s is more than 100000d", v)
			}
			days, rest = time.Duration(n)*24*time.Hour, m[2]
		}
		var d time.Duration
		if rest != "" || days == 0 && v == "" {
			var err error
			if d, err = time.ParseDuration(rest); err != nil {
				return "", fmt.Errorf("%q is not a time span like 90s, 12h or 7d", v)
			}
		}
		least := time.Duration(0)
		if unlimited {
			least = time.Second
		}
		sum := d + days
		switch {
		case sum < d: // overflow
			return "", fmt.Errorf("%s is more than 100000d", v)
		case sum < least:
			return "", fmt.Errorf("%s is less than %s", v, least)
		}
		*field(s) = sum
		return sum.String(), nil
	}
}

// GroupNameMax is the maximum length of a consumer group's name in bytes.
const GroupNameMax = 249

// CheckGroupName returns what is wrong with a consumer group's name, or nil.
func CheckGroupName(name string) error {
	if name == "" || len(name) > GroupNameMax {
		return fmt.Errorf("name has %d bytes, want 1 to %d", len(name), GroupNameMax)
	}
	if !utf8.ValidString(name) {
		return errors.New("name is not UTF-8")
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("name contains non-printable character %U", r)
		}
	}
	return nil
}

// CheckTopicName returns what is wrong with a topic's name, or nil.
func CheckTopicName(name string) error {
	good := len(name) >= 1 && len(name) <= 249 && name != "." && name != ".."
	for i := 0; i < len(name) && good; i++ {
		c := name[i]
		good = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !good {
		if len(name) > 100 {
			name = name[:100] + "..."
		}
		return fmt.Errorf("topic name %q: want 1 to 249 of A-Z a-z 0-9 . _ - and neither . nor .. alone", name)
	}
	return nil
}
