package api

import "time"

// EventStored is the answer to POST /event with one event: where its record is. Time, in milliseconds, is when the log took it,
// which is the record's timestamp too if the topic has timestamp-type=LogAppendTime.
type EventStored struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	// Duplicate: an event of the entity with the same id was there already, at OriginalOffset, so that triggers ignore this one.
	// nil: not known.
	Duplicate      *bool  `json:"duplicate,omitempty"`
	OriginalOffset *int64 `json:"original_offset,omitempty"`
}
