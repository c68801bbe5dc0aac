package api

import "net/http"

// Code is a stable name of an error, the "code" member of a problem. Codes are never renamed or reused.
type Code string

// The codes. Each has one HTTP status, see Statuses. Those with a 4xx status, 429 and 503 mean rejected: nothing of the
// request is there or can appear later (rule R4). OutcomeUnknown means that it may appear once, or never. CorruptData
// and Internal on a produce likewise say nothing about the outcome.
const (
	UnknownTopic         Code = "unknown_topic"
	UnknownPartition     Code = "unknown_partition"
	TopicExists          Code = "topic_exists"
	TopicInUse           Code = "topic_in_use" // by triggers
	OffsetMismatch       Code = "offset_mismatch"
	SequenceGap          Code = "sequence_gap"
	ProducerFenced       Code = "producer_fenced"
	UnknownGroup         Code = "unknown_group"
	GroupActive          Code = "group_active" // it has members, who commit its offsets
	KeyNotFound          Code = "key_not_found"
	KeyIndexOff          Code = "key_index_off"
	KeyIndexBehind       Code = "key_index_behind"
	KeyIndexUnavailable  Code = "key_index_unavailable"
	TriggersOff          Code = "triggers_off"         // this broker follows none
	TriggersUnavailable  Code = "triggers_unavailable" // for now
	UnknownTrigger       Code = "unknown_trigger"
	UnknownFiring        Code = "unknown_firing"
	OffsetBelowStart     Code = "offset_below_start"
	OffsetBeyondEnd      Code = "offset_beyond_end" // of a trim or a read; a read at the end waits, but for that of a single record
	OffsetCompacted      Code = "offset_compacted"
	Fenced               Code = "fenced"
	OverBudget           Code = "over_budget"
	StoreUnavailable     Code = "store_unavailable"
	CorruptData          Code = "corrupt_data"
	OutcomeUnknown       Code = "outcome_unknown"
	Unauthorized         Code = "unauthorized"
	Forbidden            Code = "forbidden"
	TooLarge             Code = "too_large"
	BadRequest           Code = "bad_request"
	NotFound             Code = "not_found" // no such route
	MethodNotAllowed     Code = "method_not_allowed"
	NotAcceptable        Code = "not_acceptable"
	UnsupportedMediaType Code = "unsupported_media_type"
	RequestTimeout       Code = "request_timeout" // the body came too slowly
	ReadOnly             Code = "read_only"
	ShuttingDown         Code = "shutting_down"
	FormatLevel          Code = "format_level" // the bucket's is too low for the request, or too high for the broker
	ClockWrong           Code = "clock_wrong"  // the machine's contradicts the store's, or the log's time
	StateFull            Code = "state_full"   // topics, partitions, groups, triggers: the memory limit allows no more
	Internal             Code = "internal"
)

// Statuses gives the HTTP status of every code there is.
var Statuses = map[Code]int{
	UnknownTopic:         http.StatusNotFound,
	UnknownPartition:     http.StatusNotFound,
	TopicExists:          http.StatusConflict,
	TopicInUse:           http.StatusConflict,
	OffsetMismatch:       http.StatusConflict,
	SequenceGap:          http.StatusConflict,
	ProducerFenced:       http.StatusConflict,
	UnknownGroup:         http.StatusNotFound,
	GroupActive:          http.StatusConflict,
	KeyNotFound:          http.StatusNotFound,
	KeyIndexOff:          http.StatusConflict,
	KeyIndexBehind:       http.StatusServiceUnavailable,
	KeyIndexUnavailable:  http.StatusServiceUnavailable,
	TriggersOff:          http.StatusNotFound,
	TriggersUnavailable:  http.StatusServiceUnavailable,
	UnknownTrigger:       http.StatusNotFound,
	UnknownFiring:        http.StatusNotFound,
	OffsetBelowStart:     http.StatusNotFound,
	OffsetBeyondEnd:      http.StatusNotFound,
	OffsetCompacted:      http.StatusNotFound,
	Fenced:               http.StatusServiceUnavailable,
	OverBudget:           http.StatusTooManyRequests,
	StoreUnavailable:     http.StatusServiceUnavailable,
	CorruptData:          http.StatusInternalServerError,
	OutcomeUnknown:       http.StatusGatewayTimeout,
	Unauthorized:         http.StatusUnauthorized,
	Forbidden:            http.StatusForbidden,
	TooLarge:             http.StatusRequestEntityTooLarge,
	BadRequest:           http.StatusBadRequest,
	NotFound:             http.StatusNotFound,
	MethodNotAllowed:     http.StatusMethodNotAllowed,
	NotAcceptable:        http.StatusNotAcceptable,
	UnsupportedMediaType: http.StatusUnsupportedMediaType,
	RequestTimeout:       http.StatusRequestTimeout,
	ReadOnly:             http.StatusMethodNotAllowed,
	ShuttingDown:         http.StatusServiceUnavailable,
	FormatLevel:          http.StatusConflict,
	ClockWrong:           http.StatusServiceUnavailable,
	StateFull:            http.StatusConflict,
	Internal:             http.StatusInternalServerError,
}

// Titles gives a short summary of every code, the "title" member of a problem. It is for people and may be reworded.
var Titles = map[Code]string{
	UnknownTopic:         "Unknown topic",
	UnknownPartition:     "Unknown partition",
	TopicExists:          "Topic exists",
	TopicInUse:           "Triggers use the topic",
	OffsetMismatch:       "The partition's end, or the group's offset, is not the expected one",
	SequenceGap:          "Gap in a producer's sequence",
	ProducerFenced:       "A newer epoch of the producer has appended",
	UnknownGroup:         "Unknown consumer group",
	GroupActive:          "The consumer group has members",
	KeyNotFound:          "The key has no value",
	KeyIndexOff:          "The topic has no key index",
	KeyIndexBehind:       "The key index has not got that far",
	KeyIndexUnavailable:  "The key index is not available",
	TriggersOff:          "The broker follows no triggers",
	TriggersUnavailable:  "The engine of triggers is not available",
	UnknownTrigger:       "Unknown trigger",
	UnknownFiring:        "Unknown firing",
	OffsetBelowStart:     "Offset is below the partition's start",
	OffsetBeyondEnd:      "Offset is beyond the partition's end",
	OffsetCompacted:      "Record was removed by compaction",
	Fenced:               "Another broker leads",
	OverBudget:           "Out of memory budget, try again",
	StoreUnavailable:     "The store is not available",
	CorruptData:          "Stored data is corrupt",
	OutcomeUnknown:       "Outcome unknown: the records may appear once, or never",
	Unauthorized:         "Unauthorized",
	Forbidden:            "Forbidden",
	TooLarge:             "Too large",
	BadRequest:           "Bad request",
	NotFound:             "No such route",
	MethodNotAllowed:     "Method not allowed",
	NotAcceptable:        "None of the accepted media types can be given",
	UnsupportedMediaType: "Unsupported media type",
	RequestTimeout:       "The request body came too slowly",
	ReadOnly:             "The broker is read-only",
	ShuttingDown:         "The broker is stopping",
	FormatLevel:          "The bucket is at another format level",
	ClockWrong:           "The machine's clock is wrong",
	StateFull:            "The memory limit allows no more topics, partitions, groups or triggers",
	Internal:             "Internal error",
}
