package rule

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/record"
)

// Limits of an event.
const (
	NameBytesMax   = 256  // of the name
	EntityBytesMax = 1024 // of the entity ID
	EventIDMax     = 256  // of the ID
)

// Event is the value of a record in a topic of events. The key of the record is the entity ID.
type Event struct {
	Name     string          `json:"event"`
	EntityID string          `json:"entity_id"`
	Data     json.RawMessage `json:"data,omitempty"`
	// ID identifies the event among those of the entity: a repeat within a day is a duplicate. "":
	// none.
	ID string `json:"id,omitempty"`
	// OccurredAt is supplied by the client and informational only.
	OccurredAt Occurred `json:"occurred_at,omitzero"`
}

// ErrEvent is wrapped by the errors of ParseEvent.
var ErrEvent = errors.New("not an event")

// ParseEvent parses a record. Unknown members are ignored. The result shares no memory with the
// record.
func ParseEvent(key, value []byte) (e Event, err error) {
	if err := json.Unmarshal(value, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if err := e.Validate(); err != nil {
		return Event{}, err
	}
	if !bytes.Equal(key, []byte(e.EntityID)) {
		return Event{}, fmt.Errorf("%w: the record's key differs from entity_id", ErrEvent)
	}
	return e, nil
}

// Occurred is a time that producers of records may write as any JSON. Given is false if that is no
// time in RFC 3339.
type Occurred struct {
	time.Time
	Given bool
}

// IsZero reports whether the time was not given. The first instant of year 1 is a time.
func (o Occurred) IsZero() bool { return !o.Given }

// UnmarshalJSON implements json.Unmarshaler, without errors.
func (o *Occurred) UnmarshalJSON(value []byte) error {
	var text string
	if json.Unmarshal(value, &text) == nil {
		var err error
		o.Time, err = input.Time(text)
		o.Given = err == nil
	}
	return nil
}

// Validate reports a limit that the event exceeds.
func (e *Event) Validate() error {
	switch {
	case e.Name == "":
		return fmt.Errorf("%w: event: missing", ErrEvent)
	case len(e.Name) > NameBytesMax:
		return fmt.Errorf("%w: event: %d bytes, the limit is %d", ErrEvent, len(e.Name), NameBytesMax)
	case e.EntityID == "":
		return fmt.Errorf("%w: entity_id: missing", ErrEvent)
	case len(e.EntityID) > EntityBytesMax:
		return fmt.Errorf("%w: entity_id: %d bytes, the limit is %d", ErrEvent, len(e.EntityID), EntityBytesMax)
	case len(e.ID) > EventIDMax:
		return fmt.Errorf("%w: id: %d bytes, the limit is %d", ErrEvent, len(e.ID), EventIDMax)
	}
	return nil
}

// Horizon is the time (ms of log time) for which an event with an ID makes others with the same ID
// duplicates.
const Horizon = 24 * 3600 * 1000

// Hash identifies an entity of a partition, or one of its events with an ID.
func Hash(topic record.ID, partition uint32, entity, id string) [16]byte {
	b := binary.BigEndian.AppendUint32(append([]byte{}, topic[:]...), partition)
	b = append(binary.AppendUvarint(b, uint64(len(entity))), entity...)
	sum := sha256.Sum256(append(b, id...))
	return [16]byte(sum[:16])
}
