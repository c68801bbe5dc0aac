package api

import (
	"encoding/json"
	"time"
)

// EventStored is the answer to POST /event with one event: the position of its record.
type EventStored struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"` // Of its record.
	// Append time in milliseconds; the record's timestamp if the topic has
	// timestamp-type=LogAppendTime.
	Time time.Time `json:"time"`
	// The entity already had an event with this ID, so triggers ignore this one. Absent if that is
	// unknown: without triggers on this broker, in a topic that no trigger reads, or while the engine
	// has not read the whole partition.
	Duplicate      *bool  `json:"duplicate,omitempty"`
	OriginalOffset *int64 `json:"original_offset,omitempty"` // With `duplicate`: offset of the first event.
}

// EventNames is the answer to GET /events/names: the names of the events in a topic, the most
// frequent first.
type EventNames struct {
	Topic string `json:"topic"`
	//openapi:maxItems 1000
	Names   []EventName `json:"names"`
	Sampled int64       `json:"sampled"` // Number of examined records.
	// Time of the oldest examined record; null: there is none.
	Since     *time.Time `json:"since"`
	Records   int64      `json:"records"`   // Number of records of the topic.
	Truncated bool       `json:"truncated"` // There are more names.
}

// EventName is a name of events.
type EventName struct {
	Name string `json:"name"`
	// Estimated number of such events in the topic, from `sampled`; 0: only known from older events.
	Count int64 `json:"count"`
	// Number of such events among the examined records.
	Sampled int `json:"sampled"`
	// Time of the newest examined one; null: none was examined.
	Last       *time.Time      `json:"last"`
	Properties []EventProperty `json:"properties"`     // Of their data, the most frequent first.
	More       bool            `json:"more,omitempty"` // There are more properties.
}

// EventProperty is a property of the data of events.
type EventProperty struct {
	// As in an expression, such as `user.plan`.
	//openapi:maxLength 256
	Path string `json:"path"`
	//openapi:items {enum: [string, number, boolean, 'null', array, object]}
	Types   []string `json:"types"`
	Sampled int      `json:"sampled"` // Number of examined events with the property.
}

// RiemannIndex is the answer to GET /riemann/index: the events that match. Each is an object with
// host, service and time (ISO 8601), and the other fields of the event.
type RiemannIndex struct {
	Topic string `json:"topic"`
	// In no particular order.
	//openapi:items {description: Also has the other fields and attributes of the event., required: [host, service, time], properties: {host: {nullable: true, type: string}, service: {nullable: true, type: string}, time: {format: date-time, type: string}}, additionalProperties: null}
	Events []json.RawMessage `json:"events"`
}

// Expression is the answer to POST /drip/parse.
type Expression struct {
	Expr json.RawMessage `json:"expr"` // The expression in JSON form.
	// The text of the request. For an expression in JSON form: its text in the notation of `source`,
	// or its canonical text.
	Text string `json:"text"`
	// When the expression is true, in English: a sentence, or a numbered outline of several lines. For
	// people; the text can change.
	Sentence string              `json:"sentence"`
	Warnings []ExpressionWarning `json:"warnings"` // Likely mistakes.
	Names    []string            `json:"names"`    // Names of the events, sorted.
	// Places of the operators and events in `text`, each before its operands.
	Spans []ExpressionSpan `json:"spans"`
}

// ExpressionWarning is a likely mistake in an expression.
type ExpressionWarning struct {
	// `fires-at-once`: a NOT without WITHIN after a THEN. `keeps-many`: the state of an entity grows
	// with each completion of the left side of a THEN. `reads-otherwise`: an AND or OR after a THEN
	// that many people read as being around it.
	//openapi:enum [fires-at-once, keeps-many, reads-otherwise]
	Kind    string `json:"kind"`
	Message string `json:"message"` // For people; the text can change.
	// JSON Pointer in `expr` of the operator or event; empty: the whole.
	Pointer string `json:"pointer"`
}

// ExpressionSpan is the place of an operator or event in the text of an expression.
type ExpressionSpan struct {
	Pointer string `json:"pointer"` // JSON Pointer in `expr`; empty: the whole.
	// First byte in `text` in UTF-8, without parentheses around the part.
	From int `json:"from"`
	To   int `json:"to"` // Byte after the last one.
}

// Stories is the answer to POST /drip/stories.
type Stories struct {
	// The plainest one that fires first, then near misses, those that are not decided yet, and the
	// boundaries of windows.
	//openapi:maxItems 10
	Stories []Story `json:"stories"`
	// Why no story fires: the expression is true before any event, or never, or no examined history
	// makes it true.
	//openapi:enum [true_at_start, never_true, not_found]
	NoneFires string `json:"none_fires,omitempty"`
	Note      string `json:"note,omitempty"` // With `none_fires`: the same for people.
	// The expression is so large that not all its stories were looked for.
	Truncated bool `json:"truncated,omitempty"`
}

// Story is a short history of one entity that shows what an expression means.
type Story struct {
	// `pending`: an open window decides.
	//openapi:enum [fires, does_not_fire, pending]
	Outcome string `json:"outcome"`
	//openapi:maxItems 64
	//openapi:minItems 1
	Events []StoryEvent `json:"events"`
	// End of the story in milliseconds after its first event: it fires, no window is open any more,
	// or, if pending, one still is. Events after a firing are later.
	EndMS int64 `json:"end_ms"`
	// When it fires, in milliseconds after the first event.
	FiresMS *int64 `json:"fires_ms,omitempty"`
	Text    string `json:"text"` // For people; the text can change.
	// Index of an earlier story that differs in one event or one instant.
	DiffersFrom *int   `json:"differs_from,omitempty"`
	Difference  string `json:"difference,omitempty"` // With `differs_from`: how, for people.
}

// StoryEvent is an event of a story.
type StoryEvent struct {
	//openapi:maxLength 256
	Event string `json:"event"`
	// Data, if the expression has a filter on such events.
	Data    json.RawMessage `json:"data,omitempty"`
	AfterMS int64           `json:"after_ms"` // Milliseconds after the first event.
	// The same in English; empty for the first event.
	After string `json:"after"`
}

// Evaluation is the answer to POST /evaluate.
type Evaluation struct {
	Value   bool `json:"value"`
	Pending bool `json:"pending"` // Not true, and a deadline decides.
	// When `value` changes without further events; null: never.
	Next *time.Time `json:"next"`
	Why  string     `json:"why"` // For people; the text can change.
	// Matched events, as indexes in `events` from 0.
	Witness []int `json:"witness"`
	// With `trace`: the value at each event and deadline.
	//openapi:maxItems 10000
	Steps []EvaluationStep `json:"steps,omitempty"`
	// There are more steps: the answer has at most 1,000, and two for each event, up to 10,000.
	Truncated bool `json:"truncated,omitempty"`
}

// EvaluationStep is an event or a deadline of an evaluation.
type EvaluationStep struct {
	At    time.Time `json:"at"`
	Event *int      `json:"event"` // Index in `events` from 0; null: a deadline.
	// Why the event has no effect.
	//openapi:enum [not_mentioned, not_matched, duplicate_id, not_yet]
	Skipped string `json:"skipped,omitempty"`
	// What the event or deadline did, if it was not skipped.
	//openapi:schema EffectKind
	Effect string `json:"effect,omitempty"`
	// The part of the expression that the effect concerns.
	//openapi:maxLength 200
	Expr string `json:"expr,omitempty"`
	// The value from then on.
	//openapi:enum ['false', pending, 'true']
	Value string `json:"value"`
	// What the event or deadline does. For people; the text can change.
	Text string `json:"text"`
}
