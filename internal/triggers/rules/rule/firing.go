package rule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/record"
)

// ID identifies a firing. It depends only on the cause, so every broker computes the same ID.
type ID [16]byte

// ParseID parses the output of String.
func ParseID(s string) (id ID, err error) {
	if b, err := hex.DecodeString(s); err != nil || copy(id[:], b) != len(id) || len(b) != len(id) {
		return ID{}, fmt.Errorf("firing id %q is not 32 hex digits", s)
	}
	return id, nil
}

// String returns 32 hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MakeID is the ID of the firing of a trigger version for an entity because of a cause.
func MakeID(trigger string, version int, entity, cause string) ID {
	var b []byte
	for _, s := range [...]string{trigger, strconv.Itoa(version), entity, cause} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return ID(sum[:16])
}

// EventCause is the cause of a firing at an event.
func EventCause(partition uint32, offset int64) string {
	return "o:" + strconv.FormatUint(uint64(partition), 10) + ":" + strconv.FormatInt(offset, 10)
}

// RecreatedEventCause is EventCause for a topic that was created again with the same name. Its offsets
// repeat those of the earlier topic, so the cause includes the topic's ID.
func RecreatedEventCause(partition uint32, offset int64, topic record.ID) string {
	return EventCause(partition, offset) + ":" + topic.String()
}

// DeadlineCause is the cause of a firing at a deadline. All events of an entity are in one
// partition.
func DeadlineCause(millis int64, partition uint32) string {
	return "d:" + strconv.FormatInt(millis, 10) + ":" + strconv.FormatUint(uint64(partition), 10)
}

// StartCause is the cause of a firing for an expression that was true at the trigger's creation: at
// an instant, before the event with an offset.
func StartCause(millis int64, partition uint32, offset int64) string {
	return "c:" + strconv.FormatInt(millis, 10) + ":" + strconv.FormatUint(uint64(partition), 10) + ":" + strconv.FormatInt(offset, 10)
}

// Kind is the kind of a record of the topic of firings.
type Kind string

// The kinds.
const (
	FiredRecord Kind = "firing"  // a trigger has fired: the first record of an ID counts
	Retract     Kind = "retract" // the expression is no longer true: ID is the firing's
	Attempt     Kind = "attempt" // a delivery attempt without success; the next one is at NextTry
	Done        Kind = "done"    // no more attempts; State is the result
	Defer       Kind = "defer"   // no attempt yet: no delivery before NextTry
	Resend      Kind = "resend"  // deliver it again
	Tick        Kind = "tick"    // no content: makes the log's time advance
)

// State is the state of a firing.
type State string

// The states. The first three are also in a record of kind FiredRecord: the state when it was
// recorded.
const (
	Pending    State = "pending"    // to be delivered
	Suppressed State = "suppressed" // in the cooldown, or the trigger was paused
	Carried    State = "carried"    // an earlier version of the trigger has fired already
	Historic   State = "historic"   // before the trigger's creation
	Delivered  State = "delivered"
	Dead       State = "dead"      // given up after the last attempt
	Retracted  State = "retracted" // retracted before it was delivered
	Cancelled  State = "cancelled" // the trigger was deleted before the delivery
	Forgotten  State = "forgotten" // older than the topic of firings: its state is unknown
	Computed   State = "computed"  // not in the log yet
)

// States are all states.
var States = []State{Computed, Pending, Delivered, Dead, Suppressed, Carried, Historic, Retracted, Cancelled, Forgotten}

// Record is the value of a record in the topic of firings. The key of the record is the ID in hex.
type Record struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id,omitempty"`
	// For FiredRecord.
	Trigger string `json:"trigger,omitempty"`
	Version int    `json:"version,omitempty"`
	Entity  string `json:"entity,omitempty"`
	// Witness holds the offsets, in Partition of Topic, of the matched events.
	Topic     string  `json:"topic,omitempty"`
	Partition uint32  `json:"partition,omitempty"`
	Witness   []int64 `json:"witness,omitempty"`
	// For FiredRecord and Retract: the instant (ms since 1970), and its cause.
	At    int64  `json:"at,omitempty"`
	Cause string `json:"cause,omitempty"`
	// State is set for FiredRecord and Done.
	State State `json:"state,omitempty"`
	// For Attempt and Done: whether the message was the retraction, and the outcome.
	Retraction bool            `json:"retraction,omitempty"`
	Outcome    json.RawMessage `json:"outcome,omitempty"`
	NextTry    int64           `json:"next_try,omitempty"` // for Attempt and Defer, ms since 1970
}

// ErrRecord is wrapped by the errors of ParseRecord.
var ErrRecord = errors.New("not a firing record")

// ParseRecord parses the value of a record.
func ParseRecord(value []byte) (r Record, id ID, err error) {
	if err := json.Unmarshal(value, &r); err != nil {
		return r, id, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if r.Kind == Tick {
		return r, id, nil
	}
	if id, err = ParseID(r.ID); err != nil {
		return r, id, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	ok := false
	switch r.Kind {
	case FiredRecord:
		ok = r.Trigger != "" && r.Version > 0 && r.Entity != "" && r.Cause != "" && (r.State == Pending || r.State == Suppressed || r.State == Carried)
		if ok && MakeID(r.Trigger, r.Version, r.Entity, r.Cause) != id {
			return r, id, fmt.Errorf("%w: id does not match the cause", ErrRecord)
		}
	case Done:
		ok = r.State == Delivered || r.State == Dead
	case Retract, Attempt, Defer, Resend:
		ok = true
	}
	if !ok {
		return r, id, fmt.Errorf("%w: kind %q, state %q", ErrRecord, r.Kind, r.State)
	}
	return r, id, nil
}

// Encode is the value of the record.
func (r *Record) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("encoding a firing record: %v", err))
	}
	return b
}

// Encoded is the record as appended to the topic.
func (r *Record) Encoded() record.Record {
	key := r.ID
	if r.Kind == Tick {
		key = string(Tick)
	}
	return record.Record{Key: []byte(key), Value: r.Encode()}
}

// Cut is a border in the log: the first offset of each partition of a topic that is after it, and
// an instant (ms). Events and deadlines at that instant or earlier are before it, whatever their
// offset.
type Cut struct {
	Topic string // ID in hex
	From  []int64
	At    int64
}

// After reports whether a cause at an instant (ms) is after the border. An event is after it if it
// is later than the instant and its offset is not below From. Offsets of partitions that are not in
// From, or of other topics, are never below. A deadline is after it if it is later than the
// instant. A cause without a topic is an event of home.
func (c *Cut) After(cause, home string, happened int64) bool {
	kind, n := parse(cause)
	if kind != "o" {
		return n[0] > c.At
	}
	if parts := strings.Split(cause, ":"); len(parts) > 3 {
		home = parts[3]
	}
	before := home == c.Topic && n[0] >= 0 && n[0] < int64(len(c.From)) && n[1] < c.From[n[0]]
	return happened > c.At && !before
}

// Mark is a record of a partition: its offset and time (ms).
type Mark struct{ Offset, At int64 }

// Before reports whether a cause at an instant (ms) is before a record of its partition: an event
// with a lower offset or an earlier time (for a topic that existed before), or an earlier instant.
func Before(cause string, happened int64, m Mark) bool {
	offset, at := m.Offset, m.At
	switch kind, n := parse(cause); kind {
	case "o":
		return n[1] < offset || happened < at
	case "c":
		return n[2] <= offset
	default:
		return n[0] < at
	}
}

// parse splits a cause into its kind and numbers.
func parse(cause string) (kind string, n [3]int64) {
	kind, rest, _ := strings.Cut(cause, ":")
	for i, s := range strings.SplitN(rest, ":", len(n)) {
		n[i], _ = strconv.ParseInt(s, 10, 64)
	}
	return kind, n
}

// IsZero reports whether the ID is zero.
func (id ID) IsZero() bool { return id == ID{} }
