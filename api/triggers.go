package api

import (
	"encoding/json"
	"time"
)

// TriggerSpec is the body of PUT /triggers/{id} and POST /triggers/dry-run. What is left out has its default.
type TriggerSpec struct {
	Expr       json.RawMessage `json:"expr"`            // required: a string with the text, or the JSON form
	Topic      string          `json:"topic,omitempty"` // of its events; that of the broker
	Fire       string          `json:"fire,omitempty"`  // once | edge | reset
	Cooldown   string          `json:"cooldown,omitempty"`
	Backfill   string          `json:"backfill,omitempty"` // silent | current | replay | none
	CarryFired *bool           `json:"carry_fired,omitempty"`
	OnRetract  string          `json:"on_retract,omitempty"` // "" | notify
	Status     string          `json:"status,omitempty"`     // active | paused; as it is
	Deliver    json.RawMessage `json:"deliver,omitempty"`    // nowhere
}

// Trigger is a trigger as it is followed. Its secrets, and the values of its headers, are masked.
type Trigger struct {
	ID         string          `json:"id"`
	Version    int             `json:"version"`
	Text       string          `json:"text"` // the expression as its author wrote it
	Expr       json.RawMessage `json:"expr"` // the same in the JSON form
	Names      []string        `json:"names"`
	Class      string          `json:"class"` // windowed, or constant between events
	Topic      string          `json:"topic"`
	Fire       string          `json:"fire"`
	Cooldown   string          `json:"cooldown,omitempty"`
	Backfill   string          `json:"backfill"`
	CarryFired bool            `json:"carry_fired"`
	OnRetract  string          `json:"on_retract,omitempty"`
	Status     string          `json:"status"`
	Deliver    json.RawMessage `json:"deliver,omitempty"`
	// Backfilling: it reads what was there before it, and does not fire at what is new yet.
	Backfilling bool `json:"backfilling"`
	// Late: it costs so much that it reads what is new by itself, behind the others.
	Late bool `json:"late,omitempty"`
	// TopicMissing: there is no topic of its events. It follows the next one of that name.
	TopicMissing bool      `json:"topic_missing"`
	CreatedAt    time.Time `json:"created_at"` // of the first version
	VersionAt    time.Time `json:"version_at"` // of this one
}

// Triggers is the answer to GET /triggers, by id.
type Triggers struct {
	Triggers []Trigger `json:"triggers"`
}

// TriggerStored is the answer to PUT /triggers/{id}.
type TriggerStored struct {
	Trigger
	Warnings []string `json:"warnings"`
	// History is where the events begin that are still there, for each partition of the topic: absence before is not known.
	History []HistoryStart `json:"history"`
}

// HistoryStart is the first offset of a partition that is there.
type HistoryStart struct {
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Firing is a firing and what became of it.
type Firing struct {
	Seq     int64     `json:"seq"` // in the order in which the broker learned of them
	ID      string    `json:"id"`
	Trigger string    `json:"trigger"`
	Version int       `json:"version"`
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"`    // when the expression became true, in the log's time
	Cause   string    `json:"cause"` // o:partition:offset, d:ms:partition or c:ms:partition:offset
	State   string    `json:"state"`
	// RecordedAt is when it was recorded in the log; zero: not yet, or never.
	RecordedAt time.Time `json:"recorded_at,omitzero"`
	// RetractedAt is when the expression was no longer true, if that counts for the trigger. Retraction: what is delivered, or
	// was last, is the message that says so.
	RetractedAt time.Time       `json:"retracted_at,omitzero"`
	Retraction  bool            `json:"retraction,omitempty"`
	Attempts    int             `json:"attempts"`              // at the message
	NextAttempt time.Time       `json:"next_attempt,omitzero"` // if it is pending: not before, and behind quiet hours
	Held        string          `json:"held,omitempty"`        // why it is not delivered though it is due: quiet_hours or paused
	Outcome     json.RawMessage `json:"outcome,omitempty"`     // of the last attempt
	Topic       string          `json:"topic"`
	Partition   int32           `json:"partition"`
	Offsets     []int64         `json:"offsets"` // of the events because of which it has fired
	// Witness is those events, in the answer about one firing; what is no longer in the log is left out.
	Witness []WitnessEvent `json:"witness,omitempty"`
}

// WitnessEvent is an event because of which something has fired, or is true.
type WitnessEvent struct {
	Event  string          `json:"event"`
	Offset int64           `json:"offset"`
	Time   time.Time       `json:"time"`
	ID     string          `json:"id,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Firings is the answer to GET /firings. Next is what to give as after for those that follow; null: there are none now.
type Firings struct {
	Firings []Firing `json:"firings"`
	Next    *int64   `json:"next"`
}

// Explanation is the answer to GET /triggers/{id}/entities/{entity}: what a trigger knows of an entity.
type Explanation struct {
	Trigger string     `json:"trigger"`
	Version int        `json:"version"`
	Entity  string     `json:"entity"`
	Known   bool       `json:"known"` // something has happened to it that matters
	Value   bool       `json:"value"` // the expression is true, as of AsOf in the log's time
	AsOf    time.Time  `json:"as_of,omitzero"`
	Next    *time.Time `json:"next"`  // when Value changes if nothing more happens; null: never
	Over    bool       `json:"over"`  // nothing will ever come of it again
	Fired   bool       `json:"fired"` // at least once, before the trigger was made too
	Waits   string     `json:"waits"` // for people
	// MustCome and MustNotCome are parts of the expression: those that it waits for, and those of which the events prevent or end
	// that it is true.
	MustCome    []string `json:"must_come"`
	MustNotCome []string `json:"must_not_come"`
	Names       []string `json:"names"`     // of the events that it waits for
	Instances   int      `json:"instances"` // left sides of THEN that are followed
	Degraded    bool     `json:"degraded"`  // there were too many: Value may be wrong
	Offsets     []int64  `json:"offsets"`   // of the events because of which it is true
	Firings     []Firing `json:"firings"`   // at most 100
}

// DryRun is the answer to POST /triggers/dry-run: what a trigger would have done had it always been there.
type DryRun struct {
	Events   int64            `json:"events"` // in the history; Matched of them matter
	Matched  int64            `json:"matched"`
	Entities int              `json:"entities"` // to which something has happened that matters
	Firings  int64            `json:"firings"`
	Days     map[string]int64 `json:"days"`     // firings by day, UTC
	True     int              `json:"true_now"` // entities of which the expression is true now
	Waiting  int              `json:"waiting"`  // entities that will change by themselves, the first at Next
	Next     *time.Time       `json:"next"`
	// Instances is the most left sides of THEN that were followed at once for one entity.
	Instances int            `json:"instances"`
	AsOf      time.Time      `json:"as_of"`     // up to when it was looked at, in the log's time
	Truncated bool           `json:"truncated"` // more entities than fit into memory: those that came first count
	History   []HistoryStart `json:"history"`
	Names     []string       `json:"names"`
	Class     string         `json:"class"`
	Warnings  []string       `json:"warnings"`
	Samples   []Sample       `json:"samples"` // the last ones, at most 20
}

// Sample is a firing that would have been.
type Sample struct {
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"`
	Cause   string    `json:"cause"`
	Offsets []int64   `json:"offsets"`
	// Witness is the events at Offsets; absent if they are gone, or too large for the answer.
	Witness []WitnessEvent `json:"witness,omitempty"`
}
