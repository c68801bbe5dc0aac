package webhook

import (
	"encoding/json"
	"time"
)

// Version is the version of the body in Firing. A receiver ignores unknown members. A change in the
// meaning of a member increases Version.
const Version = 1

// Types of messages.
const (
	TypeFired = "trigger.fired" // the expression became true for the entity
	// The expression is no longer true; sent for triggers with on_retract=notify.
	TypeRetracted = "trigger.retracted"
)

// Firing is the JSON body of a message of a trigger without a template.
type Firing struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the firing or retraction, UTC, milliseconds
	Version   int       `json:"version"`   // of this body: Version
	// ID identifies the firing. A retraction has the ID of its firing, and a webhook-id with the
	// suffix "-retracted".
	ID      string     `json:"id"`
	Attempt int        `json:"attempt"` // 1 for the first attempt of the message
	Data    FiringData `json:"data"`
}

// FiringData has the trigger, the entity and the matched events of a firing.
type FiringData struct {
	Trigger        string `json:"trigger"`
	TriggerVersion int    `json:"trigger_version"`
	Entity         string `json:"entity"`
	// the events that made the expression true, in log order
	Witness []Event `json:"witness"`
}

// Event is an event of the log.
type Event struct {
	Event  string          `json:"event"` // its name
	Time   time.Time       `json:"time"`  // append time, UTC, milliseconds
	Offset int64           `json:"offset"`
	Data   json.RawMessage `json:"data,omitempty"` // as posted; absent if the event has none
}
