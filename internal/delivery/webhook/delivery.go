package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/webhook"
)

// DeliveryBytesMax is how long a delivery may be in JSON.
const DeliveryBytesMax = 256 << 10

// Delivery is what a trigger's author says about where its messages go, in JSON: to a webhook or a topic. Encoding it masks secrets and the values of headers:
// it can be shown, and not be read again.
type Delivery struct {
	Config
	// Topic has the messages appended instead of posted: it stands in the place of a Config.
	Topic        string     `json:"topic,omitempty"`
	QuietHours   *Hours     `json:"quiet_hours,omitempty"`
	FrequencyCap *Frequency `json:"frequency_cap,omitempty"`
	// Retries are the waits between attempts, such as "5s", "30m" or "1d"; nil means those of DefaultBackoff, an empty list one
	// attempt.
	Retries []string `json:"retries,omitempty"`

	secretFaults []error // of what was given in the place of Secrets
}

// Hours are quiet hours as ParseQuietHours reads them.
type Hours struct {
	From string `json:"from"`
	To   string `json:"to"`
	Zone string `json:"zone"`
}

// Frequency is a Cap with its span as a text.
type Frequency struct {
	Count int    `json:"count"`
	Per   string `json:"per"`
}

// Plan is a Delivery that was checked. It may be used concurrently.
type Plan struct {
	Target  *Target // nil with a Topic
	Topic   string
	Rules   Rules
	Backoff Backoff
}

// ParseDelivery reads the JSON of a Delivery. A fault in the JSON itself is the only one: Plan says what is wrong with values,
// secrets too.
func ParseDelivery(text []byte) (Delivery, error) {
	if len(text) > DeliveryBytesMax {
		return Delivery{}, fmt.Errorf("delivery: %d bytes, at most %d", len(text), DeliveryBytesMax)
	}
	var given struct {
		Delivery
		Secrets []string `json:"secrets"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return Delivery{}, fmt.Errorf("delivery: %w", withoutValue(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Delivery{}, errors.New("delivery: there is more after the object")
	}
	d := given.Delivery
	for i, text := range given.Secrets {
		secret, err := parseSecret(text)
		if err != nil {
			d.secretFaults = append(d.secretFaults, fmt.Errorf("secrets: number %d %w", i+1, err))
			continue
		}
		d.Secrets = append(d.Secrets, secret)
	}
	return d, nil
}

// parseSecret does not repeat what it was given.
func parseSecret(text string) (webhook.Secret, error) {
	switch text {
	case "":
		return webhook.Secret{}, errors.New("is empty")
	case webhook.NewSecret().String():
		return webhook.Secret{}, errors.New("is masked, as answers show it: give the secret itself")
	}
	secret, err := webhook.ParseSecret(text)
	if err != nil {
		return secret, errors.New(strings.TrimPrefix(err.Error(), "webhook secret: "))
	}
	return secret, nil
}

// withoutValue takes out of a decoder's error what was in the place of something else: it may be a secret.
func withoutValue(err error) error {
	kind, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case kind.Field == "":
		return errors.New("want an object")
	}
	return fmt.Errorf("%s: not a value of the kind that belongs there", strings.TrimPrefix(strings.TrimPrefix(kind.Field, "Delivery."), "Config."))
}

// Plan checks a delivery and reports every fault at once, each with its field. p and events are those of Parse.
func (d Delivery) Plan(p Policy, events []string) (*Plan, error) {
	plan := &Plan{Backoff: DefaultBackoff()}
	var faults []error
	fault := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	var err error
	if plan.Topic = d.Topic; d.Topic != "" {
		err = d.checkTopic()
	} else {
		if len(d.secretFaults) > 0 && len(d.Secrets) == 0 { // it is said what is wrong with those that there are
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
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return plan, nil
}

// CapSpan is how long a delivery decides about others to the same entity, by the JSON of a Delivery: the span of its frequency
// cap, 0 without one. Of what can not be read it is the longest there is.
func CapSpan(text []byte) time.Duration {
	if len(text) == 0 || string(text) == "null" {
		return 0
	}
	d, err := ParseDelivery(text)
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

// QuietOf is the quiet hours in the JSON of a Delivery; none if it has none, or cannot be read.
func QuietOf(text []byte) QuietHours {
	if len(text) == 0 || string(text) == "null" {
		return QuietHours{}
	}
	d, err := ParseDelivery(text)
	if err != nil || d.QuietHours == nil {
		return QuietHours{}
	}
	q, err := ParseQuietHours(d.QuietHours.From, d.QuietHours.To, d.QuietHours.Zone)
	if err != nil {
		return QuietHours{}
	}
	return q
}

// checkTopic says what is wrong with a delivery to a topic.
func (d Delivery) checkTopic() error {
	if d.URL != "" || len(d.Headers)+len(d.Secrets)+len(d.secretFaults) > 0 || d.Template != "" || d.ContentType != "" {
		return errors.New("topic: url, headers, secrets, template and content_type are of webhooks: give either them or a topic")
	}
	if err := state.CheckTopicName(d.Topic); err != nil {
		return fmt.Errorf("topic: %w", err)
	}
	if d.Topic == "triggers" || d.Topic == "firings" { // the engine reads them
		return fmt.Errorf("topic: %s is the engine's own", d.Topic)
	}
	return nil
}

func (f Frequency) parse() (Cap, error) {
	per, err := parseDuration(f.Per)
	return Cap{Count: f.Count, Per: per}, err
}

// parseDelays puts the first attempt, which does not wait, before the others.
func parseDelays(texts []string) ([]time.Duration, error) {
	delays := []time.Duration{0}
	for i, text := range texts {
		if i >= delaysMax-1 {
			return nil, fmt.Errorf("retries: %d of them, at most %d", len(texts), delaysMax-1)
		}
		d, err := parseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("retries: number %d: %w", i+1, err)
		}
		if d > delayMax {
			return nil, fmt.Errorf("retries: number %d: %.32q, at most %dd", i+1, text, delayMax/day)
		}
		delays = append(delays, d)
	}
	return delays, nil
}

// parseDuration takes whole days as well as what package time knows.
func parseDuration(text string) (time.Duration, error) {
	const daysMax = 100_000
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil && n <= daysMax {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%.32q, want a duration such as 30m, 1h30m or 7d", text)
}
