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

// ID names a firing: the same for the same cause, whoever computes it and however often.
type ID [16]byte

// ParseID reads what String wrote.
func ParseID(s string) (id ID, err error) {
	if b, err := hex.DecodeString(s); err != nil || copy(id[:], b) != len(id) || len(b) != len(id) {
		return ID{}, fmt.Errorf("firing id %q is not 32 hex digits", s)
	}
	return id, nil
}

// String returns 32 hex digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MakeID is the id of the firing of a trigger for an entity because of a cause.
func MakeID(trigger string, version int, entity, cause string) ID {
	var b []byte
	for _, s := range [...]string{trigger, strconv.Itoa(version), entity, cause} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return ID(sum[:16])
}

// EventCause is the cause of what fires at an event.
func EventCause(partition uint32, offset int64) string {
	return "o:" + strconv.FormatUint(uint64(partition), 10) + ":" + strconv.FormatInt(offset, 10)
}

// EventCauseAgain is EventCause in a topic that was created again under the name that a trigger knows it by: its offsets
// repeat those of the topic before, so the cause has its id too.
func EventCauseAgain(partition uint32, offset int64, topic record.ID) string {
	return EventCause(partition, offset) + ":" + topic.String()
}

// DeadlineCause is the cause of what fires at an instant, by time alone. An entity has its events in one partition.
func DeadlineCause(millis int64, partition uint32) string {
	return "d:" + strconv.FormatInt(millis, 10) + ":" + strconv.FormatUint(uint64(partition), 10)
}

// StartCause is the cause of what fires because it was true when its trigger was made: at an instant, before the event of an
// offset.
func StartCause(millis int64, partition uint32, offset int64) string {
	return "c:" + strconv.FormatInt(millis, 10) + ":" + strconv.FormatUint(uint64(partition), 10) + ":" + strconv.FormatInt(offset, 10)
}

// Kind says what a record of the topic of firings is about.
type Kind string

// The kinds.
const (
	FiredEntry Kind = "firing"  // a trigger has fired: the first record of an id counts, others are ignored
	Retract    Kind = "retract" // the expression is no longer true: ID is the firing's
	Attempt    Kind = "attempt" // to deliver, without success; another one comes at NextTry
	Done       Kind = "done"    // no more attempts; State says with what result
	Defer      Kind = "defer"   // there was no attempt: it may not be delivered before NextTry
	Resend     Kind = "resend"  // deliver it again
	Tick       Kind = "tick"    // nothing: makes the log's time advance
)

// State is what becomes of a firing.
type State string

// The states. The first four are in a record of kind Fired too: what was decided when it was recorded.
const (
	Pending    State = "pending"    // to be delivered
	Suppressed State = "suppressed" // it fell into the cooldown, or the trigger was paused
	Carried    State = "carried"    // an earlier version of the trigger has fired already
	Historic   State = "historic"   // it happened before the trigger was made
	Delivered  State = "delivered"
	Dead       State = "dead"      // could not be delivered
	Retracted  State = "retracted" // was taken back before anybody heard of it
	Cancelled  State = "cancelled" // the trigger was deleted before it was delivered
	Forgotten  State = "forgotten" // is older than what the topic of firings still has, so that nobody knows
	Computed   State = "computed"  // not in the log yet
)

// Record is the value of a record in the topic of firings; its key is the id in hex.
type Record struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id,omitempty"`
	// Of Fired.
	Trigger string `json:"trigger,omitempty"`
	Version int    `json:"version,omitempty"`
	Entity  string `json:"entity,omitempty"`
	// Witness is the offsets, in Partition of Topic, of the events because of which the expression is true.
	Topic     string  `json:"topic,omitempty"`
	Partition uint32  `json:"partition,omitempty"`
	Witness   []int64 `json:"witness,omitempty"`
	// Of Fired and Retract: the instant (ms since 1970), and why then.
	At    int64  `json:"at,omitempty"`
	Cause string `json:"cause,omitempty"`
	// State is of Fired and Done.
	State State `json:"state,omitempty"`
	// Of Attempt and Done: whether it was the message that takes the firing back, and what came of it.
	Retraction bool            `json:"retraction,omitempty"`
	Outcome    json.RawMessage `json:"outcome,omitempty"`
	NextTry    int64           `json:"next_try,omitempty"` // of Attempt and Defer: when to try again, ms since 1970
}

// ErrRecord is what ParseRecord's errors wrap.
var ErrRecord = errors.New("not a record of a firing")

// ParseRecord reads the value of a record.
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
	case FiredEntry:
		ok = r.Trigger != "" && r.Version > 0 && r.Entity != "" && r.Cause != "" && (r.State == Pending || r.State == Suppressed || r.State == Carried)
		if ok && MakeID(r.Trigger, r.Version, r.Entity, r.Cause) != id {
			return r, id, fmt.Errorf("%w: its id is not that of its cause", ErrRecord)
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

// Encode is the value of a record.
func (r *Record) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("record of a firing: %v", err)) // it holds nothing that JSON can not say
	}
	return b
}

// Encoded is the record as it is appended to the topic.
func (r *Record) Encoded() record.Record {
	key := r.ID
	if r.Kind == Tick {
		key = string(Tick)
	}
	return record.Record{Key: []byte(key), Value: r.Encode()}
}

// Cut is a border in the log: the first offset of each partition of a topic that lies behind it, and an instant (ms). What happens
// at that instant or earlier lies before it, whatever its offset.
type Cut struct {
	Topic string // its id in hex
	From  []int64
	At    int64
}

// Behind is whether a cause that has happened at an instant (ms) lies behind a cut: an event later than the cut's instant
// with an offset that From does not include (of a partition that is not in From, or of another topic, every one), or a later
// instant. An event of a cause that names no topic is one of home.
func (c *Cut) Behind(cause, home string, happened int64) bool {
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

// Mark is a record of a partition: its offset, and its time (ms).
type Mark struct{ Offset, At int64 }

// Before is whether a cause that has happened at an instant (ms) lies before a record of its partition: an event with a lower
// offset or an earlier time (of a topic that was there before), or an earlier instant.
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

// parse takes a cause apart: its kind, and the numbers in it.
func parse(cause string) (kind string, n [3]int64) {
	kind, rest, _ := strings.Cut(cause, ":")
	for i, s := range strings.SplitN(rest, ":", len(n)) {
		n[i], _ = strconv.ParseInt(s, 10, 64)
	}
	return kind, n
}

// IsZero is whether it is none.
func (id ID) IsZero() bool { return id == ID{} }
