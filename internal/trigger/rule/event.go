package rule

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/record"
)

// Limits of an event.
const (
	NameBytesMax   = 256  // of its name
	EntityBytesMax = 1024 // of what it happened to
	EventIDMax     = 256  // of its id
)

// Event is the value of a record in a topic of events. The record's key is the entity.
type Event struct {
	Name     string          `json:"event"`
	EntityID string          `json:"entity_id"`
	Data     json.RawMessage `json:"data,omitempty"`
	// ID names it among the events of the entity: one that comes again within a day counts once. "": it has none.
	ID string `json:"id,omitempty"`
	// OccurredAt is what its sender says; nothing goes by it.
	OccurredAt *time.Time `json:"occurred_at,omitempty"`
}

// ErrEvent is what ParseEvent's errors wrap.
var ErrEvent = errors.New("not an event")

// ParseEvent reads a record. Members that it does not know are skipped. What it returns shares no memory with the record.
func ParseEvent(key, value []byte) (e Event, err error) {
	if err := json.Unmarshal(value, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if err := e.Validate(); err != nil {
		return Event{}, err
	}
	if !bytes.Equal(key, []byte(e.EntityID)) {
		return Event{}, fmt.Errorf("%w: the record's key is not its entity_id", ErrEvent)
	}
	return e, nil
}

// Validate says which limit an event exceeds.
func (e *Event) Validate() error {
	switch {
	case e.Name == "":
		return fmt.Errorf("%w: event is missing", ErrEvent)
	case len(e.Name) > NameBytesMax:
		return fmt.Errorf("%w: event has %d bytes, the limit is %d", ErrEvent, len(e.Name), NameBytesMax)
	case e.EntityID == "":
		return fmt.Errorf("%w: entity_id is missing", ErrEvent)
	case len(e.EntityID) > EntityBytesMax:
		return fmt.Errorf("%w: entity_id has %d bytes, the limit is %d", ErrEvent, len(e.EntityID), EntityBytesMax)
	case len(e.ID) > EventIDMax:
		return fmt.Errorf("%w: id has %d bytes, the limit is %d", ErrEvent, len(e.ID), EventIDMax)
	}
	return nil
}

// Horizon is how long (ms, of the log's time) an event with an id keeps others of that id from counting.
const Horizon = 24 * 3600 * 1000

// Hash is what an entity of a partition, or one of its events with an id, is remembered by.
func Hash(topic record.ID, partition uint32, entity, id string) [16]byte {
	b := binary.BigEndian.AppendUint32(append([]byte{}, topic[:]...), partition)
	b = append(binary.AppendUvarint(b, uint64(len(entity))), entity...)
	sum := sha256.Sum256(append(b, id...))
	return [16]byte(sum[:16])
}
