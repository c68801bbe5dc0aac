package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/webhook"
)

const (
	// BytesMax is the largest body. Receivers should accept four times as much.
	BytesMax = webhook.BodyBytesMax / 4
	// WitnessBytesMax bounds the data of a message's events that a template may use.
	WitnessBytesMax = 1 << 20

	retractedSuffix = "-retracted"
	instantLayout   = "2006-01-02T15:04:05.000Z07:00" // with the milliseconds of the log
)

// State reports whether a message is a firing or a retraction.
type State string

// The states of a message.
const (
	Fired     State = "fired"
	Retracted State = "retracted"
)

// Message is one firing of a trigger, as sent.
type Message struct {
	// ID is the ID of the firing; a retraction has that of its firing.
	ID      string
	Trigger string // name
	Version int    // of the trigger
	Entity  string
	At      time.Time // time of the firing or retraction
	State   State
	Witness []webhook.Event // matched events, in the order of the log
	Attempt int             // from 1
}

// MessageID identifies the message for the receiver, and is the same in every attempt: the firing's
// ID, with a suffix for its retraction, because receivers drop repeated IDs.
func (m *Message) MessageID() string {
	if m.State == Retracted {
		return m.ID + retractedSuffix
	}
	return m.ID
}

// Default builds the JSON of webhook.Firing. An error is permanent: the result depends only on the
// message.
func Default(m *Message) ([]byte, error) {
	if m.State != Fired && m.State != Retracted {
		return nil, fmt.Errorf("unknown state %.32q, want %s or %s", string(m.State), Fired, Retracted)
	}
	if n := m.dataBytes(); n > BytesMax {
		return nil, fmt.Errorf("the events have %d bytes of data, limit %d for a body", n, BytesMax)
	}
	f := webhook.Firing{
		Type: webhook.TypeFired, Timestamp: instant(m.At), Version: webhook.Version, ID: m.ID, Attempt: m.Attempt,
		Data: webhook.FiringData{Trigger: m.Trigger, TriggerVersion: m.Version, Entity: m.Entity, Witness: []webhook.Event{}},
	}
	if m.State == Retracted {
		f.Type = webhook.TypeRetracted
	}
	for _, e := range m.Witness {
		e.Time = instant(e.Time)
		f.Data.Witness = append(f.Data.Witness, e)
	}
	body, err := encodeJSON(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the data of an event is not JSON: %w", err)
	case len(body) > BytesMax:
		return nil, errBodyTooLarge
	}
	return body, nil
}

var errBodyTooLarge = errors.New("the body exceeds 256 KiB")

func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (m *Message) dataBytes() int {
	n := 0
	for _, e := range m.Witness {
		n += len(e.Data)
	}
	return n
}

// encodeJSON does not escape <, > and &, because the receiver is not a browser.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
