package webhook

import (
	"encoding/json"
	"time"
)

// Version is the version of the body that Firing describes. A receiver ignores members that it does not know; what changes
// the meaning of one that it knows gets a new number.
const Version = 1

// The types of messages.
const (
	TypeFired     = "trigger.fired"     // the trigger's expression has become true for the entity
	TypeRetracted = "trigger.retracted" // it is not true any more, of a trigger that notifies of this
)

// Firing is the JSON body of a message, unless the trigger has a template.
type Firing struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // the instant of the firing or the retraction, UTC, milliseconds
	Version   int       `json:"version"`   // of this body's form: Version
	// ID names the firing. A retraction has that of the firing which it takes back; its webhook-id has "-retracted" after it.
	ID      string     `json:"id"`
	Attempt int        `json:"attempt"` // 1 at the first try to deliver the message
	Data    FiringData `json:"data"`
}

// FiringData is which trigger fired for whom, and why.
type FiringData struct {
	Trigger        string  `json:"trigger"`
	TriggerVersion int     `json:"trigger_version"`
	Entity         string  `json:"entity"`
	Witness        []Event `json:"witness"` // the events that made the expression true, in the order of the log
}

// Event is an event of the log.
type Event struct {
	Event  string          `json:"event"` // its name
	Time   time.Time       `json:"time"`  // its append time, UTC, milliseconds
	Offset int64           `json:"offset"`
	Data   json.RawMessage `json:"data,omitempty"` // as it was posted; absent if there was none
}
