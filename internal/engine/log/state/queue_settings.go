package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/input"
)

// QueueSetting is the setting that makes a topic a queue: a JSON object of the settings in
// QueueSettingTable.
const QueueSetting = "queue"

// NoDeadLetter is the value of dead-letter for a queue without a dead-letter queue.
const NoDeadLetter = "none"

// QueueSettings are a queue's settings with their defaults filled in.
type QueueSettings struct {
	Visibility    time.Duration
	MaxDeliveries int // 0: no limit
	Backoff       QueueBackoff
	DeadLetter    string // "" or NoDeadLetter: none
	Delay         time.Duration
	KeepDone      time.Duration // or Unlimited
	Expire        time.Duration // or Unlimited
	DedupWindow   time.Duration
	InFlightMax   int
	KeyMode       string // KeyNone | KeyOrder | KeyFair
	KeyLimit      int    // 0: no limit
	Rate, KeyRate float64
	Paused        bool
	SQS           string // what the SQS API keeps, as JSON; "": nothing
}

// QueueSQSMax bounds the setting sqs in bytes.
const QueueSQSMax = 8 << 10

// The values of key-mode.
const (
	KeyNone  = "none"
	KeyOrder = "order"
	KeyFair  = "fair"
)

// QueuePrioritiesMax bounds the partitions of a queue, each of which is a priority.
const QueuePrioritiesMax = 10

// QueueDelayMax bounds delays and the times of retries, QueueVisibilityMax a lease.
const (
	QueueDelayMax      = 365 * 24 * time.Hour
	QueueVisibilityMax = 12 * time.Hour
)

// QueueBackoff is the delays before retries: Steps, the last of which repeats, or without Steps from
// First on twice the last one, up to Last.
type QueueBackoff struct {
	Steps       []time.Duration
	First, Last time.Duration
}

// After returns the delay after a number of deliveries, at least 1.
func (b *QueueBackoff) After(deliveries uint32) time.Duration {
	n := int64(max(1, deliveries)) - 1
	if len(b.Steps) > 0 {
		return b.Steps[min(n, int64(len(b.Steps)-1))]
	}
	d := b.First
	for ; n > 0 && d < b.Last; n-- {
		d *= 2
	}
	return min(d, b.Last)
}

var queueSettings = []Setting{
	within(span(Setting{
		Name: "visibility", Default: "30s", Min: "1s", Max: "12h",
		Meaning: "time that a worker has for a message before another one gets it",
	}, func(s *Settings) *time.Duration { return &s.Queue.Visibility }), time.Second, QueueVisibilityMax),
	count(Setting{
		Name: "max-deliveries", Default: "5", Min: "0", Max: "1000",
		Meaning: "deliveries of a message before it goes to the dead-letter queue; 0, and always without one: no limit",
	}, func(s *Settings, n int) { s.Queue.MaxDeliveries = n }),
	{
		Name: "backoff", Default: "exponential 1s..10m", parse: queueBackoff,
		Meaning: "delay before a failed message is tried again: a list such as 1s,10s,5m, or exponential with the first and the largest delay; random by a fifth",
	},
	{
		Name: "dead-letter", Default: "", parse: deadLetter,
		Meaning: "queue that gets the messages that failed too often; at creation that of the queue's name with .dead; none: no such queue",
	},
	within(span(Setting{
		Name: "delay", Default: "0s", Min: "0s", Max: "365d", Meaning: "time before a message is given to a worker first",
	}, func(s *Settings) *time.Duration { return &s.Queue.Delay }), 0, QueueDelayMax),
	span(Setting{
		Name: "keep-done", Default: "96h0m0s", Unlimited: true, Min: "0s",
		Meaning: "time for which messages stay after they and all older ones are done",
	}, func(s *Settings) *time.Duration { return &s.Queue.KeepDone }),
	span(Setting{
		Name: "expire", Default: "unlimited", Unlimited: true, Min: "0s",
		Meaning: "age at which a message that is not done is given to no worker any more",
	}, func(s *Settings) *time.Duration { return &s.Queue.Expire }),
	within(span(Setting{
		Name: "dedup-window", Default: "5m0s", Min: "0s", Max: "24h",
		Meaning: "time in which a message with the same dedup ID is not stored again",
	}, func(s *Settings) *time.Duration { return &s.Queue.DedupWindow }), 0, 24*time.Hour),
	count(Setting{
		Name: "in-flight-max", Default: "20000", Min: "1", Max: "120000", Meaning: "messages that workers have at once",
	}, func(s *Settings, n int) { s.Queue.InFlightMax = n }),
	oneOf(Setting{
		Name: "key-mode", Default: KeyNone, Choices: []string{KeyNone, KeyOrder, KeyFair},
		Meaning: "what keys mean: nothing; the messages of a key in order and one at a time, over SQS several together; or parallel, but a key with much in flight lets others pass",
	}, func(s *Settings) *string { return &s.Queue.KeyMode }),
	count(Setting{
		Name: "key-limit", Default: "0", Min: "0", Max: "120000", Meaning: "messages of one key that workers have at once; 0: no limit",
	}, func(s *Settings, n int) { s.Queue.KeyLimit = n }),
	perSecond(Setting{Name: "rate", Meaning: "messages that workers get in a second; 0: no limit"}, func(s *Settings) *float64 { return &s.Queue.Rate }),
	perSecond(Setting{Name: "key-rate", Meaning: "messages of one key that workers get in a second; 0: no limit"}, func(s *Settings) *float64 { return &s.Queue.KeyRate }),
	{
		Name: "paused", Default: "false", Choices: []string{"false", "true"}, Meaning: "whether workers get no messages",
		parse: func(s *Settings, v string) (string, error) {
			paused, err := strconv.ParseBool(v)
			if err != nil {
				return "", fmt.Errorf("%q is not true or false", v)
			}
			s.Queue.Paused = paused
			return strconv.FormatBool(paused), nil
		},
	},
	{
		Name: "sqs", Default: "", parse: sqsSetting,
		Meaning: "attributes and tags of the SQS API that have no meaning for the queue, as a JSON object of at most 8 KiB",
	},
}

// QueueSettingTable describes the settings of a queue.
func QueueSettingTable() []Setting { return slices.Clone(queueSettings) }

// queueDefaults are the settings of a queue without settings.
var queueDefaults = func() QueueSettings {
	s := Settings{Queue: &QueueSettings{}}
	for i := range queueSettings {
		queueSettings[i].mustParse(&s, queueSettings[i].Default)
	}
	return *s.Queue
}()

// CheckQueueSettings returns the settings of a queue in canonical form, and what they mean; or an error
// that names every invalid setting, the given value and the allowed values.
func CheckQueueSettings(given map[string]string) (map[string]string, QueueSettings, error) {
	out := make(map[string]string, len(given))
	q := queueDefaults
	s := Settings{Queue: &q}
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(queueSettings, func(s Setting) bool { return s.Name == k })
		if i < 0 {
			errs = append(errs, fmt.Errorf("unknown setting %q of a queue; known settings: %s", k, strings.Join(queueSettingNames(), ", ")))
			continue
		}
		v, err := queueSettings[i].parse(&s, strings.TrimSpace(given[k]))
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %s: %w", k, err))
			continue
		}
		out[k] = v
	}
	if q.KeyMode == KeyOrder && q.KeyLimit > 1 {
		errs = append(errs, fmt.Errorf("settings key-mode and key-limit contradict each other: with order a key has one message in flight, and key-limit is %d", q.KeyLimit))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, QueueSettings{}, err
	}
	if q.DeadLetter == "" || q.DeadLetter == NoDeadLetter {
		q.MaxDeliveries = 0
	}
	return out, q, nil
}

func queueSettingNames() (names []string) {
	for i := range queueSettings {
		names = append(names, queueSettings[i].Name)
	}
	return names
}

// QueueText is the value of the setting queue for settings in canonical form.
func QueueText(canonical map[string]string) string {
	if canonical == nil {
		canonical = map[string]string{}
	}
	b, _ := json.Marshal(canonical) // strings, by name: cannot fail
	return string(b)
}

// QueueSettingsOf returns the settings in the value of the setting queue.
func QueueSettingsOf(text string) (map[string]string, error) {
	var given map[string]string
	if err := input.JSON([]byte(text), &given, input.NullIsAbsent); err != nil || given == nil {
		return nil, fmt.Errorf(`%.64q is not a JSON object of strings, such as {"visibility":"1m"}`, text)
	}
	return given, nil
}

// queueSetting is the parser of the setting queue.
func queueSetting(s *Settings, v string) (string, error) {
	if v == "" {
		s.Queue = nil
		return "", nil
	}
	given, err := QueueSettingsOf(v)
	if err != nil {
		return "", err
	}
	canonical, q, err := CheckQueueSettings(given)
	if err != nil {
		return "", err
	}
	s.Queue = &q
	return QueueText(canonical), nil
}

// IsQueue reports whether the topic is a queue. It only looks up one setting.
func (t *Topic) IsQueue() bool { return t.Settings[QueueSetting] != "" }

// within adds bounds to the parser of a time.
func within(d Setting, least, most time.Duration) Setting {
	parse := d.parse
	d.parse = func(s *Settings, v string) (string, error) {
		out, err := parse(s, v)
		if err != nil {
			return "", err
		}
		if n, err := time.ParseDuration(out); err != nil || n < least || n > most {
			return "", fmt.Errorf("%s is not between %s and %s", v, d.Min, d.Max)
		}
		return out, nil
	}
	return d
}

// count adds the parser of a number.
func count(d Setting, set func(*Settings, int)) Setting {
	low, high := number(d.Min, 0), number(d.Max, math.MaxInt32)
	d.parse = func(s *Settings, v string) (string, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < low || n > high {
			return "", fmt.Errorf("%q is not a number from %d to %d", v, low, high)
		}
		set(s, int(n))
		return strconv.FormatInt(n, 10), nil
	}
	return d
}

// perSecond adds the parser of a rate.
func perSecond(d Setting, field func(*Settings) *float64) Setting {
	const most = 1_000_000
	d.Default, d.Min, d.Max = "0", "0", strconv.Itoa(most)
	d.parse = func(s *Settings, v string) (string, error) {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n == 0 || n >= 0.001 && n <= most) { // also not NaN
			return "", fmt.Errorf("%q is not 0 or a number from 0.001 to %d", v, most)
		}
		*field(s) = n + 0 // not -0
		return strconv.FormatFloat(n+0, 'g', -1, 64), nil
	}
	return d
}

// queueBackoff is the parser of backoff.
func queueBackoff(s *Settings, v string) (string, error) {
	const steps = 64
	read := func(text string) (time.Duration, error) {
		d, err := Span(strings.TrimSpace(text))
		if err == nil && (d < 0 || d > QueueDelayMax) {
			err = fmt.Errorf("%s is not between 0s and 365d", text)
		}
		return d, err
	}
	var b QueueBackoff
	if bounds, ok := strings.CutPrefix(v, "exponential "); ok {
		first, last, ok := strings.Cut(bounds, "..")
		if !ok {
			return "", fmt.Errorf("%q is not like exponential 1s..10m", v)
		}
		var err1, err2 error
		b.First, err1 = read(first)
		if b.Last, err2 = read(last); err1 != nil || err2 != nil {
			return "", errors.Join(err1, err2)
		}
		if b.First < time.Millisecond || b.Last < b.First {
			return "", fmt.Errorf("%q: want a first delay of at least 1ms, and a last one that is not shorter", v)
		}
		s.Queue.Backoff = b
		return fmt.Sprintf("exponential %s..%s", b.First, b.Last), nil
	}
	texts := strings.Split(v, ",")
	if len(texts) > steps {
		return "", fmt.Errorf("%d delays, limit %d", len(texts), steps)
	}
	canonical := make([]string, len(texts))
	for i, text := range texts {
		d, err := read(text)
		if err != nil {
			return "", err
		}
		b.Steps = append(b.Steps, d)
		canonical[i] = d.String()
	}
	s.Queue.Backoff = b
	return strings.Join(canonical, ","), nil
}

func sqsSetting(s *Settings, v string) (string, error) {
	var m map[string]json.RawMessage
	if v != "" && (len(v) > QueueSQSMax || json.Unmarshal([]byte(v), &m) != nil) {
		return "", fmt.Errorf("%.40q is no JSON object of at most %d bytes", v, QueueSQSMax)
	}
	s.Queue.SQS = v
	return v, nil
}

func deadLetter(s *Settings, v string) (string, error) {
	if v != "" && v != NoDeadLetter {
		if err := CheckTopicName(v); err != nil {
			return "", err
		}
	}
	s.Queue.DeadLetter = v
	return v, nil
}
