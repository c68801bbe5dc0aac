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

// TriggerCheck is the answer to POST /triggers/check.
type TriggerCheck struct {
	Faults []TriggerFault `json:"faults"` // empty: PUT would take the definition
}

// TriggerFault is a reason for which a definition is not valid.
type TriggerFault struct {
	Field  string `json:"field"` // such as id, expr or deliver.url
	Detail string `json:"detail"`
}

// Trigger is the definition and the state of a trigger. Its secrets and the values of its headers
// are masked.
type Trigger struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	// Tag names the stored definition, for If-Match. Every stored change has another one, also one that
	// makes no new version.
	Tag        string          `json:"tag"`
	Text       string          `json:"text"` // the expression as written by its author
	Expr       json.RawMessage `json:"expr"` // the expression in its JSON form
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
	// Backfilling: the trigger is still reading older events, and does not fire for new ones yet.
	Backfilling bool `json:"backfilling"`
	// Late: the trigger is so costly that it reads the log by itself, behind the other triggers.
	Late bool `json:"late,omitempty"`
	// TopicMissing: the topic of its events does not exist. The trigger follows the next topic with
	// this name.
	TopicMissing bool `json:"topic_missing"`
	// Blocked: its deliveries wait for this reason, such as a missing key of its secrets.
	Blocked string `json:"blocked,omitempty"`
	// Firings is present in answers to GET with counts=true.
	Firings   *TriggerFirings `json:"firings,omitempty"`
	CreatedAt time.Time       `json:"created_at"` // creation of the first version
	VersionAt time.Time       `json:"version_at"` // creation of this version
}

// TriggerFirings counts the firings of a trigger, by its newest ones.
type TriggerFirings struct {
	// States counts firings by state, Day and Week those of the last 24 hours and 7 days.
	States map[string]int `json:"states"`
	Day    int            `json:"day"`
	Week   int            `json:"week"`
	// Since: older firings than this one are not counted; null: all firings are counted.
	Since *time.Time `json:"since"`
	Last  *time.Time `json:"last"` // time of the newest firing; null: none
	// Pending is the number of pending firings, at most 1,000, and OldestPending the time of the
	// oldest of these; null: none.
	Pending       int        `json:"pending"`
	OldestPending *time.Time `json:"oldest_pending"`
	// LagSeconds is an upper bound on the age of the events and deadlines that the triggers of the
	// broker have not processed; 0: none.
	LagSeconds float64 `json:"lag_seconds"`
}

// Secrets is the state of the secrets of triggers, and the answer to POST /secrets/rewrap. Keys are
// named by their IDs.
type Secrets struct {
	Key  string   `json:"key,omitempty"` // encrypts; none: new secrets are stored readable
	Keys []string `json:"keys"`          // of the broker, Key first
	// Readable is the number of triggers whose secrets are not encrypted, Encrypted that of the
	// others by their key.
	Readable  int            `json:"readable"`
	Encrypted map[string]int `json:"encrypted"`
	// Blocked is the number of triggers with a key that the broker does not have, Triggers the first
	// of them, without those that the client may not read.
	Blocked  int      `json:"blocked"`
	Triggers []string `json:"triggers"`
	// Rewrapped is the number of triggers that the request gave the active key, Left the number of
	// those that it can still be given to.
	Rewrapped int `json:"rewrapped"`
	Left      int `json:"left"`
}

// Triggers is the answer to GET /triggers, sorted by ID.
type Triggers struct {
	Triggers []Trigger `json:"triggers"`
}

// TriggerStored is the answer to PUT /triggers/{id}.
type TriggerStored struct {
	Trigger
	Warnings []string `json:"warnings"`
	// History has the start offset of each partition of the topic. Events before it are unknown, so
	// their absence is not proven.
	History []HistoryStart `json:"history"`
}

// HistoryStart is the start offset of a partition.
type HistoryStart struct {
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Firing is a firing and the state of its delivery.
type Firing struct {
	// Seq numbers the firings in the order in which the broker read them.
	Seq     int64     `json:"seq"`
	ID      string    `json:"id"`
	Trigger string    `json:"trigger"`
	Version int       `json:"version"`
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"`    // log time at which the expression became true
	Cause   string    `json:"cause"` // o:partition:offset, d:ms:partition or c:ms:partition:offset
	State   string    `json:"state"`
	// RecordedAt is the time at which the log recorded the firing; zero: not yet, or never.
	RecordedAt time.Time `json:"recorded_at,omitzero"`
	// RetractedAt is the time at which the expression became false again, for a trigger that
	// reports this. Retraction: the current or last message is the retraction.
	RetractedAt time.Time `json:"retracted_at,omitzero"`
	Retraction  bool      `json:"retraction,omitempty"`
	// Attempts counts the attempts of the current message.
	Attempts int `json:"attempts"`
	// NextAttempt is the earliest time of the next attempt of a pending message. Quiet hours can
	// delay it.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Held is the reason why a due firing is not delivered: quiet_hours or paused.
	Held      string          `json:"held,omitempty"`
	Outcome   json.RawMessage `json:"outcome,omitempty"` // of the last attempt
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offsets   []int64         `json:"offsets"` // of the matched events
	// Witness has the matched events, in the answer about one firing. It omits events that are no
	// longer in the log.
	Witness []MatchedEvent `json:"witness,omitempty"`
}

// MatchedEvent is an event that made an expression true.
type MatchedEvent struct {
	Event  string          `json:"event"`
	Offset int64           `json:"offset"`
	Time   time.Time       `json:"time"`
	ID     string          `json:"id,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Firings is the answer to GET /firings. Next is the parameter after of the next page, or with
// order=newest the parameter before; null: there are no more firings now.
type Firings struct {
	Firings []Firing `json:"firings"`
	Next    *int64   `json:"next"`
}

// Explanation is the answer to GET /triggers/{id}/entities/{entity}: the state of a trigger for an
// entity.
type Explanation struct {
	Trigger string    `json:"trigger"`
	Version int       `json:"version"`
	Entity  string    `json:"entity"`
	Known   bool      `json:"known"` // the entity has an event that matters
	Value   bool      `json:"value"` // the expression is true at AsOf, a log time
	AsOf    time.Time `json:"as_of,omitzero"`
	// Next is the time at which Value changes without further events; null: never.
	Next *time.Time `json:"next"`
	// Completed: the trigger will never fire for this entity again.
	Completed bool `json:"over"`
	// Fired: at least once, firings before the trigger's definition included.
	Fired    bool   `json:"fired"`
	WaitsFor string `json:"waits"` // for people
	// MustCome and MustNotCome are parts of the expression. The trigger waits for events of
	// MustCome. Events of MustNotCome prevent or end that the expression is true.
	MustCome    []string `json:"must_come"`
	MustNotCome []string `json:"must_not_come"`
	// Awaited has the events that can still change Value, the one with the earliest Until first, at
	// most 64.
	Awaited []AwaitedEvent `json:"awaited"`
	Names   []string       `json:"names"` // event names that the trigger waits for
	// Instances is the number of open left sides of THEN.
	Instances int      `json:"instances"`
	Degraded  bool     `json:"degraded"` // too many instances were open: Value may be wrong
	Offsets   []int64  `json:"offsets"`  // of the matched events
	Firings   []Firing `json:"firings"`  // at most 100
	// Why says which event began the wait, what ended it or is missing, and what would change it. For
	// people.
	Why string `json:"why"`
	// History is what the events of the entity did, from the log: it does not need the state of the
	// trigger.
	History EntityHistory `json:"history"`
}

// EntityHistory is what the events of an entity did to the expression of a trigger. All are of one
// partition.
type EntityHistory struct {
	// Unread is why events are missing: key_index_off, key_index_behind, unknown_topic, too_many,
	// trimmed or too_slow. "" means that none is missing.
	Unread    string     `json:"unread,omitempty"`
	Events    int        `json:"events"`              // that were read, at most 10,000: the newest
	Since     *time.Time `json:"since"`               // of the oldest of them; null: there is none
	AsOf      time.Time  `json:"as_of,omitzero"`      // log time up to which they were evaluated
	Value     string     `json:"value"`               // then: true, pending or false
	Partition int32      `json:"partition"`           // of all these events
	Elsewhere bool       `json:"elsewhere,omitempty"` // other events of the entity are in another partition
	// Others are events that the expression does not mention, the most frequent first, at most 20. They
	// need the right to read the topic.
	Others []EventCount `json:"others"`
	// Steps are the other events, and deadlines, oldest first: the newest 100, after More older ones.
	Steps []HistoryStep `json:"steps"`
	More  int           `json:"more"`
}

// EventCount counts events of a name.
type EventCount struct {
	Event string `json:"event"`
	Count int    `json:"count"`
}

// HistoryStep is an event or a deadline of an entity, and what it did.
type HistoryStep struct {
	At     time.Time `json:"at"`     // log time
	Event  string    `json:"event"`  // name; "": a deadline
	Offset *int64    `json:"offset"` // null: a deadline
	// Skipped, Effect, Expr, Value and Text are as in EvaluationStep. Skipped can also be too_old: the
	// trigger ignores events from before its creation.
	Skipped string `json:"skipped,omitempty"`
	Effect  string `json:"effect,omitempty"`
	Expr    string `json:"expr,omitempty"`
	Value   string `json:"value"`
	Text    string `json:"text"`
}

// Entity is the answer to GET /entities/{entity}: the triggers that have state or firings of an
// entity, sorted by ID.
type Entity struct {
	Entity   string          `json:"entity"`
	Triggers []EntityTrigger `json:"triggers"`
	// Next is the parameter after of the next page, which can be empty; null: there are no more
	// triggers.
	Next *string `json:"next"`
}

// EntityTrigger is the state of a trigger for an entity, with the members of Explanation.
type EntityTrigger struct {
	Trigger   string         `json:"trigger"`
	Version   int            `json:"version"`
	Topic     string         `json:"topic"` // with the events
	Known     bool           `json:"known"`
	Value     bool           `json:"value"`
	AsOf      time.Time      `json:"as_of,omitzero"`
	Next      *time.Time     `json:"next"`
	Completed bool           `json:"over"`
	Fired     bool           `json:"fired"`
	WaitsFor  string         `json:"waits"`
	Awaited   []AwaitedEvent `json:"awaited"`
	Degraded  bool           `json:"degraded"`
	Offsets   []int64        `json:"offsets"`
	Firings   int            `json:"firings"` // in any state, at most 1,000
	Last      *time.Time     `json:"last"`    // time of the newest firing; null: none
}

// AwaitedEvent is an event that can still change the value of an expression.
type AwaitedEvent struct {
	Event string `json:"event"` // name
	Expr  string `json:"expr"`  // the part of the expression, such as count(login) >= 3
	Role  string `json:"role"`  // must_come | must_not_come | starts
	// Have counts the events so far. Need is the required number, or the forbidden one.
	Have int `json:"have"`
	Need int `json:"need"`
	// From and Until bound the log times at which the event counts, both inclusive; null: no bound.
	From  *time.Time `json:"from"`
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
// EntitiesSeen and Estimate.
type DryRun struct {
	// Events counts the events in the history, Matched those that matter.
	Events   int64 `json:"events"`
	Matched  int64 `json:"matched"`
	Entities int   `json:"entities"` // entities with an event that matters
	// EntitiesSeen is the number of all entities with an event, also outside of the sample: exact up
	// to 8,192, above that with a standard error of 1.3 %.
	EntitiesSeen int `json:"entities_seen"`
	// Firings counts the firings from Since until before Until, and Fired the entities that have one.
	// null: no bound. Earlier events count as history.
	Since   *time.Time       `json:"since"`
	Until   *time.Time       `json:"until"`
	Firings int64            `json:"firings"`
	Fired   int              `json:"fired"`
	Days    map[string]int64 `json:"days"`     // firings per day, UTC
	True    int              `json:"true_now"` // entities for which the expression is true at AsOf
	// Sample: one of so many entities was evaluated, by a hash of its name; 1: all.
	Sample int `json:"sample"`
	// Estimate is about all entities. null: all were evaluated, or the answer is truncated.
	Estimate *DryRunEstimate `json:"estimate"`
	// Waiting counts the entities whose value changes without further events, the first of them at
	// Next.
	Waiting int        `json:"waiting"`
	Next    *time.Time `json:"next"`
	// Instances is the largest number of open left sides of THEN for one entity. The value of Degraded
	// entities may be wrong, because they had too many.
	Instances int `json:"instances"`
	Degraded  int `json:"degraded"`
	// AsOf is the log time at which the evaluation ended.
	AsOf time.Time `json:"as_of"`
	// Truncated: the entities did not fit into memory, and only the first ones were evaluated.
	Truncated bool           `json:"truncated"`
	Skipped   int64          `json:"skipped"` // records of the topic that are no events
	History   []HistoryStart `json:"history"`
	// CompleteFrom is the log time from which on all events still exist: retention or a trim deleted
	// earlier ones, or a recovery lost them, so that earlier counts are too small. null: none is
	// missing.
	CompleteFrom *time.Time `json:"complete_from"`
	Names        []string   `json:"names"`
	Class        string     `json:"class"`
	Warnings     []string   `json:"warnings"`
	Samples      []Sample   `json:"samples"` // the last 20 at most
	// NotFired are entities that have an event that matters and no firing in the range, 5 at most.
	NotFired []NotFired `json:"not_fired"`
}

// DryRunEstimate has the numbers of all entities, as estimated from a sample.
type DryRunEstimate struct {
	Firings  Estimate `json:"firings"`
	Fired    Estimate `json:"fired"`
	Entities Estimate `json:"entities"`
}

// Estimate is an estimated number with a 95 % interval.
type Estimate struct {
	Value int64 `json:"value"`
	Low   int64 `json:"low"`
	High  int64 `json:"high"`
}

// NotFired is an entity without a firing in the range of a dry run.
type NotFired struct {
	Entity string     `json:"entity"`
	True   bool       `json:"true_now"`
	Next   *time.Time `json:"next"` // when the value changes without further events; null: never
	Last   *time.Time `json:"last"` // the last firing before the range; null: none
}

// DryRunProgress is the data of an event progress in the stream of a dry run.
type DryRunProgress struct {
	// Read counts the records of the topic that were read or skipped, of Total at most: it includes
	// deleted records and those after the end of the range.
	Read    int64 `json:"read"`
	Total   int64 `json:"total"`
	Percent int   `json:"percent"`
}

// Sample is a firing in the result of a dry run.
type Sample struct {
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"`
	Cause   string    `json:"cause"`
	Offsets []int64   `json:"offsets"`
	// Witness has the matched events at Offsets. It is absent if the log does not have them any
	// more, or if they are too large for the answer.
	Witness []MatchedEvent `json:"witness,omitempty"`
}
