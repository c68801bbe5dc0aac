// Package webhook sends one firing of a trigger to a receiver, and computes the next step. It does
// not depend on the trigger engine or the log: the engine keeps the queue and calls this package.
//
//   - Delivery, Plan, Config, Target: destination and rules of a trigger's messages, validated when
//     the trigger is created.
//   - Sender: HTTP with limits on time, bytes and number. It connects to private networks only if a
//     Policy allows it.
//   - Outcome, Backoff, Rules, Cooldown: the result of an attempt and the time of the next one, as
//     pure functions, so that the engine can store the results.
package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/webhook"
)

// DeliveryBytesMax bounds the JSON of a delivery, ConcurrencyMax its messages in flight.
const (
	DeliveryBytesMax = 256 << 10
	ConcurrencyMax   = 1000
)

// Delivery is the deliver section of a trigger, in JSON: a webhook, a topic or a queue, and rules. Its
// encoding masks secrets and header values, so it can be shown but not parsed again.
type Delivery struct {
	Config
	// Topic receives the messages instead of a webhook; Config is then empty.
	Topic string `json:"topic,omitempty"`
	// Queue receives the messages instead; Config then has at most a template. Delay is the time, such as
	// 5m or 1d, until a worker gets a message.
	Queue        string     `json:"queue,omitempty"`
	Delay        string     `json:"delay,omitempty"`
	QuietHours   *Hours     `json:"quiet_hours,omitempty"`
	FrequencyCap *Frequency `json:"frequency_cap,omitempty"`
	// Retries are the delays between attempts, such as "5s", "30m" or "1d". nil means those of
	// DefaultBackoff, an empty list a single attempt.
	Retries []string `json:"retries,omitzero"`
	// Concurrency is the number of messages in flight, at most ConcurrencyMax. nil adapts it to the
	// receiver.
	Concurrency *int `json:"concurrency,omitempty"`

	secretFaults []error // of invalid secrets
}

// Hours are quiet hours in the form of ParseQuietHours.
type Hours struct {
	From string `json:"from"`
	To   string `json:"to"`
	Zone string `json:"zone"`
}

// Frequency is a Cap with its span as text.
type Frequency struct {
	Count int    `json:"count"`
	Per   string `json:"per"`
}

// Plan is a validated Delivery. It may be used concurrently.
type Plan struct {
	Target  *Target // nil with a Topic or a Queue
	Topic   string
	Queue   *Queue
	Rules   Rules
	Backoff Backoff
	// Concurrency is the number of messages in flight; 0 adapts it to the receiver.
	Concurrency int
}

// Queue is a queue that receives messages.
type Queue struct {
	body
	Name  string
	Delay time.Duration
}

// errSealed: the values are in the form of the bucket, which only the broker makes.
var errSealed = errors.New("delivery: secrets and headers are in the encrypted form of the bucket: want the values themselves")

// ParseDelivery parses the JSON of a Delivery. It only reports invalid JSON and encrypted values;
// Plan reports invalid values, including secrets.
func ParseDelivery(text []byte) (Delivery, error) {
	if len(text) > DeliveryBytesMax {
		return Delivery{}, fmt.Errorf("delivery: %d bytes, limit %d", len(text), DeliveryBytesMax)
	}
	var given givenDelivery
	if err := input.JSON(text, &given, input.NullIsAbsent); err != nil {
		return Delivery{}, fmt.Errorf("delivery: %w", err)
	}
	return given.delivery(false)
}

// ParseOpened is ParseDelivery for a stored section after its values were decrypted. It ignores what
// ParseDelivery refuses about members: the version that stored the section may have known more of
// them, or let the last of two win.
func ParseOpened(text []byte) (Delivery, error) {
	var given givenDelivery
	if err := json.Unmarshal(text, &given); err != nil {
		return Delivery{}, errStored // err may contain a value
	}
	return given.delivery(false)
}

// ParseStored is ParseOpened for a section whose secrets may be encrypted. Other secrets then stand
// for them, so the result can only be shown.
func ParseStored(text []byte) (Delivery, error) {
	var given givenDelivery
	if err := json.Unmarshal(text, &given); err != nil {
		return Delivery{}, errStored
	}
	return given.delivery(true)
}

var errStored = errors.New("delivery: the stored section is not the JSON of a delivery")

// givenDelivery is the JSON of a Delivery, with secrets that may be invalid or encrypted.
type givenDelivery struct {
	Delivery
	Secrets []string `json:"secrets"`
	Wrap    *string  `json:"sealed_by"`
}

func (given *givenDelivery) delivery(stored bool) (Delivery, error) {
	d := given.Delivery
	sealed := func(value string) bool { return strings.HasPrefix(value, secrets.ValuePrefix) }
	for _, value := range d.Headers {
		if !stored && sealed(value.Reveal()) {
			return Delivery{}, errSealed
		}
	}
	if !stored && (given.Wrap != nil || slices.ContainsFunc(given.Secrets, sealed)) {
		return Delivery{}, errSealed
	}
	for i, text := range given.Secrets {
		if given.Wrap != nil {
			d.Secrets = append(d.Secrets, webhook.NewSecret())
			continue
		}
		secret, err := parseSecret(text)
		if err != nil {
			d.secretFaults = append(d.secretFaults, fmt.Errorf("secrets: number %d %w", i+1, err))
			continue
		}
		d.Secrets = append(d.Secrets, secret)
	}
	return d, nil
}

// parseSecret keeps the input out of its errors.
func parseSecret(text string) (webhook.Secret, error) {
	switch text {
	case "":
		return webhook.Secret{}, errors.New("is empty")
	case webhook.NewSecret().String():
		return webhook.Secret{}, errors.New("is masked: want the secret itself")
	}
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		return secret, errors.New(strings.TrimPrefix(err.Error(), "webhook secret: "))
	}
	return secret, nil
}

// Plan validates a delivery and reports all faults at once, each with its field. p and events are
// those of Parse.
func (d Delivery) Plan(p Policy, events []string) (*Plan, error) {
	plan := &Plan{Backoff: DefaultBackoff()}
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	var err error
	plan.Topic = d.Topic
	switch {
	case d.Queue != "":
		plan.Queue, err = d.queue(events)
	case d.Delay != "":
		fault(errors.New("delay: requires a queue"))
	case d.Topic != "":
		err = d.checkTopic()
	default:
		if len(d.secretFaults) > 0 && len(d.Secrets) == 0 { // their faults are reported below
			d.Secrets = []webhook.Secret{webhook.NewSecret()}
		}
		plan.Target, err = Parse(d.Config, p, events)
	}
	fault(err)
	fault(errors.Join(d.secretFaults...))
	if q := d.QuietHours; q != nil {
		plan.Rules.Quiet, err = ParseQuietHours(q.From, q.To, q.Zone)
		fault(err)
	}
	if f := d.FrequencyCap; f != nil {
		if plan.Rules.Cap, err = f.parse(); err != nil {
			fault(fmt.Errorf("frequency cap: per: %w", err))
		} else if plan.Rules.Cap == (Cap{}) {
			fault(errors.New("frequency cap: count and per are 0"))
		} else {
			fault(plan.Rules.Cap.Validate())
		}
	}
	if d.Retries != nil {
		plan.Backoff.Delays, err = parseDelays(d.Retries)
		fault(err)
	}
	if err == nil {
		fault(plan.Backoff.Validate())
	}
	if c := d.Concurrency; c != nil {
		if plan.Concurrency = *c; *c < 1 || *c > ConcurrencyMax {
			fault(fmt.Errorf("concurrency: %d, want 1 to %d", *c, ConcurrencyMax))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return plan, nil
}

// CapSpan is the span of the frequency cap in the JSON of a Delivery, 0 without one. If the JSON is
// invalid it is the longest possible span. During this span a delivery counts towards the cap of
// its entity.
func CapSpan(text []byte) time.Duration {
	if len(text) == 0 || string(text) == "null" {
		return 0
	}
	d, err := ParseStored(text)
	if err != nil {
		return CapPerMax
	}
	if d.FrequencyCap == nil {
		return 0
	}
	c, err := d.FrequencyCap.parse()
	if err != nil {
		return CapPerMax
	}
	return c.Per
}

// QuietOf is the quiet hours in the JSON of a Delivery; none if it has none or is invalid.
func QuietOf(text []byte) QuietHours {
	if len(text) == 0 || string(text) == "null" {
		return QuietHours{}
	}
	d, err := ParseStored(text)
	if err != nil || d.QuietHours == nil {
		return QuietHours{}
	}
	q, err := ParseQuietHours(d.QuietHours.From, d.QuietHours.To, d.QuietHours.Zone)
	if err != nil {
		return QuietHours{}
	}
	return q
}

// checkTopic validates a delivery to a topic.
func (d Delivery) checkTopic() error {
	if d.isHook() || d.Template != "" || d.ContentType != "" {
		return errors.New("topic: excludes url, headers, secrets, template and content_type")
	}
	return checkName("topic", d.Topic)
}

// queue validates a delivery to a queue. Only a broker knows whether the queue exists.
func (d Delivery) queue(events []string) (*Queue, error) {
	q := &Queue{Name: d.Queue}
	var faults []error
	if d.isHook() || d.Topic != "" {
		faults = append(faults, errors.New("queue: excludes topic, url, headers and secrets"))
	}
	faults = append(faults, checkName("queue", d.Queue))
	if d.Delay != "" {
		var err error
		if q.Delay, err = state.Span(d.Delay); err != nil {
			faults = append(faults, fmt.Errorf("delay: %w", err))
		} else if q.Delay > state.QueueDelayMax {
			faults = append(faults, fmt.Errorf("delay: %.32q is more than 365d", d.Delay))
		}
	}
	q.body = d.body(events, func(field string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", field, err))
		}
	})
	return q, errors.Join(faults...)
}

// isHook reports whether the delivery has what only webhooks have.
func (d Delivery) isHook() bool {
	return d.URL != "" || len(d.Headers)+len(d.Secrets)+len(d.secretFaults) > 0
}

func checkName(field, name string) error {
	if err := state.CheckTopicName(name); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	if name == "triggers" || name == "firings" { // topics of the engine
		return fmt.Errorf("%s: %s is reserved for the trigger engine", field, name)
	}
	return nil
}

func (f Frequency) parse() (Cap, error) {
	per, err := parseDuration(f.Per)
	return Cap{Count: f.Count, Per: per}, err
}

// parseDelays adds the first attempt, which has no delay, before the others.
func parseDelays(texts []string) ([]time.Duration, error) {
	delays := []time.Duration{0}
	for i, text := range texts {
		if i >= delaysMax-1 {
			return nil, fmt.Errorf("retries: %d delays, limit %d", len(texts), delaysMax-1)
		}
		d, err := parseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("retries: number %d: %w", i+1, err)
		}
		if d > delayMax {
			return nil, fmt.Errorf("retries: number %d: %.32q, limit %dd", i+1, text, delayMax/day)
		}
		delays = append(delays, d)
	}
	return delays, nil
}

// parseDuration accepts whole days in addition to the units of package time.
func parseDuration(text string) (time.Duration, error) {
	const daysMax = 100_000
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && n <= daysMax {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("invalid duration %.32q, want one such as 30m, 1h30m or 7d", text)
}

const (
	// retryAfterMax bounds the delay that a receiver may request; it is the longest delay of the
	// schedule.
	retryAfterMax = 24 * time.Hour
	delaysMax     = 64
	delayMax      = 7 * 24 * time.Hour
)

// Backoff is the retry schedule of failed messages. It may be used concurrently.
type Backoff struct {
	// Delays are the delays before the attempts: Delays[0] before the first, Delays[n] after n
	// failures. After the last one the message is dead.
	Delays []time.Duration
	// Jitter is the largest random part, 0 to 1, that is added to a delay, so that messages that
	// fail together are not retried together.
	Jitter float64
}

// DefaultBackoff is the schedule that Standard Webhooks recommends: ten attempts in a little over
// three days.
func DefaultBackoff() Backoff {
	return Backoff{
		Delays: []time.Duration{
			0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		},
		Jitter: 0.2,
	}
}

// Validate reports all faults at once.
func (b Backoff) Validate() error {
	var faults []error
	if n := len(b.Delays); n < 1 || n > delaysMax {
		faults = append(faults, fmt.Errorf("backoff: %d delays, want 1 to %d", n, delaysMax))
	}
	for i, d := range b.Delays {
		if d < 0 || d > delayMax {
			faults = append(faults, fmt.Errorf("backoff: delay %d is %v, want 0 to %v", i+1, d, delayMax))
		}
	}
	if !(b.Jitter >= 0 && b.Jitter <= 1) {
		faults = append(faults, fmt.Errorf("backoff: jitter is %v, want 0 to 1", b.Jitter))
	}
	return errors.Join(faults...)
}

// Next returns the time of the next attempt after attempt number made (1 is the first) ended with o
// at now; random is from [0,1). again is false if the message was delivered, failed permanently, or
// has no attempts left; in the last two cases it is dead. Retry-After can extend the delay to up to
// 24 hours, but never shorten it.
//
// A Stopped attempt does not count: next is now.
func (b Backoff) Next(o Outcome, made int, now time.Time, random float64) (next time.Time, again bool) {
	switch o.Kind {
	case Stopped:
		return now, true
	case Retry:
	default:
		return time.Time{}, false
	}
	if made < 0 || made >= len(b.Delays) {
		return time.Time{}, false
	}
	wait := max(b.Delays[made], min(o.RetryAfter, retryAfterMax))
	return now.Add(wait + time.Duration(float64(wait)*b.Jitter*random)), true
}
