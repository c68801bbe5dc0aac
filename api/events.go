package api

import "time"

// EventStored is the answer to POST /event with one event: where its record is. Time, in milliseconds, is when the log took it,
// which is the record's timestamp too if the topic has timestamp-type=LogAppendTime.
type EventStored struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	// Duplicate: an event of the entity with the same id was there already, at OriginalOffset, so that triggers
	// ignore this one. nil: not known.
	Duplicate      *bool  `json:"duplicate,omitempty"`
	OriginalOffset *int64 `json:"original_offset,omitempty"`
}

// Evaluation is the answer to POST /evaluate.
type Evaluation struct {
	Value   bool       `json:"value"`
	Pending bool       `json:"pending"` // not true, and a window is open that may make it true
	Next    *time.Time `json:"next"`    // when Value changes if nothing more happens; null: never
	Why     string     `json:"why"`     // for people
	Witness []int      `json:"witness"` // the events that made it true, by their places in the request, from 0
}
