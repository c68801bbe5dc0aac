package api

import (
	"encoding/json"
	"time"
)

// EventStored is the answer to POST /event with one event: the position of its record. Time is the
// append time, in milliseconds. It equals the record's timestamp if the topic has
// timestamp-type=LogAppendTime.
type EventStored struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	// Duplicate reports that an earlier event of the entity has the same ID, at OriginalOffset.
	// Triggers ignore the duplicate. nil: not known.
	Duplicate      *bool  `json:"duplicate,omitempty"`
	OriginalOffset *int64 `json:"original_offset,omitempty"`
}

// EventNames is the answer to GET /events/names: the names of the events in a topic, the most
// frequent first.
type EventNames struct {
	Topic string      `json:"topic"`
	Names []EventName `json:"names"`
	// Sampled is the number of records that were examined, the newest of the topic, and Since the
	// time of the oldest of them; null: there are none. Records is the number of records of the
	// topic.
	Sampled int64      `json:"sampled"`
	Since   *time.Time `json:"since"`
	Records int64      `json:"records"`
	// Truncated: there are more names.
	Truncated bool `json:"truncated"`
}

// EventName is a name of events.
type EventName struct {
	Name string `json:"name"`
	// Count estimates the number of such events in the topic, from Sampled, their number among the
	// examined records; 0: the name is only known from older events.
	Count   int64 `json:"count"`
	Sampled int   `json:"sampled"`
	// Last is the time of the newest examined one; null: none was examined.
	Last *time.Time `json:"last"`
	// Properties has those of the data of the examined events, the most frequent first. More: there
	// are more.
	Properties []EventProperty `json:"properties"`
	More       bool            `json:"more,omitempty"`
}

// EventProperty is a property of the data of events.
type EventProperty struct {
	Path    string   `json:"path"`  // as in an expression, such as user.plan
	Types   []string `json:"types"` // string, number, boolean, null, array or object
	Sampled int      `json:"sampled"`
}

// RiemannIndex is the answer to GET /riemann/index: the events that match. Each is an object with
// host, service and time (ISO 8601), and the other fields of the event.
type RiemannIndex struct {
	Topic  string            `json:"topic"`
	Events []json.RawMessage `json:"events"`
}

// Expression is the answer to POST /drip/parse.
type Expression struct {
	Expr json.RawMessage `json:"expr"` // in JSON form
	// Text is the text of the request. An expression in JSON form has the notation of the request's
	// source where they are the same, or else the canonical text.
	Text string `json:"text"`
	// Sentence says in English when the expression is true; several lines if it is deep. For people.
	Sentence string `json:"sentence"`
	// Warnings describe likely mistakes.
	Warnings []ExpressionWarning `json:"warnings"`
	Names    []string            `json:"names"` // of events, sorted
	// Spans locate the operators and events in Text, each before its operands.
	Spans []ExpressionSpan `json:"spans"`
}

// ExpressionWarning is a likely mistake in an expression.
type ExpressionWarning struct {
	Kind    string `json:"kind"`    // fires-at-once, keeps-many or reads-otherwise
	Message string `json:"message"` // for people
	Pointer string `json:"pointer"` // JSON Pointer of an operator or event in the JSON form; "" is the whole
}

// ExpressionSpan is the place of an operator or event: the bytes From to To of the text in UTF-8,
// without parentheses around it. Pointer is its JSON Pointer in the JSON form; "" is the whole.
type ExpressionSpan struct {
	Pointer string `json:"pointer"`
	From    int    `json:"from"`
	To      int    `json:"to"`
}

// Stories is the answer to POST /drip/stories.
type Stories struct {
	// Stories have the plainest one that fires first, then near misses, those that are not decided
	// yet, and the boundaries of windows.
	Stories []Story `json:"stories"`
	// NoneFires is the reason if no story fires: true_at_start (before any event), never_true, or
	// not_found (by the histories that were examined). Note says it for people.
	NoneFires string `json:"none_fires,omitempty"`
	Note      string `json:"note,omitempty"`
	// Truncated: the expression is so large that not all its stories were looked for.
	Truncated bool `json:"truncated,omitempty"`
}

// Story is a short history of one entity that shows what an expression means.
type Story struct {
	// Outcome is fires, does_not_fire or pending: an open window decides.
	Outcome string       `json:"outcome"`
	Events  []StoryEvent `json:"events"`
	// EndMS is the end of the story, in milliseconds after its first event: it fires, no window is open
	// any more, or, if pending, one still is. Events after a firing are later than the end.
	EndMS   int64  `json:"end_ms"`
	FiresMS *int64 `json:"fires_ms,omitempty"` // when it fires
	Text    string `json:"text"`               // the story in English
	// DiffersFrom is the index of an earlier story that differs in one event or one instant. Difference
	// says how, for people.
	DiffersFrom *int   `json:"differs_from,omitempty"`
	Difference  string `json:"difference,omitempty"`
}

// StoryEvent is an event of a story.
type StoryEvent struct {
	Event string `json:"event"`
	// Data is set if the expression has a filter on such events.
	Data json.RawMessage `json:"data,omitempty"`
	// AfterMS is the time after the first event in milliseconds, After the same in English; "" for the
	// first.
	AfterMS int64  `json:"after_ms"`
	After   string `json:"after"`
}

// Evaluation is the answer to POST /evaluate.
type Evaluation struct {
	Value bool `json:"value"`
	// Pending: not true yet, but an open window may make it true.
	Pending bool `json:"pending"`
	// Next is the time at which Value changes without further events; null: never.
	Next *time.Time `json:"next"`
	// Why is an explanation for people.
	Why string `json:"why"`
	// Witness has the indexes of the matched events in the request, from 0.
	Witness []int `json:"witness"`
	// Steps has the value at each event and deadline, if the request has trace. Truncated: there are
	// more steps.
	Steps     []EvaluationStep `json:"steps,omitempty"`
	Truncated bool             `json:"truncated,omitempty"`
}

// EvaluationStep is an event or a deadline of an evaluation.
type EvaluationStep struct {
	At    time.Time `json:"at"`
	Event *int      `json:"event"` // index in the request, from 0; null: a deadline
	// Skipped is why the event has no effect: not_mentioned, not_matched, duplicate_id or not_yet.
	Skipped string `json:"skipped,omitempty"`
	// Effect is what the event or deadline did, if it was not skipped: one of true, false, begins,
	// counts, ends, missed, passed and none. Expr is the part of the expression that it concerns.
	Effect string `json:"effect,omitempty"`
	Expr   string `json:"expr,omitempty"`
	Value  string `json:"value"` // from then on: true, pending or false
	Text   string `json:"text"`  // for people
}
