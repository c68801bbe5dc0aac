package api

import "time"

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
	// Skipped is why the event has no effect: not_mentioned, duplicate_id or not_yet.
	Skipped string `json:"skipped,omitempty"`
	Value   string `json:"value"` // from then on: true, pending or false
}
