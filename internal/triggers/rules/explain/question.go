package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/base/input"
)

// Limits of a question.
const (
	BodyMax   = 1 << 20 // bytes of the JSON
	EventsMax = 10_000
	IDMax     = 256  // bytes of an event ID
	EntityMax = 1024 // bytes of an entity ID
)

// Event is an event of the question's entity.
type Event struct {
	Name   string
	Entity string // "": not given
	At     int64  // ms since 1970
	ID     string // "": none
	Data   []byte // JSON, or nil
}

// Question asks for the value of an expression at an instant, with all events up to then.
type Question struct {
	Expr   driplang.Expr
	Events []Event // in the order of the log
	At     int64   // ms since 1970
	Trace  bool    // the answer has the steps
	// Restart: each time that the expression becomes true, its history starts over.
	Restart bool
	// Old reports whether the trigger ignores an event by its index; nil: it ignores none.
	Old func(event int) bool
}

// Fault is an invalid question, except for its expression: that is a *driplang.Error.
type Fault struct {
	Field   string // the invalid member
	Event   int    // index of the invalid event, from 0; -1: none
	Message string
}

// Error is "field: message", with the index of the event.
func (f *Fault) Error() string {
	text := f.Message
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Event >= 0 {
		text = fmt.Sprintf("event %d: %s", f.Event, text)
	}
	return text
}

func fault(field, format string, args ...any) *Fault {
	return &Fault{Field: field, Event: -1, Message: fmt.Sprintf(format, args...)}
}

// jsonEvent is an event in JSON: that of POST /event, and At.
type jsonEvent struct {
	Event      *string         `json:"event"`
	EntityID   *string         `json:"entity_id"`
	At         *string         `json:"at"`
	OccurredAt *string         `json:"occurred_at"`
	ID         string          `json:"id"`
	Data       json.RawMessage `json:"data" input:"data"`
}

// Parse parses {"expr": text or JSON form, "events":
// [{"event","at"|"occurred_at","id"?,"data"?,"entity_id"?}], "at", "trace"?} of at most BodyMax
// bytes. All events with an entity_id must have the same one. Errors: *driplang.Error, *Fault. The question
// shares no memory with body.
func Parse(body []byte) (*Question, error) {
	var given struct {
		Expr   json.RawMessage `json:"expr"`
		Events eventList       `json:"events" input:"data"` // each event is read by itself
		At     *string         `json:"at"`
		Trace  bool            `json:"trace"`
	}
	if len(body) > BodyMax {
		return nil, fault("body", "%d bytes, the limit is %d", len(body), BodyMax)
	}
	if err := strict(body, "body", &given); err != nil {
		return nil, err
	}
	if given.Expr == nil {
		return nil, fault("expr", "missing")
	}
	q := &Question{Events: given.Events, Trace: given.Trace}
	if err := q.only(""); err != nil {
		return nil, err
	}
	var err error
	if q.Expr, err = ParseExpr(given.Expr); err != nil {
		return nil, err
	}
	if q.At, err = instant("at", given.At); err != nil {
		return nil, err
	}
	return q, nil
}

// eventList is an array of at most EventsMax events in JSON.
type eventList []Event

// UnmarshalJSON implements json.Unmarshaler. It stops at the limit, because a list such as 0,0,0
// would grow a lot.
func (l *eventList) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fault("events", "want an array")
	}
	for i := 0; d.More(); i++ {
		if i == EventsMax {
			return fault("events", "more than %d events", EventsMax)
		}
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return err
		}
		e, err := parseEvent(one, i, nil)
		if err != nil {
			return err
		}
		*l = append(*l, e)
	}
	return nil
}

// ParseExpr parses an expression in JSON: a string with the text form, or the JSON form. Errors:
// *driplang.Error, with Line and Col in the string.
func ParseExpr(text json.RawMessage) (driplang.Expr, error) {
	if len(text) > 0 && text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return driplang.Expr{}, fault("expr", "%v", err)
		}
		return driplang.Parse(s)
	}
	return driplang.ParseJSON(text)
}

// parseEvent parses the event with index i. appended is the append time (ms) of its record, nil if
// unknown.
func parseEvent(text []byte, i int, appended *int64) (Event, error) {
	var given jsonEvent
	err := strict(text, "", &given)
	if err == nil {
		err = given.check()
	}
	at := int64(0)
	if err == nil {
		at, err = given.time(appended)
	}
	if err != nil {
		return Event{}, of(i, err)
	}
	e := Event{Name: *given.Event, At: at, ID: given.ID, Data: given.Data}
	if given.EntityID != nil {
		e.Entity = *given.EntityID
	}
	return e, nil
}

// of sets the event of an error.
func of(i int, err error) error {
	if f, ok := errors.AsType[*Fault](err); ok {
		f.Event = i
	}
	return err
}

// time is the time of an event (ms): "at", else the append time, else "occurred_at".
func (e *jsonEvent) time(appended *int64) (int64, error) {
	switch {
	case e.At != nil:
		return instant("at", e.At)
	case appended != nil:
		return checkMillis(*appended)
	case e.OccurredAt != nil:
		return instant("occurred_at", e.OccurredAt)
	}
	return 0, fault("at", "missing, and occurred_at too")
}

func (e *jsonEvent) check() error {
	switch {
	case e.Event == nil:
		return fault("event", "missing")
	case *e.Event == "":
		return fault("event", "empty")
	case len(*e.Event) > driplang.MaxName:
		return fault("event", "%d bytes, the limit is %d", len(*e.Event), driplang.MaxName)
	case e.EntityID != nil && (*e.EntityID == "" || len(*e.EntityID) > EntityMax):
		return fault("entity_id", "%d bytes, want 1 to %d", len(*e.EntityID), EntityMax)
	case len(e.ID) > IDMax:
		return fault("id", "%d bytes, the limit is %d", len(e.ID), IDMax)
	case len(e.Data) > 0 && e.Data[0] != '{' && e.Data[0] != 'n':
		return fault("data", "want an object, or null")
	}
	return nil
}

// instant parses a required time.
func instant(field string, text *string) (int64, error) {
	if text == nil {
		return 0, fault(field, "missing")
	}
	at, err := ParseTime(*text)
	if err != nil {
		return 0, fault(field, "%v", err)
	}
	return at, nil
}

// ParseTime parses a time in RFC 3339, truncated to milliseconds.
func ParseTime(text string) (int64, error) {
	at, err := input.Time(text)
	if err != nil {
		return 0, err
	}
	return yearOf(at)
}

// checkMillis validates an append time.
func checkMillis(at int64) (int64, error) {
	at, err := yearOf(time.UnixMilli(at))
	if err != nil {
		return 0, fault("timestamp", "%v", err)
	}
	return at, nil
}

func yearOf(at time.Time) (int64, error) {
	if y := at.UTC().Year(); y < yearMin || y > yearMax {
		return 0, fmt.Errorf("want a year from %d to %d, given %d", yearMin, yearMax, y)
	}
	return at.UnixMilli(), nil
}

// yearMin and yearMax bound the times of a question, so that the times of answers can be written
// too: these may be later by all durations of an expression, and RFC 3339 ends with the year 9999.
const (
	yearMin = 1
	yearMax = 3000
)

// strict decodes a single value. whole is the field of faults that belong to no member.
func strict(text []byte, whole string, v any) error {
	err := input.JSON(text, v, input.NullIsAbsent)
	if known, ok := errors.AsType[*Fault](err); ok {
		return known
	}
	if f, ok := errors.AsType[*input.Fault](err); ok {
		return fault(cmp.Or(f.Path, whole), "%s", f.Reason)
	}
	return err
}
