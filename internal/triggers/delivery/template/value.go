package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/decimal"
	"github.com/sebbroker/seb/webhook"
)

// The values of a template are: string, safe, json.Number, bool, nil (JSON's null), []any,
// map[string]any, time.Time, *Message, witness, *event and missing.

// safe is a string that is already escaped.
type safe string

// missing is a missing value: an error, except in functions and conditions that test for it.
type missing struct {
	what string // as written in the template
	why  string // "is missing", "is null"
}

func (m missing) Error() string { return m.what + " " + m.why }

// witness is the events of a message: a list, and by name the last one of each.
type witness []*event

// event decodes its data on first use.
type event struct {
	*webhook.Event
	decoded bool
	data    any
}

// The names of fields, as in the documentation.
const (
	fieldWitness = "Witness"
	fieldData    = "Data"
)

var (
	messageFields = []string{"ID", "Trigger", "Version", "Entity", "At", "State", "Attempt", fieldWitness}
	eventFields   = []string{"Event", "Time", "Offset", fieldData}
)

// messageField is a field of the message.
func (r *execution) messageField(name string) (any, bool) {
	m := r.message
	switch name {
	case "ID":
		return m.ID, true
	case "Trigger":
		return m.Trigger, true
	case "Version":
		return number(int64(m.Version)), true
	case "Entity":
		return m.Entity, true
	case "At":
		return m.At, true
	case "State":
		return string(m.State), true
	case "Attempt":
		return number(int64(m.Attempt)), true
	case fieldWitness:
		return r.witness, true
	}
	return nil, false
}

// field is v.name; path is its name in the template.
func (r *execution) field(v any, name, path string) (any, error) {
	absent := missing{path, "is missing"}
	switch v := v.(type) {
	case missing:
		return v, nil
	case nil:
		return missing{strings.TrimSuffix(path, "."+name), "is null"}, nil
	case *Message:
		if value, ok := r.messageField(name); ok {
			return value, nil
		}
		return nil, fmt.Errorf("unknown field .%s; fields: .%s", name, strings.Join(messageFields, ", ."))
	case witness:
		for i := len(v) - 1; i >= 0; i-- {
			if v[i].Event.Event == name {
				return v[i], nil
			}
		}
		return absent, nil
	case *event:
		return r.eventField(v, name)
	case map[string]any:
		if value, ok := v[name]; ok {
			return value, nil
		}
		return absent, nil
	}
	return nil, fmt.Errorf("%s: %s has no fields", path, kindOf(v))
}

func (r *execution) eventField(e *event, name string) (any, error) {
	switch name {
	case "Event":
		return e.Event.Event, nil
	case "Time":
		return e.Time, nil
	case "Offset":
		return number(e.Offset), nil
	case fieldData:
		return r.data(e)
	}
	return nil, fmt.Errorf("unknown event field .%s; fields: .%s", name, strings.Join(eventFields, ", ."))
}

// data decodes an event's data once. Numbers keep their notation.
func (r *execution) data(e *event) (any, error) {
	if e.decoded {
		return e.data, nil
	}
	if len(e.Data) == 0 {
		return missing{"the data of " + quoted(e.Event.Event), "is missing"}, nil
	}
	if err := r.spend(len(e.Data)); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.UseNumber()
	if err := d.Decode(&e.data); err != nil {
		return nil, fmt.Errorf("the data of %s is not JSON: %w", quoted(e.Event.Event), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("the data of %s is not JSON: data after the value", quoted(e.Event.Event))
	}
	e.decoded = true
	return e.data, nil
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// kindOf is the name of a value's kind in messages.
func kindOf(v any) string {
	switch v.(type) {
	case string, safe:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	case nil:
		return "null"
	case []any, witness:
		return "a list"
	case time.Time:
		return "a time"
	}
	return "an object"
}

// truth is the boolean value in if, with, and, or and not: false, 0, null, empty and missing values
// are false.
func truth(v any) bool {
	switch v := v.(type) {
	case missing, nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case safe:
		return v != ""
	case json.Number:
		n, ok := decimal.Parse([]byte(v))
		return !ok || !n.IsZero()
	case []any:
		return len(v) > 0
	case witness:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// size is the number of bytes of a value, without its elements.
func size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case safe:
		return len(v)
	case json.Number:
		return len(v)
	}
	return 0
}

// plain converts template values to JSON values.
func plain(v any) any {
	switch v := v.(type) {
	case safe:
		return string(v)
	case time.Time:
		return instant(v).Format(instantLayout)
	case *event:
		return webhook.Event{Event: v.Event.Event, Time: instant(v.Time), Offset: v.Offset, Data: v.Data}
	case witness:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = plain(e)
		}
		return all
	}
	return v
}
