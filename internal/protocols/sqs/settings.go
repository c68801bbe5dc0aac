package sqs

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// The values of attributes with a meaning here.
const (
	messageMax   = 1 << 20
	waitMax      = 20
	receiveMax   = 10
	delayMax     = 900
	visibleMax   = 43_200
	retentionMax = 1_209_600
	fifoSuffix   = ".fifo"
	tagsMax      = 50

	attrVisibility = "VisibilityTimeout"
	attrSize       = "MaximumMessageSize"
	attrRetention  = "MessageRetentionPeriod"
	attrDelay      = "DelaySeconds"
	attrWait       = "ReceiveMessageWaitTimeSeconds"
	attrRedrive    = "RedrivePolicy"
	attrFIFO       = "FifoQueue"
	attrContent    = "ContentBasedDeduplication"
	attrScope      = "DeduplicationScope"
	attrThroughput = "FifoThroughputLimit"
	attrKMS        = "KmsMasterKeyId"
	attrManaged    = "SqsManagedSseEnabled"
)

// kept is the setting sqs of a queue: what the engine does not use.
type kept struct {
	Attributes map[string]string `json:"attributes,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
	Created    int64             `json:"created,omitempty"` // s
	Modified   int64             `json:"modified,omitempty"`
	Purges     int               `json:"purges,omitempty"` // of a FIFO queue: dedup IDs count since the last one
}

// settings are those of a queue, as this API sees them.
type settings struct {
	kept
	engine  state.QueueSettings
	size    int // of a message
	wait    int // s
	content bool
	scoped  bool // dedup IDs are per group
}

func parseSettings(topic map[string]string) (*settings, error) {
	x := &settings{engine: *state.Resolve(topic).Queue, size: messageMax}
	if text := x.engine.SQS; text != "" {
		if err := json.Unmarshal([]byte(text), &x.kept); err != nil {
			return nil, newError(500, "InternalFailure", "The setting sqs of the queue is damaged: %v", err)
		}
	}
	if v, ok := x.Attributes[attrSize]; ok {
		x.size = number(v)
	}
	x.wait, x.content = number(x.Attributes[attrWait]), x.Attributes[attrContent] == "true"
	x.scoped = x.Attributes[attrScope] == "messageGroup"
	return x, nil
}

// number reads a number that was checked when it was set.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// isFIFO reports whether the messages of a queue are in order, as its name says.
func (x *settings) isFIFO(name string) bool {
	return strings.HasSuffix(name, fifoSuffix) && x.engine.KeyMode == state.KeyOrder
}

// attribute is one of a queue that can be set.
type attribute struct {
	low, high int      // of a number; 0, 0: none
	choices   []string // of a text; nil: any
	fifo      bool     // only of FIFO queues
	json      bool     // "" or a JSON object
	standard  string   // default
}

var truths = []string{"true", "false"}

// attributes are those that can be set, besides RedrivePolicy.
var attributes = map[string]attribute{
	attrVisibility:                 {high: visibleMax, standard: "30"},
	attrSize:                       {low: 1024, high: messageMax, standard: "1048576"},
	attrRetention:                  {low: 60, high: retentionMax, standard: "345600"},
	attrDelay:                      {high: delayMax, standard: "0"},
	attrWait:                       {high: waitMax, standard: "0"},
	"KmsDataKeyReusePeriodSeconds": {low: 60, high: 86_400},
	attrKMS:                        {},
	attrManaged:                    {choices: truths, standard: "true"},
	"Policy":                       {json: true},
	"RedriveAllowPolicy":           {json: true},
	attrFIFO:                       {choices: []string{"true"}, fifo: true, standard: "true"},
	attrContent:                    {choices: truths, fifo: true, standard: "false"},
	attrScope:                      {choices: []string{"queue", "messageGroup"}, fifo: true, standard: "queue"},
	attrThroughput:                 {choices: []string{"perQueue", "perMessageGroupId"}, fifo: true, standard: "perQueue"},
}

// counted are the attributes that are not set.
var counted = []string{
	"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
	"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn",
}

// check checks the value of an attribute.
func (a *attribute) check(name, v string) error {
	ok := true
	switch {
	case a.high > 0:
		n, err := strconv.Atoi(v)
		ok = err == nil && n >= a.low && n <= a.high
	case a.choices != nil:
		ok = slices.Contains(a.choices, v)
	case a.json && v != "":
		var m map[string]any
		ok = json.Unmarshal([]byte(v), &m) == nil
	}
	if !ok {
		return refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
	}
	return nil
}

// seconds is a number of seconds as a setting.
func seconds(v string) string { return v + "s" }

// change returns the settings of the engine that attributes change, and puts the others into k.
func (k *kept) change(attrs map[string]string, fifo bool, deadLetter func(arn string) (string, error)) (map[string]string, error) {
	out := map[string]string{}
	if k.Attributes == nil {
		k.Attributes = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		v := attrs[name]
		if name == attrRedrive {
			if err := redrivePolicy(out, v, deadLetter); err != nil {
				return nil, err
			}
			continue
		}
		a, known := attributes[name]
		switch {
		case !known, a.fifo && !fifo && (name == attrFIFO || name == attrContent):
			return nil, refuse("InvalidAttributeName", "Unknown Attribute %.80s.", name)
		case a.fifo && !fifo:
			return nil, refuse("InvalidAttributeName", "You can specify the %s only when FifoQueue is set to true.", name)
		}
		if low := strings.ToLower(v); a.choices != nil && slices.Contains(truths, low) { // Python's True
			v = low
		}
		if err := a.check(name, v); err != nil {
			return nil, err
		}
		switch name {
		case attrVisibility:
			delete(k.Attributes, name)
			if out["visibility"] = seconds(v); number(v) == 0 {
				out["visibility"], k.Attributes[name] = "1s", "0"
			}
		case attrRetention:
			out["expire"] = seconds(v)
		case attrDelay:
			out["delay"] = seconds(v)
		case attrFIFO:
		default:
			if k.Attributes[name] = v; v == "" || name == "KmsDataKeyReusePeriodSeconds" && v == "300" {
				delete(k.Attributes, name)
			}
		}
	}
	if attrs[attrKMS] != "" { // it ends the other encryption, also after it was removed again
		if strings.EqualFold(attrs[attrManaged], "true") {
			return nil, refuse("InvalidAttributeName", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
		}
		k.Attributes[attrManaged] = "false"
	}
	return out, nil
}

// policy is a RedrivePolicy. maxReceiveCount is a number or a text.
type policy struct {
	Target string          `json:"deadLetterTargetArn"`
	Max    json.RawMessage `json:"maxReceiveCount"`
}

// redrivePolicy sets the settings of a RedrivePolicy; "" removes it.
func redrivePolicy(out map[string]string, v string, deadLetter func(arn string) (string, error)) error {
	if v == "" {
		out["dead-letter"], out["max-deliveries"] = state.NoDeadLetter, ""
		return nil
	}
	var p policy
	if err := json.Unmarshal([]byte(v), &p); err != nil {
		return refuse("InvalidAttributeValue", "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.")
	}
	most := strings.Trim(string(p.Max), `"`)
	switch n, err := strconv.Atoi(most); {
	case p.Target == "":
		return errParameter(attrRedrive, v, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
	case most == "":
		return errParameter(attrRedrive, v, "Redrive policy does not contain mandatory attribute: maxReceiveCount.")
	case err != nil || n < 1 || n > 1000:
		return errParameter(attrRedrive, v, "Invalid value for maxReceiveCount: %s, valid values are from 1 to 1000 both inclusive.", most)
	}
	name, err := deadLetter(p.Target)
	if err != nil {
		return err
	}
	out["dead-letter"], out["max-deliveries"] = name, most
	return nil
}

// text is the value of the setting sqs.
func (k *kept) text() (string, error) {
	b, _ := json.Marshal(k) // texts: cannot fail
	if len(b) > state.QueueSQSMax {
		return "", refuse("OverLimit", "The tags and attributes of a queue take %d bytes, limit %d.", len(b), state.QueueSQSMax)
	}
	return string(b), nil
}

// all returns the attributes of a queue that can be set.
func (x *settings) all(c *Call, name string) map[string]string {
	fifo := x.isFIFO(name)
	out := map[string]string{}
	for k, a := range attributes {
		if a.standard != "" && (fifo || !a.fifo) {
			out[k] = a.standard
		}
	}
	out[attrVisibility], out[attrDelay] = secondsOf(x.engine.Visibility), secondsOf(x.engine.Delay)
	if out[attrRetention] = secondsOf(x.engine.Expire); x.engine.Expire == state.Unlimited {
		out[attrRetention] = strconv.Itoa(retentionMax)
	}
	maps.Copy(out, x.Attributes)
	if q := &x.engine; q.MaxDeliveries > 0 {
		target, _ := json.Marshal(c.arn(q.DeadLetter)) // a text
		out[attrRedrive] = `{"deadLetterTargetArn":` + string(target) + `,"maxReceiveCount":` + strconv.Itoa(q.MaxDeliveries) + `}`
	}
	return out
}

func secondsOf(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
