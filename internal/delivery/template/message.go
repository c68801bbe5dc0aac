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
	// BytesMax is the largest body. Receivers are told to expect four times as much at most.
	BytesMax = webhook.BodyBytesMax / 4
	// WitnessBytesMax is how much data the events of a message may have together for a template to look into.
	WitnessBytesMax = 1 << 20

	retractedSuffix = "-retracted"
	instantLayout   = "2006-01-02T15:04:05.000Z07:00" // milliseconds, as the log has them
)

// State is whether a message says that a trigger has fired, or that it takes a firing back.
type State string

// The states of a message.
const (
	Fired     State = "fired"
	Retracted State = "retracted"
)

// Message is one firing of a trigger, as it is sent.
type Message struct {
	// ID is the firing's; a retraction has that of the firing that it takes back.
	ID      string
	Trigger string // name
	Version int    // of the trigger
	Entity  string
	At      time.Time // instant of the firing or the retraction
	State   State
	Witness []webhook.Event // the events that made the expression true, in the order of the log
	Attempt int             // 1 is the first
}

// MessageID is what the receiver knows the message by, the same at every attempt: the firing's ID, and another one for its
// retraction, which a receiver that leaves out repetitions would not see otherwise.
func (m *Message) MessageID() string {
	if m.State == Retracted {
		return m.ID + retractedSuffix
	}
	return m.ID
}

// Default makes the JSON of webhook.Firing. An error is for ever: the same message gives the same one.
func Default(m *Message) ([]byte, error) {
	if m.State != Fired && m.State != Retracted {
		return nil, fmt.Errorf("state is %.32q, want %s or %s", string(m.State), Fired, Retracted)
	}
	if n := m.dataBytes(); n > BytesMax {
		return nil, fmt.Errorf("the events have %d bytes of data, a body at most %d", n, BytesMax)
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
		return nil, fmt.Errorf("the data of an event is no JSON: %w", err)
	case len(body) > BytesMax:
		return nil, errBodyTooLarge
	}
	return body, nil
}

var errBodyTooLarge = errors.New("the body has more than 256 KiB")

func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (m *Message) dataBytes() int {
	n := 0
	for _, e := range m.Witness {
		n += len(e.Data)
	}
	return n
}

// encodeJSON leaves <, > and & as they are: what reads the body is no browser.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
