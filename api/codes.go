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
	UnknownTopic     Code = "unknown_topic"
	UnknownPartition Code = "unknown_partition"
	TopicExists      Code = "topic_exists"
	TopicInUse       Code = "topic_in_use" // triggers, or a queue for its dead letters, use the topic
	OffsetMismatch   Code = "offset_mismatch"
	SequenceGap      Code = "sequence_gap"
	ProducerFenced   Code = "producer_fenced"
	UnknownGroup     Code = "unknown_group"
	GroupActive      Code = "group_active" // the group has members, which commit its offsets
	// No transactional ID has this name.
	UnknownTransaction Code = "unknown_transaction"
	// No transaction is open, or the producer's records must be part of one.
	TransactionState    Code = "transaction_state"
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
	ProducersFull        Code = "producers_full"
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
	// The topic is no queue.
	NotAQueue Code = "not_a_queue"
	// The queue takes no more messages, or the memory limit no more messages that are delayed, leased or
	// retried.
	QueueFull Code = "queue_full"
	// A limit of the queue is reached: of messages that workers have, or of dedup IDs.
	QueueLimit Code = "queue_limit"
	// The receipt is none of the queue.
	UnknownReceipt Code = "unknown_receipt"
	// The message was settled, or is with another worker.
	StaleReceipt Code = "stale_receipt"
	// A worker has the message.
	MessageLeased Code = "message_leased"
	// The queue has no such message, or it is done.
	UnknownMessage Code = "unknown_message"
	// The queue has no such schedule.
	UnknownSchedule Code = "unknown_schedule"
	// The queue has no dead-letter queue.
	NoDeadLetterQueue Code = "no_dead_letter_queue"
	// A check of the bucket is running.
	Internal Code = "internal"
)

// kinds has what every code says: its HTTP status, and a short summary for people.
var kinds = map[Code]struct {
	status int
	title  string
}{
	UnknownTopic:            {http.StatusNotFound, "Unknown topic"},
	UnknownPartition:        {http.StatusNotFound, "Unknown partition"},
	TopicExists:             {http.StatusConflict, "Topic exists"},
	TopicInUse:              {http.StatusConflict, "The topic is in use"},
	OffsetMismatch:          {http.StatusConflict, "The end offset or the committed offset is not the expected one"},
	SequenceGap:             {http.StatusConflict, "Gap in a producer's sequence"},
	ProducerFenced:          {http.StatusConflict, "A newer epoch of the producer has appended"},
	UnknownGroup:            {http.StatusNotFound, "Unknown consumer group"},
	GroupActive:             {http.StatusConflict, "The consumer group has members"},
	UnknownTransaction:      {http.StatusNotFound, "Unknown transactional ID"},
	TransactionState:        {http.StatusConflict, "The transaction is in another state"},
	KeyNotFound:             {http.StatusNotFound, "The key has no value"},
	KeyIndexOff:             {http.StatusConflict, "The topic has no key index"},
	KeyIndexBehind:          {http.StatusServiceUnavailable, "The key index is behind the requested offset"},
	KeyIndexUnavailable:     {http.StatusServiceUnavailable, "The key index is not available"},
	TriggersOff:             {http.StatusNotFound, "Triggers are disabled on this broker"},
	TriggersUnavailable:     {http.StatusServiceUnavailable, "The trigger engine is not available"},
	RiemannIndexOff:         {http.StatusNotFound, "This broker has no index of Riemann events"},
	RiemannIndexUnavailable: {http.StatusServiceUnavailable, "The index of Riemann events is not available"},
	UnknownTrigger:          {http.StatusNotFound, "Unknown trigger"},
	PreconditionFailed:      {http.StatusPreconditionFailed, "Another definition is stored"},
	UnknownFiring:           {http.StatusNotFound, "Unknown firing"},
	UnknownToken:            {http.StatusNotFound, "Unknown token"},
	TokenExists:             {http.StatusConflict, "Token exists"},
	UnknownQuota:            {http.StatusNotFound, "Unknown quota"},
	OffsetBelowStart:        {http.StatusNotFound, "Offset is below the partition's start"},
	OffsetBeyondEnd:         {http.StatusNotFound, "Offset is beyond the partition's end"},
	OffsetCompacted:         {http.StatusNotFound, "Record was removed by compaction"},
	Fenced:                  {http.StatusServiceUnavailable, "Another broker leads"},
	NotLeader:               {http.StatusServiceUnavailable, "This broker does not lead"},
	NotYet:                  {http.StatusServiceUnavailable, "This broker is behind the position of the request"},
	OverBudget:              {http.StatusTooManyRequests, "Memory budget exceeded, retry later"},
	ProducersFull:           {http.StatusTooManyRequests, "Too many idempotent producers, retry later"},
	QuotaExceeded:           {http.StatusTooManyRequests, "The quota of the principal is used up, retry later"},
	StoreUnavailable:        {http.StatusServiceUnavailable, "The store is not available"},
	CorruptData:             {http.StatusInternalServerError, "Stored data is corrupt"},
	OutcomeUnknown:          {http.StatusGatewayTimeout, "Outcome unknown: the records may appear once, or never"},
	Unauthorized:            {http.StatusUnauthorized, "Unauthorized"},
	Forbidden:               {http.StatusForbidden, "Forbidden"},
	TooLarge:                {http.StatusRequestEntityTooLarge, "Too large"},
	BadRequest:              {http.StatusBadRequest, "Bad request"},
	NotFound:                {http.StatusNotFound, "No such route"},
	MethodNotAllowed:        {http.StatusMethodNotAllowed, "Method not allowed"},
	NotAcceptable:           {http.StatusNotAcceptable, "None of the accepted media types is available"},
	UnsupportedMediaType:    {http.StatusUnsupportedMediaType, "Unsupported media type"},
	RequestTimeout:          {http.StatusRequestTimeout, "The request body arrived too slowly"},
	ReadOnly:                {http.StatusMethodNotAllowed, "The broker is read-only"},
	ShuttingDown:            {http.StatusServiceUnavailable, "The broker is stopping"},
	FormatLevel:             {http.StatusConflict, "The bucket is at another format level"},
	ClockWrong:              {http.StatusServiceUnavailable, "The machine's clock is wrong"},
	StateFull:               {http.StatusConflict, "The memory limit allows no more topics, partitions, groups or triggers"},
	NoStandby:               {http.StatusConflict, "No other broker can take over now"},
	UnknownBroker:           {http.StatusNotFound, "Unknown broker"},
	BrokerUp:                {http.StatusConflict, "The broker is up"},
	NotAQueue:               {http.StatusConflict, "The topic is no queue"},
	QueueFull:               {http.StatusTooManyRequests, "The queue is full, retry later"},
	QueueLimit:              {http.StatusTooManyRequests, "A limit of the queue is reached, retry later"},
	UnknownReceipt:          {http.StatusNotFound, "Unknown receipt"},
	StaleReceipt:            {http.StatusConflict, "The message was settled or leased again"},
	MessageLeased:           {http.StatusConflict, "A worker has the message"},
	UnknownMessage:          {http.StatusNotFound, "Unknown message"},
	UnknownSchedule:         {http.StatusNotFound, "Unknown schedule"},
	NoDeadLetterQueue:       {http.StatusConflict, "The queue has no dead-letter queue"},
	Internal:                {http.StatusInternalServerError, "Internal error"},
}

// Statuses has the HTTP status of every code. Titles has a short summary, the "title" member of a
// problem. Titles are for people and may be reworded.
var Statuses, Titles = map[Code]int{}, map[Code]string{}

func init() {
	for c, k := range kinds {
		Statuses[c], Titles[c] = k.status, k.title
	}
}

// ProblemType is the prefix of a problem's "type" member. The code follows it.
const ProblemType = "urn:seb:problem:"

// Problem is the body of every error answer (RFC 9457, application/problem+json). The members after
// `code` are present if they apply. A pointer distinguishes an absent member from zero.
type Problem struct {
	Type   string `json:"type"` // urn:seb:problem: and the code.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // For people: the limit and the given value.
	Code   Code   `json:"code"`

	Topic       string `json:"topic,omitempty"`
	Partition   *int32 `json:"partition,omitempty"`
	Offset      *int64 `json:"offset,omitempty"`       // Requested or expected offset.
	NextOffset  *int64 `json:"next_offset,omitempty"`  // End of the partition.
	StartOffset *int64 `json:"start_offset,omitempty"` // First existing offset.
	// Invalid parameter, header or member of the body.
	Field string `json:"field,omitempty"`
	// Index in the request, from 0, of the invalid record or event.
	Record *int64 `json:"record,omitempty"`
	Limit  *int64 `json:"limit,omitempty"`
	Given  *int64 `json:"given,omitempty"`
	Line   int    `json:"line,omitempty"`   // Line of the error in an expression, from 1.
	Column int    `json:"column,omitempty"` // Column of the error in characters, from 1.
	// JSON Pointer to the error in an expression in JSON form.
	Pointer string `json:"pointer,omitempty"`
	// Address of the broker that took over, as a hint.
	Leader string `json:"leader,omitempty"`
	Epoch  uint32 `json:"epoch,omitempty"` // Epoch of the broker that took over.
	// Outcome of each partition, if those of a produce to several partitions differ.
	Results []PartitionResult `json:"results,omitempty"`
	// The consumer group of the request.
	Group string `json:"group,omitempty"`
	// Committed offset of the group, for `offset_mismatch`; -1: none.
	Committed *int64 `json:"committed_offset,omitempty"`
	// Outcome of each offset, if those of a PUT differ.
	Offsets []OffsetResult `json:"offsets,omitempty"`
}

// Error returns the code and the detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}
