package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang"
)

// CheckID says what is wrong with a trigger's id, or nil.
func CheckID(id string) error {
	if id == "" || len(id) > IDBytesMax || strings.IndexFunc(id, notInID) >= 0 {
		return fmt.Errorf("%q must have 1 to %d of the characters A-Z a-z 0-9 . _ -", id, IDBytesMax)
	}
	return nil
}

// Limits of a definition.
const (
	IDBytesMax      = 128
	DeliverBytesMax = 256 << 10
	CooldownMax     = 10 * 366 * 24 * time.Hour
)

// Fire says how often a trigger fires for an entity.
type Fire string

// The fire modes.
const (
	Once    Fire = "once"  // the first time that its expression becomes true
	OnEdge  Fire = "edge"  // each time
	OnReset Fire = "reset" // each time, and the history begins anew behind it
)

// Backfill says what events do that were there before the trigger.
type Backfill string

// The back-fill policies.
const (
	Silent  Backfill = "silent"  // they count; what would have fired is historic, and has used up Once
	Current Backfill = "current" // as Silent, and for entities of which the expression is true then it fires
	Replay  Backfill = "replay"  // as if the trigger had always been there: it fires for the past too
	None    Backfill = "none"    // nothing: an entity's history begins with the trigger
)

// Status says whether a trigger fires.
type Status string

// The statuses.
const (
	Active Status = "active"
	Paused Status = "paused" // what fires is suppressed
)

// Retraction says what happens when an expression that has fired is true no longer.
type Retraction string

// The retractions.
const (
	Ignore Retraction = ""
	Notify Retraction = "notify" // a second message takes the first one back, or the first is not sent
)

// Definition is the value of a record in the topic of triggers; the key is its ID.
type Definition struct {
	ID      string `json:"id"`
	Version int    `json:"version"` // 1, 2, ...
	// Text is the expression as its author wrote it, Expr the same in canonical form, which counts.
	Text  string        `json:"text"`
	Expr  driplang.Expr `json:"expr"`
	Topic string        `json:"topic"` // of its events

	Fire       Fire       `json:"fire"`
	Cooldown   int64      `json:"cooldown_ms,omitempty"` // after a firing, with OnEdge and OnReset
	Backfill   Backfill   `json:"backfill"`
	CarryFired bool       `json:"carry_fired"` // with Once: firings of earlier versions count
	OnRetract  Retraction `json:"on_retract,omitempty"`
	Status     Status     `json:"status"`
	// Deliver is for whoever delivers: any JSON.
	Deliver json.RawMessage `json:"deliver,omitempty"`

	// What follows is the engine's. TopicID is that of Topic, in hex, when the version was made. Its past is every event with an
	// offset below From, by partition, every event at or before At (ms), and every deadline at or before At. Created is At of
	// the first version.
	TopicID string  `json:"topic_id"`
	From    []int64 `json:"from"`
	At      int64   `json:"at"`
	Created int64   `json:"created"`
	// Border says where At and Created come from.
	Border Border `json:"border,omitempty"`
}

// Border says which instant divides the past of a version from its future.
type Border string

// The borders.
const (
	// BorderGiven: At and Created are as the record says. A later version has this border: what fires up to At is the earlier
	// version's, and recorded before the later one is appended.
	BorderGiven Border = ""
	// BorderAppend: the append time of the record itself. At and Created are a lower bound, which counts where the topic of
	// definitions has no append times. A record that changes the version later has the instant, and BorderGiven.
	BorderAppend Border = "append"
)

// Appended resolves the border of a definition that was read from the log, in a record with an append time (ms). The
// millisecond of the record itself is not past: a later slot may share it.
func (d *Definition) Appended(millis int64) {
	if d.Border == BorderAppend {
		d.At = max(d.At, millis-1)
		d.Created, d.Border = d.At, BorderGiven
	}
}

// Cut is the border of the version.
func (d *Definition) Cut() *Cut { return &Cut{Topic: d.TopicID, From: d.From, At: d.At} }

// WithDefaults fills in what was left out.
func (d Definition) WithDefaults() Definition {
	if d.Topic == "" {
		d.Topic = "events"
	}
	if d.Fire == "" {
		d.Fire = Once
	}
	if d.Backfill == "" {
		d.Backfill = Silent
	}
	if d.Status == "" {
		d.Status = Active
	}
	if d.Text == "" {
		d.Text = d.Expr.String()
	}
	return d
}

// Validate reports every fault of what an author may set, each with the field's name.
func (d *Definition) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckID(d.ID); err != nil {
		bad("id: %w", err)
	}
	if len(d.Expr.Names()) == 0 {
		bad("expr: it is missing")
	}
	if len(d.Text) > driplang.MaxText {
		bad("text: %d bytes, the limit is %d", len(d.Text), driplang.MaxText)
	}
	if d.Fire != Once && d.Fire != OnEdge && d.Fire != OnReset {
		bad("fire: %q is not one of once | edge | reset", d.Fire)
	}
	switch most := CooldownMax.Milliseconds(); {
	case d.Cooldown < 0 || d.Cooldown > most:
		bad("cooldown: %d ms is not between 0 and %d", d.Cooldown, most)
	case d.Cooldown > 0 && d.Fire == Once:
		bad("cooldown: a trigger that fires once has none; set fire to edge or reset")
	}
	if d.Backfill != Silent && d.Backfill != Current && d.Backfill != Replay && d.Backfill != None {
		bad("backfill: %q is not one of silent | current | replay | none", d.Backfill)
	}
	if d.OnRetract != Ignore && d.OnRetract != Notify {
		bad("on_retract: %q is not notify, nor left out", d.OnRetract)
	}
	if d.OnRetract == Notify && d.Fire == OnReset {
		bad("on_retract: a trigger that resets can not take back: after a firing its history begins anew")
	}
	if d.Status != Active && d.Status != Paused {
		bad("status: %q is not one of active | paused", d.Status)
	}
	if len(d.Deliver) > DeliverBytesMax {
		bad("deliver: %d bytes, the limit is %d", len(d.Deliver), DeliverBytesMax)
	}
	return errors.Join(errs...)
}

func notInID(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

// Evaluated is whether both definitions make the same of the same events, so that one may take the other's place without
// a new version.
func (d *Definition) Evaluated(o *Definition) bool {
	return d.Expr.Equal(o.Expr) && d.Topic == o.Topic && d.TopicID == o.TopicID && d.Fire == o.Fire && d.Cooldown == o.Cooldown &&
		d.Backfill == o.Backfill && d.CarryFired == o.CarryFired && d.OnRetract == o.OnRetract
}

// Past is whether an event with an offset and a time (ms) of the topic TopicID was there before the version. Of another topic
// of that name, which was created later, the time alone says so.
func (d *Definition) Past(partition uint32, offset, at int64) bool {
	return at <= d.At || int(partition) < len(d.From) && offset < d.From[partition]
}

// start is the cause of what fires because it was true when the trigger was made.
func (d *Definition) start(partition uint32) string {
	offset := int64(0)
	if int(partition) < len(d.From) {
		offset = d.From[partition]
	}
	return StartCause(d.At, partition, offset)
}

// ParseDefinition reads the value of a record.
func ParseDefinition(key, value []byte) (d Definition, err error) {
	if err := json.Unmarshal(value, &d); err != nil {
		return d, err
	}
	switch {
	case d.ID != string(key):
		return d, fmt.Errorf("id: %q, the record's key is %q", d.ID, key)
	case d.Version < 1:
		return d, fmt.Errorf("version: %d is not 1 or more", d.Version)
	}
	return d, d.Validate()
}

// Stored is a definition of which the expression is not read, for those who only show it.
type Stored struct {
	Definition
	Expr json.RawMessage `json:"expr"` // instead of Definition's
}

// ParseStored reads the value of a record that was read before.
func ParseStored(value []byte) (s *Stored, err error) {
	err = json.Unmarshal(value, &s)
	return s, err
}

// Encode is the value of the record.
func (d *Definition) Encode() ([]byte, error) { return json.Marshal(d) }

// Warnings are what the author of a definition may not have meant.
func Warnings(d *Definition) (list []string) {
	for _, w := range d.Expr.Warnings() {
		list = append(list, w.Message)
	}
	return list
}
