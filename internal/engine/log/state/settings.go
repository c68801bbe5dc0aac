package state

import (
	"cmp"
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

	"github.com/sebbroker/seb/record"
)

// Unlimited is the value of a retention without limit.
const Unlimited = -1

// Settings are a topic's settings with their defaults filled in. A time that a time.Duration cannot
// hold (292 years) is the longest one; Value returns it as given.
type Settings struct {
	CleanupPolicy       string        // delete | compact | compact,delete
	RetentionTime       time.Duration // or Unlimited
	RetentionBytes      int64         // or Unlimited
	DeleteRetentionTime time.Duration
	MinCompactionLag    time.Duration
	// MinDirtyRatio is the uncompacted part of all bytes above which a partition is compacted.
	MinDirtyRatio float64
	TimestampType string // TimestampCreate | TimestampAppend
	Compression   string // producer | none | gzip | snappy | lz4 | zstd
	MaxBatchBytes int
	KeyIndex      bool
	Queue         *QueueSettings // nil: the topic is no queue
}

// Codec is the compression of records that the broker encodes itself.
func (s *Settings) Codec() record.Compression {
	for c := record.Gzip; c <= record.Zstd; c++ {
		if c.String() == s.Compression {
			return c
		}
	}
	return record.None
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

// Setting describes a setting of a topic. Validation, defaults, GET /settings and the help of
// commands use the same table.
type Setting struct {
	Name    string
	Default string
	// DefaultCompacted is the default for topics with compaction, if it differs.
	DefaultCompacted string
	Choices          []string // allowed values; nil: a number with a unit
	Unit             string   // UnitBytes, UnitTime, UnitRatio or ""
	Min, Max         string   // bounds of a number; "": none
	Unlimited        bool     // also accepts unlimited
	Meaning          string   // one sentence

	// parse returns the canonical text and sets the field of s.
	parse func(s *Settings, v string) (canonical string, err error)
}

// The units of settings. A size may have a suffix like MiB. A time has suffixes, such as 90s or 7d. A
// ratio is a decimal number.
const (
	UnitBytes = "bytes"
	UnitTime  = "time"
	UnitRatio = "ratio"
)

var settings = []Setting{
	oneOf(Setting{
		Name: "cleanup-policy", Default: "delete", Choices: []string{"delete", "compact", "compact,delete"},
		Meaning: "retention deletes old records (delete), only the newest record of each key stays (compact), or both",
	}, func(s *Settings) *string { return &s.CleanupPolicy }),
	span(Setting{
		Name: "retention-time", Default: "unlimited", Unlimited: true, Min: "0s",
		Meaning: "age at which records are deleted, such as 7d; not with compact alone",
	}, func(s *Settings) *time.Duration { return &s.RetentionTime }),
	bytesOf(Setting{
		Name: "retention-bytes", Default: "unlimited", Unlimited: true, Min: "0",
		Meaning: "size that each partition keeps at least, such as 10GiB; not with compact alone",
	}, func(s *Settings, n int64) { s.RetentionBytes = n }),
	span(Setting{
		Name: "delete-retention-time", Default: "24h", Min: "0s",
		Meaning: "compact: time for which a compacted tombstone (a record without a value) stays",
	}, func(s *Settings) *time.Duration { return &s.DeleteRetentionTime }),
	span(Setting{
		Name: "min-compaction-lag", Default: "0s", Min: "0s",
		Meaning: "compact: minimum age of records that are compacted",
	}, func(s *Settings) *time.Duration { return &s.MinCompactionLag }),
	{
		Name: "min-cleanable-dirty-ratio", Default: "0.5", Unit: UnitRatio, Min: "0", Max: "1", parse: dirtyRatio,
		Meaning: "compact: a partition is compacted when more than this part of its bytes is new; 0.5 keeps up to twice the data of a compacted one",
	},
	{
		Name: "timestamp-type", Default: TimestampCreate, Choices: []string{TimestampCreate, TimestampAppend}, parse: timestampType,
		Meaning: "producer's timestamp, or append time of the broker; create and append for short",
	},
	oneOf(Setting{
		Name: "compression", Default: "producer", Choices: []string{"producer", "none", "gzip", "snappy", "lz4", "zstd"},
		Meaning: "codec of records that the broker encodes; batches of producers stay as they are",
	}, func(s *Settings) *string { return &s.Compression }),
	bytesOf(Setting{
		Name: "max-batch-bytes", Default: strconv.Itoa(MaxBatchBytesDefault), Min: "0", Max: strconv.Itoa(maxBatchBytesMax),
		Meaning: "size of the largest batch; the default limits only batches that clients make",
	}, func(s *Settings, n int64) { s.MaxBatchBytes = int(n) }),
	{
		Name: "key-index", Default: "false", DefaultCompacted: "true", Choices: []string{"false", "true"}, parse: keyIndex,
		Meaning: "whether records can be found by key",
	},
	{
		Name: QueueSetting, Default: "", parse: queueSetting,
		Meaning: "a queue: each message goes to one worker; the settings of the queue as a JSON object; only when the topic is created",
	},
}

// defaults are the settings of a topic without settings, and of one with compaction.
var defaults, defaultsCompacted = func() (of, compacted Settings) {
	for i := range settings {
		d := &settings[i]
		d.mustParse(&of, d.Default)
		d.mustParse(&compacted, cmp.Or(d.DefaultCompacted, d.Default))
	}
	return of, compacted
}()

func (d *Setting) mustParse(s *Settings, v string) {
	if _, err := d.parse(s, v); err != nil {
		panic(fmt.Sprintf("state: default of %s: %v", d.Name, err))
	}
}

// SettingTable describes the settings of a topic.
func SettingTable() []Setting { return slices.Clone(settings) }

// SettingNames lists the settings of a topic.
func SettingNames() []string {
	names := make([]string, len(settings))
	for i := range settings {
		names[i] = settings[i].Name
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
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == k })
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
	s := defaults
	if strings.HasPrefix(canonical["cleanup-policy"], "compact") {
		s = defaultsCompacted
	}
	for i := range settings {
		d := &settings[i]
		if v, ok := canonical[d.Name]; ok {
			t := s
			if _, err := d.parse(&t, v); err == nil {
				s = t
			}
		}
	}
	return s
}

// Value returns the value of a setting in canonical form, or its default.
func Value(canonical map[string]string, name string) string {
	if v, ok := canonical[name]; ok {
		return v
	}
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
	if strings.HasPrefix(canonical["cleanup-policy"], "compact") {
		return cmp.Or(settings[i].DefaultCompacted, settings[i].Default)
	}
	return settings[i].Default
}

// oneOf adds the parser of a setting with choices.
func oneOf(d Setting, field func(*Settings) *string) Setting {
	d.parse = func(s *Settings, v string) (string, error) {
		if !slices.Contains(d.Choices, v) {
			return "", fmt.Errorf("%q is not one of %s", v, strings.Join(d.Choices, " | "))
		}
		*field(s) = v
		return v, nil
	}
	return d
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

func keyIndex(s *Settings, v string) (string, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return "", fmt.Errorf("%q is not true or false", v)
	}
	s.KeyIndex = b
	return strconv.FormatBool(b), nil
}

func dirtyRatio(s *Settings, v string) (string, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0 && n <= 1) { // also not NaN
		return "", fmt.Errorf("%q is not a number from 0 to 1", v)
	}
	s.MinDirtyRatio = n + 0 // not -0
	return strconv.FormatFloat(s.MinDirtyRatio, 'g', -1, 64), nil
}

var bytesPattern = regexp.MustCompile(`^([0-9]{1,19})\s?(B|KiB|MiB|GiB|TiB)?$`)

// bytesOf adds the parser of a size.
func bytesOf(d Setting, set func(*Settings, int64)) Setting {
	units := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	low, high := number(d.Min, 0), number(d.Max, math.MaxInt64)
	d.Unit = UnitBytes
	d.parse = func(s *Settings, v string) (string, error) {
		if d.Unlimited && (v == "unlimited" || v == "-1") {
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
	return d
}

// number returns a bound of a size, or otherwise without one.
func number(text string, otherwise int64) int64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("state: bound of a setting: " + err.Error())
	}
	return n
}

// span adds the parser of a time (parseSpan) that is not negative.
func span(d Setting, field func(*Settings) *time.Duration) Setting {
	d.Unit = UnitTime
	d.parse = func(s *Settings, v string) (string, error) {
		if d.Unlimited && (v == "unlimited" || v == "-1") {
			*field(s) = Unlimited
			return "unlimited", nil
		}
		ms, rest, err := parseSpan(v)
		switch {
		case err != nil:
			return "", err
		case ms < 0 || ms == 0 && rest < 0:
			return "", fmt.Errorf("%s is less than %s", v, d.Min)
		case ms >= math.MaxInt64/int64(time.Millisecond):
			*field(s) = math.MaxInt64
			return strconv.FormatInt(ms, 10) + "ms", nil
		}
		*field(s) = time.Duration(ms)*time.Millisecond + rest
		return field(s).String(), nil
	}
	return d
}

// Millis returns a time setting in milliseconds; Unlimited for unlimited.
func Millis(value string) (int64, error) {
	if value == "unlimited" {
		return Unlimited, nil
	}
	ms, _, err := parseSpan(value)
	return ms, err
}

// Span parses a time such as 30s, 500ms or 1d12h. A longer one than a time.Duration can be is the longest.
func Span(value string) (time.Duration, error) {
	ms, rest, err := parseSpan(value)
	switch limit := int64(math.MaxInt64 / time.Millisecond); {
	case err != nil:
		return 0, err
	case ms >= limit:
		return math.MaxInt64, nil
	}
	return time.Duration(ms)*time.Millisecond + rest, nil
}

var (
	millisPattern = regexp.MustCompile(`^([0-9]+)ms$`)
	daysPattern   = regexp.MustCompile(`^([0-9]+)d(.*)$`)
)

// parseSpan parses a time of up to 2^63-1 milliseconds, the range of Kafka: whole milliseconds, or a
// Go duration that may begin with days, such as 7d, 1d12h or 90s. The result is ms plus rest.
func parseSpan(v string) (ms int64, rest time.Duration, err error) {
	const day = int64(24 * time.Hour / time.Millisecond)
	tooLong := fmt.Errorf("%s is more than %dms", v, math.MaxInt64)
	if m := millisPattern.FindStringSubmatch(v); m != nil {
		if ms, err = strconv.ParseInt(m[1], 10, 64); err != nil {
			return 0, 0, tooLong
		}
		return ms, 0, nil
	}
	var days int64
	text := v
	if m := daysPattern.FindStringSubmatch(v); m != nil {
		if days, err = strconv.ParseInt(m[1], 10, 64); err != nil || days > math.MaxInt64/day {
			return 0, 0, tooLong
		}
		text = m[2]
	}
	if text != "" || text == v {
		if rest, err = time.ParseDuration(text); err != nil {
			return 0, 0, fmt.Errorf("%q is not a time span like 7d, 12h, 90s or 500ms", v)
		}
	}
	if rest > 0 && days*day > math.MaxInt64-rest.Milliseconds() {
		return 0, 0, tooLong
	}
	return days*day + rest.Milliseconds(), rest % time.Millisecond, nil
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

// TransactionalIDMax is the largest transactional ID in bytes.
const TransactionalIDMax = GroupNameMax

// CheckTransactionalID returns what is wrong with a transactional ID, or nil: it is like the name of a group.
func CheckTransactionalID(id string) error { return CheckGroupName(id) }

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
