package api

import "net/http"

// Code is the stable name of an error, the "code" member of a problem. A code is never renamed or
// reused.
type Code string

// The error codes. Statuses has the HTTP status of each. A code with a 4xx status, 429 or 503 means
// rejected: nothing of the request is stored or can appear later (rule R4). OutcomeUnknown means
// that the records may appear once, or never. CorruptData and Internal on a produce also leave the
// outcome open.
const (
	UnknownTopic        Code = "unknown_topic"
	UnknownPartition    Code = "unknown_partition"
	TopicExists         Code = "topic_exists"
	TopicInUse          Code = "topic_in_use" // triggers use the topic
	OffsetMismatch      Code = "offset_mismatch"
	SequenceGap         Code = "sequence_gap"
	ProducerFenced      Code = "producer_fenced"
	UnknownGroup        Code = "unknown_group"
	GroupActive         Code = "group_active" // the group has members, which commit its offsets
	KeyNotFound         Code = "key_not_found"
	KeyIndexOff         Code = "key_index_off"
	KeyIndexBehind      Code = "key_index_behind"
	KeyIndexUnavailable Code = "key_index_unavailable"
	// This broker does not evaluate triggers.
	TriggersOff Code = "triggers_off"
	// The trigger engine has an error; retry later.
	TriggersUnavailable Code = "triggers_unavailable"
	// This broker has no index of Riemann events.
	RiemannIndexOff Code = "riemann_index_off"
	// The index of Riemann events has an error or is behind; retry later.
	RiemannIndexUnavailable Code = "riemann_index_unavailable"
	UnknownTrigger          Code = "unknown_trigger"
	// The trigger is not as If-Match or If-None-Match requires.
	PreconditionFailed Code = "precondition_failed"
	UnknownFiring      Code = "unknown_firing"
	UnknownToken       Code = "unknown_token"
	TokenExists        Code = "token_exists"
	UnknownQuota       Code = "unknown_quota"
	OffsetBelowStart   Code = "offset_below_start"
	// The trim or read is beyond the end. A read at the end waits, except a read of a single
	// record.
	OffsetBeyondEnd Code = "offset_beyond_end"
	OffsetCompacted Code = "offset_compacted"
	Fenced          Code = "fenced"
	// No broker leads that this broker knows and can forward the request to. The status of the
	// answer to a forwarded request is 421.
	NotLeader Code = "not_leader"
	// The broker has not applied the position that the request names (HeaderAfter).
	NotYet               Code = "not_yet"
	OverBudget           Code = "over_budget"
	QuotaExceeded        Code = "quota_exceeded" // of the client's principal
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
	RequestTimeout       Code = "request_timeout" // the client sent the body too slowly
	ReadOnly             Code = "read_only"
	NoStandby            Code = "no_standby"     // no other broker can lead now
	UnknownBroker        Code = "unknown_broker" // no broker of the bucket has this run
	BrokerUp             Code = "broker_up"      // a broker that is up cannot be forgotten
	ShuttingDown         Code = "shutting_down"
	// The bucket's format level is too low for the request, or too high for the broker.
	FormatLevel Code = "format_level"
	// The machine's clock contradicts the store's clock or the log time.
	ClockWrong Code = "clock_wrong"
	// The memory limit allows no more topics, partitions, groups or triggers.
	StateFull Code = "state_full"
	// A check of the bucket is running.
	Internal Code = "internal"
)

// Statuses has the HTTP status of every code.
var Statuses = map[Code]int{
	UnknownTopic:            http.StatusNotFound,
	UnknownPartition:        http.StatusNotFound,
	TopicExists:             http.StatusConflict,
	TopicInUse:              http.StatusConflict,
	OffsetMismatch:          http.StatusConflict,
	SequenceGap:             http.StatusConflict,
	ProducerFenced:          http.StatusConflict,
	UnknownGroup:            http.StatusNotFound,
	GroupActive:             http.StatusConflict,
	KeyNotFound:             http.StatusNotFound,
	KeyIndexOff:             http.StatusConflict,
	KeyIndexBehind:          http.StatusServiceUnavailable,
	KeyIndexUnavailable:     http.StatusServiceUnavailable,
	TriggersOff:             http.StatusNotFound,
	TriggersUnavailable:     http.StatusServiceUnavailable,
	RiemannIndexOff:         http.StatusNotFound,
	RiemannIndexUnavailable: http.StatusServiceUnavailable,
	UnknownTrigger:          http.StatusNotFound,
	PreconditionFailed:      http.StatusPreconditionFailed,
	UnknownFiring:           http.StatusNotFound,
	UnknownToken:            http.StatusNotFound,
	TokenExists:             http.StatusConflict,
	UnknownQuota:            http.StatusNotFound,
	OffsetBelowStart:        http.StatusNotFound,
	OffsetBeyondEnd:         http.StatusNotFound,
	OffsetCompacted:         http.StatusNotFound,
	Fenced:                  http.StatusServiceUnavailable,
	NotLeader:               http.StatusServiceUnavailable,
	NotYet:                  http.StatusServiceUnavailable,
	OverBudget:              http.StatusTooManyRequests,
	QuotaExceeded:           http.StatusTooManyRequests,
	StoreUnavailable:        http.StatusServiceUnavailable,
	CorruptData:             http.StatusInternalServerError,
	OutcomeUnknown:          http.StatusGatewayTimeout,
	Unauthorized:            http.StatusUnauthorized,
	Forbidden:               http.StatusForbidden,
	TooLarge:                http.StatusRequestEntityTooLarge,
	BadRequest:              http.StatusBadRequest,
	NotFound:                http.StatusNotFound,
	MethodNotAllowed:        http.StatusMethodNotAllowed,
	NotAcceptable:           http.StatusNotAcceptable,
	UnsupportedMediaType:    http.StatusUnsupportedMediaType,
	RequestTimeout:          http.StatusRequestTimeout,
	ReadOnly:                http.StatusMethodNotAllowed,
	ShuttingDown:            http.StatusServiceUnavailable,
	FormatLevel:             http.StatusConflict,
	ClockWrong:              http.StatusServiceUnavailable,
	StateFull:               http.StatusConflict,
	NoStandby:               http.StatusConflict,
	UnknownBroker:           http.StatusNotFound,
	BrokerUp:                http.StatusConflict,
	Internal:                http.StatusInternalServerError,
}

// Titles has a short summary of every code, the "title" member of a problem. Titles are for people
// and may be reworded.
var Titles = map[Code]string{
	UnknownTopic:            "Unknown topic",
	UnknownPartition:        "Unknown partition",
	TopicExists:             "Topic exists",
	TopicInUse:              "The topic is used by triggers",
	OffsetMismatch:          "The end offset or the committed offset is not the expected one",
	SequenceGap:             "Gap in a producer's sequence",
	ProducerFenced:          "A newer epoch of the producer has appended",
	UnknownGroup:            "Unknown consumer group",
	GroupActive:             "The consumer group has members",
	KeyNotFound:             "The key has no value",
	KeyIndexOff:             "The topic has no key index",
	KeyIndexBehind:          "The key index is behind the requested offset",
	KeyIndexUnavailable:     "The key index is not available",
	TriggersOff:             "Triggers are disabled on this broker",
	TriggersUnavailable:     "The trigger engine is not available",
	RiemannIndexOff:         "This broker has no index of Riemann events",
	RiemannIndexUnavailable: "The index of Riemann events is not available",
	UnknownTrigger:          "Unknown trigger",
	PreconditionFailed:      "Another definition is stored",
	UnknownFiring:           "Unknown firing",
	UnknownToken:            "Unknown token",
	TokenExists:             "Token exists",
	UnknownQuota:            "Unknown quota",
	OffsetBelowStart:        "Offset is below the partition's start",
	OffsetBeyondEnd:         "Offset is beyond the partition's end",
	OffsetCompacted:         "Record was removed by compaction",
	Fenced:                  "Another broker leads",
	NotLeader:               "This broker does not lead",
	NotYet:                  "This broker is behind the position of the request",
	OverBudget:              "Memory budget exceeded, retry later",
	QuotaExceeded:           "The quota of the principal is used up, retry later",
	StoreUnavailable:        "The store is not available",
	CorruptData:             "Stored data is corrupt",
	OutcomeUnknown:          "Outcome unknown: the records may appear once, or never",
	Unauthorized:            "Unauthorized",
	Forbidden:               "Forbidden",
	TooLarge:                "Too large",
	BadRequest:              "Bad request",
	NotFound:                "No such route",
	MethodNotAllowed:        "Method not allowed",
	NotAcceptable:           "None of the accepted media types is available",
	UnsupportedMediaType:    "Unsupported media type",
	RequestTimeout:          "The request body arrived too slowly",
	ReadOnly:                "The broker is read-only",
	ShuttingDown:            "The broker is stopping",
	FormatLevel:             "The bucket is at another format level",
	ClockWrong:              "The machine's clock is wrong",
	StateFull:               "The memory limit allows no more topics, partitions, groups or triggers",
	NoStandby:               "No other broker can take over now",
	UnknownBroker:           "Unknown broker",
	BrokerUp:                "The broker is up",
	Internal:                "Internal error",
}

// ProblemType is the prefix of a problem's "type" member. The code follows it.
const ProblemType = "urn:seb:problem:"

// Problem is the body of every error answer (RFC 9457, application/problem+json). The members after
// Code are present if they apply. A pointer distinguishes an absent member from zero.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // for people; names the limit and what was given
	Code   Code   `json:"code"`

	Topic       string `json:"topic,omitempty"`
	Partition   *int32 `json:"partition,omitempty"`
	Offset      *int64 `json:"offset,omitempty"`       // requested or expected offset
	NextOffset  *int64 `json:"next_offset,omitempty"`  // the partition's end offset
	StartOffset *int64 `json:"start_offset,omitempty"` // the partition's start offset
	// Field is the invalid parameter, header or member of the body.
	Field string `json:"field,omitempty"`
	// Record is the index of the invalid record in the request, from 0.
	Record *int64 `json:"record,omitempty"`
	Limit  *int64 `json:"limit,omitempty"`
	Given  *int64 `json:"given,omitempty"`
	// Line and Column, both from 1, locate an error in the text of an expression. Pointer, a JSON
	// Pointer, locates it in the JSON form.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"`
	Leader  string `json:"leader,omitempty"` // hint: address of the broker that took over
	Epoch   uint32 `json:"epoch,omitempty"`  // of the broker that took over
	// Results has the outcome per partition if a produce to several partitions ended differently.
	Results []PartitionResult `json:"results,omitempty"`
	// Group is the consumer group of the request. Committed is its committed offset, for
	// offset_mismatch (-1: none). Offsets has the outcome per offset if those of a PUT ended
	// differently.
	Group     string         `json:"group,omitempty"`
	Committed *int64         `json:"committed_offset,omitempty"`
	Offsets   []OffsetResult `json:"offsets,omitempty"`
}

// Error returns the code and the detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}
