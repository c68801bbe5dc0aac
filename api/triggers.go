package api

import (
	"encoding/json"
	"time"
)

// TriggerSpec is the body of PUT /triggers/{id}, POST /triggers/check and POST /triggers/dry-run. An
// absent member has its default.
type TriggerSpec struct {
	Expr json.RawMessage `json:"expr"` // required: a string with the text, or the JSON form
	// Topic has the events; default: the broker's events topic.
	Topic      string `json:"topic,omitempty"`
	Fire       string `json:"fire,omitempty"` // once | edge | reset
	Cooldown   string `json:"cooldown,omitempty"`
	Backfill   string `json:"backfill,omitempty"` // silent | current | replay | none
	CarryFired *bool  `json:"carry_fired,omitempty"`
	OnRetract  string `json:"on_retract,omitempty"` // "" | notify
	// Status is active or paused; default: unchanged.
	Status  string          `json:"status,omitempty"`
	Deliver json.RawMessage `json:"deliver,omitempty"` // default: no delivery
	// KeepDeliver keeps the delivery of the existing trigger, with its secrets. Not with Deliver.
	KeepDeliver bool `json:"keep_deliver,omitempty"`
}

// TriggerCheck is the answer to POST /triggers/check. Without faults, `PUT /triggers/{id}` would
// take the definition.
type TriggerCheck struct {
	// Empty: PUT would take the definition.
	Faults []TriggerFault `json:"faults"`
}

// TriggerFault is a reason for which a definition is not valid.
type TriggerFault struct {
	// Member of the definition, or `id`.
	//openapi:example deliver.url
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Trigger is the definition and the state of a trigger. Its secrets and the values of its headers
// are masked.
type Trigger struct {
	ID      string `json:"id"`
	Version int    `json:"version"` // From 1; continues if the ID was used before.
	// Names the stored definition, for `If-Match`. Every stored change has another one, also one that
	// makes no new version.
	Tag   string          `json:"tag"`
	Text  string          `json:"text"`  // The expression as it was written.
	Expr  json.RawMessage `json:"expr"`  // The expression in JSON form.
	Names []string        `json:"names"` // Names of mentioned events.
	// `windowed` with WITHIN or AFTER; `constant` changes at events only.
	//openapi:enum [constant, windowed]
	Class string `json:"class"`
	Topic string `json:"topic"`
	//openapi:enum [once, edge, reset]
	Fire     string `json:"fire"`
	Cooldown string `json:"cooldown,omitempty"`
	//openapi:enum [silent, current, replay, none]
	Backfill   string `json:"backfill"`
	CarryFired bool   `json:"carry_fired"`
	//openapi:enum [notify]
	OnRetract string `json:"on_retract,omitempty"`
	//openapi:enum [active, paused]
	Status string `json:"status"`
	//openapi:schema Delivery
	Deliver json.RawMessage `json:"deliver,omitempty"`
	// It reads the history and does not process new events yet.
	Backfilling bool `json:"backfilling"`
	// It costs more than all other triggers of its topic together and reads the log by itself, so it
	// fires late.
	Late bool `json:"late,omitempty"`
	// The topic of its events was deleted. The trigger follows the next topic of this name.
	TopicMissing bool `json:"topic_missing"`
	// Why its deliveries wait: the broker cannot decrypt its secrets.
	Blocked string `json:"blocked,omitempty"`
	// Only with `counts=true`.
	Firings   *TriggerFirings `json:"firings,omitempty"`
	CreatedAt time.Time       `json:"created_at"` // Log time of the first version.
	// Log time of this version.
	VersionAt time.Time `json:"version_at"`
}

// TriggerFirings counts the firings of a trigger, by its newest ones: at most 10,000, and in a list
// 1,000 of each trigger and about 20,000 in all.
type TriggerFirings struct {
	States map[string]int `json:"states"` // Firings by state.
	Day    int            `json:"day"`    // Firings in the last 24 hours.
	Week   int            `json:"week"`   // Firings in the last 7 days.
	// Older firings are not counted; null: all are counted.
	Since *time.Time `json:"since"`
	Last  *time.Time `json:"last"` // Time of the newest firing; null: none.
	// Pending firings of any age.
	//openapi:maximum 1000
	Pending       int        `json:"pending"`
	OldestPending *time.Time `json:"oldest_pending"` // Time of the oldest of these; null: none.
	// Upper bound on the age of the events and deadlines that the triggers of this broker have not
	// processed.
	LagSeconds float64 `json:"lag_seconds"`
}

// Secrets is the state of the secrets of triggers, and the answer to POST /secrets/rewrap. Keys are
// named by their IDs.
type Secrets struct {
	// ID of the key that encrypts. Without it new secrets are stored readable.
	//openapi:example '5d1c0f6e7a8b9c0d'
	Key string `json:"key,omitempty"`
	// IDs of the keys of the broker, the one that encrypts first.
	Keys     []string `json:"keys"`
	Readable int      `json:"readable"` // Triggers whose secrets are not encrypted.
	// Triggers with encrypted secrets, by the ID of the key.
	Encrypted map[string]int `json:"encrypted"`
	// Triggers whose key the broker does not have. Their deliveries wait.
	Blocked int `json:"blocked"`
	// The first of these triggers, without those that the client may not read.
	Triggers []string `json:"triggers"`
	// Triggers that the request has given the active key.
	Rewrapped int `json:"rewrapped"`
	Left      int `json:"left"` // Triggers with another key of the broker.
	// ID of the key with which the signing key of the SQS API is encrypted; absent: there is none.
	SigningKey string `json:"signing_key,omitempty"`
}

// Triggers is the answer to GET /triggers, sorted by ID.
type Triggers struct {
	Triggers []Trigger `json:"triggers"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}

// TriggerStored is the answer to PUT /triggers/{id}.
type TriggerStored struct {
	Trigger
	Warnings []string `json:"warnings"` // Possible mistakes.
	// First existing event of each partition. Absence before it is unknown.
	History []HistoryStart `json:"history"`
}

// HistoryStart is the start offset of a partition.
type HistoryStart struct {
	//openapi:format int32
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Firing is a firing and the state of its delivery.
type Firing struct {
	// Number in the order in which this broker found the firings.
	Seq int64 `json:"seq"`
	// Derived from the cause, so it is the same on each broker.
	//openapi:pattern '^[0-9a-f]{32}$'
	ID      string `json:"id"`
	Trigger string `json:"trigger"`
	Version int    `json:"version"`
	Entity  string `json:"entity"`
	// Log time at which the expression became true.
	At time.Time `json:"at"`
	// `o:partition:offset` of an event, `d:ms:partition` of a deadline, `c:ms:partition:offset` with
	// `backfill: current`.
	Cause string `json:"cause"`
	// See docs/guide/triggers.md.
	//openapi:enum [computed, pending, delivered, dead, suppressed, carried, historic, retracted, cancelled, forgotten]
	State      string    `json:"state"`
	RecordedAt time.Time `json:"recorded_at,omitzero"` // Absent if the firing is not in the log.
	// When the expression became false, with `on_retract: notify`.
	RetractedAt time.Time `json:"retracted_at,omitzero"`
	// The current or last delivery is the retraction.
	Retraction bool `json:"retraction,omitempty"`
	// Delivery attempts of the current message.
	Attempts int `json:"attempts"`
	// For a pending firing: earliest time of the next attempt, in quiet hours their end. Absent while
	// the trigger is paused.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Why a due firing is not delivered.
	//openapi:enum [quiet_hours, paused]
	Held string `json:"held,omitempty"`
	// Of the last attempt.
	//openapi:schema Outcome
	Outcome   json.RawMessage `json:"outcome,omitempty"`
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offsets   []int64         `json:"offsets"` // Of the matched events.
	// The matched events, in the answer for one firing. It omits events that are no longer in the log.
	Witness []MatchedEvent `json:"witness,omitempty"`
}

// MatchedEvent is an event that made an expression true.
type MatchedEvent struct {
	Event  string    `json:"event"`
	Offset int64     `json:"offset"`
	Time   time.Time `json:"time"`
	ID     string    `json:"id,omitempty"`
	//openapi:nullable true
	Data json.RawMessage `json:"data,omitempty"`
}

// Firings is the answer to GET /firings.
type Firings struct {
	Firings []Firing `json:"firings"`
	// Value of `after` for the next page, with `order=newest` of `before`; null: no more firings now.
	Next *int64 `json:"next"`
}

// Explanation is the answer to GET /triggers/{id}/entities/{entity}: the state of a trigger for an
// entity.
type Explanation struct {
	Trigger string `json:"trigger"`
	Version int    `json:"version"`
	Entity  string `json:"entity"`
	// A mentioned event has happened to the entity.
	Known bool      `json:"known"`
	Value bool      `json:"value"`          // Whether the expression is true.
	AsOf  time.Time `json:"as_of,omitzero"` // Log time of the answer.
	// When `value` changes without further events; null: never.
	Next      *time.Time `json:"next"`
	Completed bool       `json:"over"` // The entity cannot fire again.
	// It has fired, or would have before the trigger was created.
	Fired    bool   `json:"fired"`
	WaitsFor string `json:"waits"` // Summary for people.
	// Awaited parts of the expression, such as `count(login) >= 3`.
	MustCome []string `json:"must_come"`
	// Parts of the expression whose events keep or make it false.
	MustNotCome []string `json:"must_not_come"`
	// Events that can still change `value`, the one with the earliest `until` first.
	//openapi:maxItems 64
	Awaited   []AwaitedEvent `json:"awaited"`
	Names     []string       `json:"names"`     // Names of all mentioned events.
	Instances int            `json:"instances"` // Number of followed left sides of THEN.
	// There were more than 1,024 instances: `value` may be wrong.
	Degraded bool    `json:"degraded"`
	Offsets  []int64 `json:"offsets"` // Of the matched events.
	//openapi:maxItems 100
	Firings []Firing `json:"firings"`
	// Which event began the wait, what ended it or is missing, whether the trigger fired, and what
	// would change that. For people; the text can change.
	Why string `json:"why"`
	// What the events of the entity did, from the log.
	History EntityHistory `json:"history"`
}

// EntityHistory is what the events of an entity did to the expression of a trigger. It is read from
// the log by the key index, and does not need the state of the trigger. All events are of one
// partition.
type EntityHistory struct {
	// Why events are missing; absent: none is. `key_index_off`: the topic has no key index.
	// `key_index_behind`: the index does not have the newest ones yet. `unknown_topic`: the topic was
	// deleted. `too_slow`: the evaluation did not end within 10 seconds; the other members are empty.
	// `too_many`: only the newest ones were read. `trimmed`: older events were deleted from the topic,
	// by retention or a trim, and may have been of the entity.
	//openapi:enum [key_index_off, key_index_behind, unknown_topic, too_many, trimmed, too_slow]
	Unread string `json:"unread,omitempty"`
	// Events that were read.
	//openapi:maximum 10000
	Events int `json:"events"`
	// Log time of the oldest of them; null: there is none.
	Since *time.Time `json:"since"`
	AsOf  time.Time  `json:"as_of,omitzero"` // Log time up to which they were evaluated.
	// The value of the expression then, for these events.
	//openapi:enum ['false', pending, 'true']
	Value string `json:"value"`
	// Of all these events.
	Partition int32 `json:"partition"`
	// The entity has events in another partition too, which count by themselves.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Events that the expression does not mention, the most frequent first. Needs the right to read
	// the topic.
	//openapi:maxItems 20
	Others []EventCount `json:"others"`
	// The other events, and deadlines, oldest first: the newest ones.
	//openapi:maxItems 100
	Steps []HistoryStep `json:"steps"`
	More  int           `json:"more"` // Number of older steps.
}

// EventCount counts events of a name.
type EventCount struct {
	Event string `json:"event"`
	Count int    `json:"count"`
}

// HistoryStep is an event or a deadline of an entity, and what it did.
type HistoryStep struct {
	At     time.Time `json:"at"`     // Log time.
	Event  string    `json:"event"`  // Name; empty: a deadline.
	Offset *int64    `json:"offset"` // null: a deadline.
	// Why the event does not count. `too_old`: the trigger ignores events from before its creation.
	//openapi:enum [not_matched, duplicate_id, not_yet, too_old]
	Skipped string `json:"skipped,omitempty"`
	//openapi:schema EffectKind
	Effect string `json:"effect,omitempty"`
	// The part of the expression that the effect concerns.
	//openapi:maxLength 200
	Expr string `json:"expr,omitempty"`
	// The value from then on.
	//openapi:enum ['false', pending, 'true']
	Value string `json:"value"`
	// What the event or deadline did. For people; the text can change.
	Text string `json:"text"`
}

// Entity is the answer to GET /entities/{entity}: the triggers that have state or firings of an
// entity, sorted by ID.
type Entity struct {
	Entity string `json:"entity"`
	//openapi:maxItems 1000
	Triggers []EntityTrigger `json:"triggers"`
	// The parameter `after` of the next page; null: there are no more triggers.
	Next *string `json:"next"`
}

// EntityTrigger is the state of a trigger for an entity, with the members of Explanation.
type EntityTrigger struct {
	Trigger string `json:"trigger"`
	Version int    `json:"version"`
	Topic   string `json:"topic"` // The topic with the events.
	// A mentioned event has happened to the entity.
	Known bool      `json:"known"`
	Value bool      `json:"value"`          // Whether the expression is true.
	AsOf  time.Time `json:"as_of,omitzero"` // Log time of the answer.
	// When `value` changes without further events; null: never.
	Next      *time.Time `json:"next"`
	Completed bool       `json:"over"` // The entity cannot fire again.
	// It has fired, or would have before the trigger was created.
	Fired    bool   `json:"fired"`
	WaitsFor string `json:"waits"` // Summary for people.
	// Events that can still change `value`, the one with the earliest `until` first.
	//openapi:maxItems 64
	Awaited []AwaitedEvent `json:"awaited"`
	// There were more than 1,024 instances: `value` may be wrong.
	Degraded bool    `json:"degraded"`
	Offsets  []int64 `json:"offsets"` // Of the matched events.
	// Number of its firings in any state; 1,000 stands for more.
	//openapi:maximum 1000
	//openapi:minimum 0
	Firings int        `json:"firings"`
	Last    *time.Time `json:"last"` // Time of the newest firing; null: none.
}

// AwaitedEvent is an event that can still change the value of an expression.
type AwaitedEvent struct {
	Event string `json:"event"` // Name of the event.
	// The part of the expression, such as `count(login) >= 3`.
	Expr string `json:"expr"`
	// `must_not_come`: it keeps or makes the expression false. `starts`: it starts another instance of
	// a THEN.
	//openapi:enum [must_come, must_not_come, starts]
	Role string `json:"role"`
	Have int    `json:"have"` // Number of such events so far.
	Need int    `json:"need"` // The required or forbidden number.
	// Log time from which it counts; null: no bound.
	From *time.Time `json:"from"`
	// Log time until which it counts, inclusive; null: no bound.
	Until *time.Time `json:"until"`
}

// The roles of an AwaitedEvent.
const (
	MustCome    = "must_come"
	MustNotCome = "must_not_come" // it prevents or ends that the expression is true
	Starts      = "starts"        // neither: it would start another instance of a THEN
)

// DryRun is the answer to POST /triggers/dry-run: the firings that the trigger would have had if it
// had existed from the beginning. All counts are those of the evaluated entities, except
// `entities_seen` and `estimate`.
type DryRun struct {
	Events   int64 `json:"events"`   // Events in the history.
	Matched  int64 `json:"matched"`  // Mentioned events.
	Entities int   `json:"entities"` // Entities with mentioned events.
	// All entities with events, also outside of the sample: exact up to 8,192, above that with a
	// standard error of 1.3 %.
	EntitiesSeen int `json:"entities_seen"`
	// Log time from which firings count; null: no bound.
	Since *time.Time `json:"since"`
	// Log time before which firings count; null: no bound.
	Until   *time.Time `json:"until"`
	Firings int64      `json:"firings"` // Firings in the range.
	Fired   int        `json:"fired"`   // Entities with a firing in the range.
	// Firings by day, UTC.
	//openapi:additionalProperties {format: null}
	Days map[string]int64 `json:"days"`
	// Entities for which the expression is true at `as_of`.
	True int `json:"true_now"`
	// One of so many entities was evaluated; 1: all.
	Sample int `json:"sample"`
	// Numbers of all entities; null: all were evaluated, or the answer is truncated.
	//openapi:nullable true
	//openapi:type object
	Estimate *DryRunEstimate `json:"estimate"`
	Waiting  int             `json:"waiting"` // Entities that change by time alone.
	Next     *time.Time      `json:"next"`    // Time of the first such change.
	// Maximum number of followed left sides of THEN for one entity.
	Instances int `json:"instances"`
	// Entities that had too many of them: their value may be wrong.
	Degraded int       `json:"degraded"`
	AsOf     time.Time `json:"as_of"` // Log time up to which events were evaluated.
	// More entities than fit into the memory of dry runs: only the first ones are counted.
	Truncated bool           `json:"truncated"`
	Skipped   int64          `json:"skipped"` // Records of the topic that are no events.
	History   []HistoryStart `json:"history"`
	// Log time from which on all events exist: earlier ones were deleted or lost, so that earlier
	// counts are too small; null: none is missing.
	CompleteFrom *time.Time `json:"complete_from"`
	Names        []string   `json:"names"`
	//openapi:enum [constant, windowed]
	Class    string   `json:"class"`
	Warnings []string `json:"warnings"`
	// The last firings.
	//openapi:maxItems 20
	Samples []Sample `json:"samples"`
	// Entities with mentioned events and without a firing in the range.
	//openapi:maxItems 5
	NotFired []NotFired `json:"not_fired"`
}

// DryRunEstimate has the numbers of all entities, as estimated from a sample.
type DryRunEstimate struct {
	Firings  Estimate `json:"firings"`
	Fired    Estimate `json:"fired"`
	Entities Estimate `json:"entities"`
}

// Estimate is an estimated number with a 95 % interval. The interval supposes that no entity
// outside of the sample has far more firings than those inside.
type Estimate struct {
	Value int64 `json:"value"`
	Low   int64 `json:"low"`
	High  int64 `json:"high"`
}

// NotFired is an entity without a firing in the range of a dry run.
type NotFired struct {
	Entity string `json:"entity"`
	True   bool   `json:"true_now"`
	// When the value changes without further events; null: never.
	Next *time.Time `json:"next"`
	// The last firing before the range; null: none.
	Last *time.Time `json:"last"`
}

// DryRunProgress is the data of an event progress in the stream of a dry run.
type DryRunProgress struct {
	Read int64 `json:"read"` // Records that were read or skipped.
	// Records of the topic, at most: deleted ones count, and those after the range.
	Total int64 `json:"total"`
	//openapi:maximum 100
	//openapi:minimum 0
	Percent int `json:"percent"`
}

// Sample is a firing in the result of a dry run.
type Sample struct {
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"`
	Cause   string    `json:"cause"`
	Offsets []int64   `json:"offsets"`
	// The matched events. Absent if the log does not have them any more, or if they are too large for
	// the answer.
	Witness []MatchedEvent `json:"witness,omitempty"`
}
