// Package rule is a trigger: its definition, and its evaluation for an entity as events arrive and
// time passes. It is pure: the same definition, events and instants give the same transitions, with
// the same causes.
//
// It also defines the records of the engine's topics: events, and the outcomes of firings. They are
// JSON, so that any client can read the topics and write events. FORMAT.md describes them.
package rule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// CheckID returns an error if a trigger's ID is invalid.
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

// Fire is how often a trigger fires for an entity.
type Fire string

// The fire modes.
const (
	Once    Fire = "once"  // the first time that its expression becomes true
	OnEdge  Fire = "edge"  // each time
	OnReset Fire = "reset" // each time, and the history starts over after each firing
)

// Backfill is how a new trigger treats older events.
type Backfill string

// The backfill policies.
const (
	Silent  Backfill = "silent"  // older events count; their firings are historic and use up Once
	Current Backfill = "current" // as Silent, and fires for entities that are true at the creation
	Replay  Backfill = "replay"  // as if the trigger had always existed: it fires for the past too
	None    Backfill = "none"    // older events do not count
)

// Status is whether a trigger is active.
type Status string

// The statuses.
const (
	Active Status = "active"
	Paused Status = "paused" // firings are suppressed
)

// Retraction is the reaction when an expression that has fired is no longer true.
type Retraction string

// The retractions.
const (
	Ignore Retraction = ""
	Notify Retraction = "notify" // a second message retracts the first, or neither is sent
)

// Definition is the value of a record in the topic of triggers; the key is its ID.
type Definition struct {
	ID      string `json:"id"`
	Version int    `json:"version"` // 1, 2, ...
	// Text is the expression as its author wrote it, Expr its canonical form, which is evaluated.
	Text  string        `json:"text"`
	Expr  driplang.Expr `json:"expr"`
	Topic string        `json:"topic"` // topic of its events

	Fire       Fire       `json:"fire"`
	Cooldown   int64      `json:"cooldown_ms,omitempty"` // after a firing, with OnEdge and OnReset
	Backfill   Backfill   `json:"backfill"`
	CarryFired bool       `json:"carry_fired"` // with Once: firings of earlier versions count
	OnRetract  Retraction `json:"on_retract,omitempty"`
	Status     Status     `json:"status"`
	// Deliver is the deliver section, any JSON.
	Deliver json.RawMessage `json:"deliver,omitempty"`

	// The engine sets the fields below. TopicID is the ID of Topic, in hex, at the creation of the
	// version. The past of the version is every event with an offset below From, by partition,
	// every event at or before At (ms), and every deadline at or before At. Created is At of the
	// first version.
	TopicID string  `json:"topic_id"`
	From    []int64 `json:"from"`
	At      int64   `json:"at"`
	Created int64   `json:"created"`
	// Border is the source of At and Created.
	Border Border `json:"border,omitempty"`
	// Offset is that of the definition's record. Only the rows of the engine's file have it.
	Offset int64 `json:"offset,omitempty"`
}

// Tag names a stored definition. Every change that is stored has another one.
func Tag(version int, offset int64) string { return fmt.Sprintf("%d.%d", version, offset) }

// Border is the kind of instant that divides the past of a version from its future.
type Border string

// The borders.
const (
	// BorderGiven: At and Created are those of the record. Later versions have this border: firings
	// up to At belong to the earlier version, and are recorded before the later version is
	// appended.
	BorderGiven Border = ""
	// BorderAppend: the append time of the record itself. At and Created are a lower bound, which
	// applies if the topic of definitions has no append times. A later record of the same version
	// has the resolved instant, and BorderGiven.
	BorderAppend Border = "append"
)

// ResolveBorder resolves the border of a definition from the append time (ms) of its record. The
// millisecond of the record itself is not past, because a later slot may share it.
func (d *Definition) ResolveBorder(millis int64) {
	if d.Border == BorderAppend {
		d.At = max(d.At, millis-1)
		d.Created, d.Border = d.At, BorderGiven
	}
}

// Cut is the border of the version.
func (d *Definition) Cut() *Cut { return &Cut{Topic: d.TopicID, From: d.From, At: d.At} }

// WithDefaults sets the defaults of empty fields.
func (d Definition) WithDefaults() Definition {
	d.Topic = cmp.Or(d.Topic, "events")
	d.Fire = cmp.Or(d.Fire, Once)
	d.Backfill = cmp.Or(d.Backfill, Silent)
	d.Status = cmp.Or(d.Status, Active)
	if d.Text == "" {
		d.Text = d.Expr.String()
	}
	return d
}

// Validate reports all faults of the author's fields, each with the name of the field.
func (d *Definition) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckID(d.ID); err != nil {
		bad("id: %w", err)
	}
	if len(d.Expr.Names()) == 0 {
		bad("expr: missing")
	}
	if len(d.Text) > driplang.MaxText {
		bad("text: %d bytes, the limit is %d", len(d.Text), driplang.MaxText)
	}
	if d.Fire != Once && d.Fire != OnEdge && d.Fire != OnReset {
		bad("fire: invalid mode %q, want once, edge or reset", d.Fire)
	}
	switch most := CooldownMax.Milliseconds(); {
	case d.Cooldown < 0 || d.Cooldown > most:
		bad("cooldown: %d ms, want 0 to %d", d.Cooldown, most)
	case d.Cooldown > 0 && d.Fire == Once:
		bad("cooldown: requires fire edge or reset")
	}
	if d.Backfill != Silent && d.Backfill != Current && d.Backfill != Replay && d.Backfill != None {
		bad("backfill: invalid policy %q, want silent, current, replay or none", d.Backfill)
	}
	if d.OnRetract != Ignore && d.OnRetract != Notify {
		bad("on_retract: invalid value %q, want notify or none", d.OnRetract)
	}
	if d.OnRetract == Notify && d.Fire == OnReset {
		bad("on_retract: excludes fire reset, because the history starts over after a firing")
	}
	if d.Status != Active && d.Status != Paused {
		bad("status: invalid value %q, want active or paused", d.Status)
	}
	most := DeliverBytesMax
	if secrets.Inspect(d.Deliver).Sealed {
		most += secrets.GrowthMax
	}
	if len(d.Deliver) > most {
		bad("deliver: %d bytes, the limit is %d", len(d.Deliver), most)
	}
	return errors.Join(errs...)
}

func notInID(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

// SameResults reports whether both definitions give the same results for the same events, so that one
// can replace the other without a new version.
func (d *Definition) SameResults(o *Definition) bool {
	return d.Expr.Equal(o.Expr) && d.Topic == o.Topic && d.TopicID == o.TopicID && d.Fire == o.Fire && d.Cooldown == o.Cooldown &&
		d.Backfill == o.Backfill && d.CarryFired == o.CarryFired && d.OnRetract == o.OnRetract
}

// Past reports whether an event with an offset and a time (ms) of the topic TopicID existed before
// the version. For a later topic of that name the time alone decides.
func (d *Definition) Past(partition uint32, offset, at int64) bool {
	return at <= d.At || int(partition) < len(d.From) && offset < d.From[partition]
}

// ParseDefinition parses the value of a record.
func ParseDefinition(key, value []byte) (d Definition, err error) {
	if err := json.Unmarshal(value, &d); err != nil {
		return d, err
	}
	switch {
	case d.ID != string(key):
		return d, fmt.Errorf("id: %q, want the record's key %q", d.ID, key)
	case d.Version < 1:
		return d, fmt.Errorf("version: %d, want 1 or more", d.Version)
	}
	return d, d.Validate()
}

// Stored is a definition without its parsed expression, for display only.
type Stored struct {
	Definition
	Expr json.RawMessage `json:"expr"` // replaces Definition's
}

// ParseStored parses the value of a record that was accepted before.
func ParseStored(value []byte) (s *Stored, err error) {
	err = json.Unmarshal(value, &s)
	return s, err
}

// Encode is the value of the record.
func (d *Definition) Encode() ([]byte, error) {
	record := *d
	record.Offset = 0
	return record.EncodeRow()
}

// EncodeRow is the definition as in the engine's file.
func (d *Definition) EncodeRow() ([]byte, error) { return json.Marshal(d) }

// Warnings lists likely mistakes of an author.
func Warnings(d *Definition) (list []string) {
	for _, w := range d.Expr.Warnings() {
		list = append(list, w.Message)
	}
	return list
}
