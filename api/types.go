package api

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Media types of POST /records and GET /records.
const (
	Multipart   = "multipart/form-data"
	OctetStream = "application/octet-stream"
	TextPlain   = "text/plain"
	NDJSON      = "application/x-ndjson"
	JSON        = "application/json"
	RecordBatch = "application/vnd.seb.recordbatch"
	EventStream = "text/event-stream"
	ProblemJSON = "application/problem+json"
)

// Headers that Seb defines.
const (
	// HeaderEpoch is the epoch of the broker that answered a read.
	HeaderEpoch = "Seb-Epoch"
	// HeaderBaseOffset is the offset of the first record in a RecordBatch body. It can be lower
	// than the requested offset.
	HeaderBaseOffset = "Seb-Base-Offset"
	// HeaderNextOffset is the partition's end in answers to reads: the offset that the next record
	// gets.
	HeaderNextOffset = "Seb-Next-Offset"
	// HeaderResumeOffset is the offset at which the next read continues. It follows the last record
	// of the answer and any records that compaction removed after it.
	HeaderResumeOffset = "Seb-Resume-Offset"
	// HeaderOffset is the first offset of a consumer group's read. In the answer to GET /key it is
	// the record's offset.
	HeaderOffset = "Seb-Offset"
	// HeaderValueBytes is the length of the whole value, in an answer to GET /record with a value that
	// is cut.
	HeaderValueBytes = "Seb-Value-Bytes"
	// HeaderScannedRecords and HeaderScannedBytes are the number of records that a read with a filter
	// has looked at, and the bytes of their keys and values.
	HeaderScannedRecords = "Seb-Scanned-Records"
	HeaderScannedBytes   = "Seb-Scanned-Bytes"
	// HeaderProducerID, HeaderProducerEpoch and HeaderSequence make a produce to one partition
	// idempotent. The first two identify the producer. The sequence numbers the producer's records
	// in the partition, from 0; 0 follows 2147483647.
	HeaderProducerID    = "Seb-Producer-Id"
	HeaderProducerEpoch = "Seb-Producer-Epoch"
	HeaderSequence      = "Seb-Sequence"
	// HeaderPosition is a position of the log that the answer to a read or a write includes, as
	// shard:epoch:slot. HeaderAfter is such a position in a request: the answer must include it. A
	// client that reads what it has written at several brokers sends the highest position that it
	// has seen.
	HeaderPosition = "Seb-Position"
	HeaderAfter    = "Seb-After"
	// HeaderLeader is the address of the broker that leads, in answers of others.
	HeaderLeader = "Seb-Leader"
	// HeaderForwarded names the run that has forwarded a request to the leader, HeaderForwardedFor the
	// client from which that has it, and HeaderForwardedAs the principal of that client's certificate.
	// Brokers set them.
	HeaderForwarded    = "Seb-Forwarded"
	HeaderForwardedFor = "Seb-Forwarded-For"
	HeaderForwardedAs  = "Seb-Forwarded-As"
)

// Offsets is the answer to a multipart produce: the offset of each record, in order.
type Offsets struct {
	Offsets   []int64 `json:"offsets"`             // Of the records, in order.
	Duplicate bool    `json:"duplicate,omitempty"` // The same producer had stored them before.
}

// Produced is the answer to all other produces. It has `partition` and `first_offset` if the
// records are in one partition, otherwise `results`.
type Produced struct {
	Topic       string            `json:"topic"`
	Partition   *int32            `json:"partition,omitempty"`
	FirstOffset *int64            `json:"first_offset,omitempty"`
	Count       int64             `json:"count"`
	Duplicate   bool              `json:"duplicate,omitempty"` // The same producer had stored them before.
	Results     []PartitionResult `json:"results,omitempty"`
}

// PartitionResult is the outcome for the records of one partition. Without `code` they are durable.
type PartitionResult struct {
	Partition   int32  `json:"partition"`
	FirstOffset *int64 `json:"first_offset,omitempty"`
	Count       int64  `json:"count"`
	Code        Code   `json:"code,omitempty"`
	Detail      string `json:"detail,omitempty"`
}

// Stored is the answer to POST /records with `atomic`. All of the request is durable.
type Stored struct {
	// Of the lines of application/x-ndjson, in order.
	Records []StoredRecord `json:"records,omitempty"`
	// Of the frames of application/vnd.seb.recordbatch, in order.
	Results   []StoredBatches `json:"results,omitempty"`
	Duplicate bool            `json:"duplicate,omitempty"` // The same producer had stored them before.
}

// StoredRecord is a stored record, with `topic`, `partition` and `offset`, or a message, with `queue` and `id`.
type StoredRecord struct {
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`
	Queue     string `json:"queue,omitempty"`
	// Of the message.
	//openapi:example 0-17
	ID string `json:"id,omitempty"`
}

// StoredBatches is the position of the batches for a partition.
type StoredBatches struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	FirstOffset int64  `json:"first_offset"`
	Count       int64  `json:"count"`
}

// Topic is the committed state of a topic. `next_offset` and `latest_commit_at` belong to the
// requested partition (default 0).
type Topic struct {
	Name           string            `json:"name"`
	ID             string            `json:"id"`
	Partitions     []Partition       `json:"partitions"`
	Settings       map[string]string `json:"settings"` // Settings that are not the default.
	NextOffset     int64             `json:"next_offset"`
	LatestCommitAt time.Time         `json:"latest_commit_at,omitzero"` // Absent if nothing was written.
}

// Partition is one partition of a topic. Offsets from `start_offset` to before `last_stable_offset` can be
// read, and up to `next_offset` with `isolation=uncommitted`.
type Partition struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start_offset"`
	Next      int64 `json:"next_offset"`
	// Offset of the first record of the oldest open transaction; without one, `next_offset`.
	LastStable   int64     `json:"last_stable_offset"`
	LatestCommit time.Time `json:"latest_commit_at,omitzero"` // Absent if nothing was written.
	// After compaction fewer than offsets. An upper bound after a trim into a compacted range.
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
	// The offset up to which the partition was compacted. Absent if it was not.
	Compacted int64 `json:"compacted_offset,omitempty"`
}

// ScanProgress is the data of an event "progress" in an event stream with a filter: what the stream
// has looked at.
type ScanProgress struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"` // Of keys and values.
	// Offset of the next record; absent in a stream of all partitions.
	Offset *int64 `json:"offset,omitempty"`
	// End of the partition; absent in a stream of all partitions.
	NextOffset *int64 `json:"next_offset,omitempty"`
}

// Topics is the answer to GET /topics, sorted by name.
type Topics struct {
	Topics []Topic `json:"topics"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}

// TopicSpec is the body of PUT /topic. Partitions 0 or absent means 1 for a new topic, and
// unchanged for an existing one. Settings are merged into the current settings; null or "" removes
// one.
type TopicSpec struct {
	Partitions int `json:"partitions,omitempty"`
	// string, number, boolean or null
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
}

// Record is a record in the broker's JSON answers. Valid UTF-8 is in `value` and `key`, other bytes
// in `value_base64` and `key_base64`; null is null. At most one member of each pair is set.
//
//openapi:required [offset, timestamp]
type Record struct {
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"` // Milliseconds since 1970.
	Key       *string `json:"key"`
	//openapi:format byte
	KeyBase64 *string `json:"key_base64,omitempty"`
	Value     *string `json:"value"`
	//openapi:format byte
	ValueBase64 *string `json:"value_base64,omitempty"`
	// Bytes of the whole value, if it is cut to `max-value-bytes`.
	ValueBytes *int64   `json:"value_bytes,omitempty"`
	Headers    []Header `json:"headers,omitempty"`
}

// Header is one header of a record. Several headers may have the same key.
//
//openapi:required [key]
type Header struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
	//openapi:format byte
	//openapi:nullable true
	ValueBase64 *string `json:"value_base64,omitempty"`
}

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	//openapi:enum [ok]
	Status      string `json:"status"`
	Epoch       uint32 `json:"epoch,omitempty"`
	FormatLevel uint32 `json:"format_level,omitempty"` // Format level of the bucket.
	// Identifies the process, as in GET /cluster. Only GET /healthz has it.
	Run string `json:"run,omitempty"`
}

// Status is the answer to GET /status.
type Status struct {
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started,omitzero"`
	//openapi:enum [starting, leader, follower, fenced, stopped]
	Role        string `json:"role"`
	Epoch       uint32 `json:"epoch"`
	FormatLevel uint32 `json:"format_level"` // Format level of the bucket.
	Ready       bool   `json:"ready"`
	Reason      string `json:"reason,omitempty"` // Why the broker is not ready.
	// The bucket, and the latency of the last PUTs of commit objects, at most 128.
	Store  StoreStatus  `json:"store"`
	Memory MemoryStatus `json:"memory"`
	// The open connections of all listeners, which share a limit.
	Connections *ConnectionsStatus `json:"connections,omitempty"`
	// The idempotent producers that the log remembers, each once for each partition.
	Producers ProducersStatus `json:"producers"`
	Topics    int             `json:"topics"`
	Lag       LagStatus       `json:"lag"`
	Letters   *Letters        `json:"letters,omitempty"` // Of the dead-letter queue with the most messages.
	// The open transactions of Kafka clients; absent without one.
	Transactions *TransactionsStatus `json:"transactions,omitempty"`
	// The compaction that runs; absent without one.
	Compaction *CompactionStatus `json:"compaction,omitempty"`
	// The listener for Kafka clients; absent without one.
	Kafka *KafkaStatus `json:"kafka,omitempty"`
	// The endpoint for Riemann clients; absent without a listener. Counts are since the start of the
	// broker.
	Riemann  *RiemannStatus `json:"riemann,omitempty"`
	Warnings []string       `json:"warnings,omitempty"` // Conditions that an operator should look at.
}

// StoreStatus describes the bucket and the latencies of the last PUTs of commit objects.
type StoreStatus struct {
	Name string `json:"name,omitempty"`
	// Whether a folder keeps the commit objects of the epoch in a journal.
	Journal bool `json:"journal,omitempty"`
	// Number of measured PUTs, at most the last 128. Without one the latencies are 0.
	Puts         int     `json:"puts"`
	MedianMillis float64 `json:"put_median_ms"`
	P99Millis    float64 `json:"put_p99_ms"`
}

// MemoryStatus has the memory budget and its use, in bytes.
type MemoryStatus struct {
	Limit    int64 `json:"limit_bytes"`
	Reserved int64 `json:"reserved_bytes"`
	State    int64 `json:"state_bytes"`
	StateMax int64 `json:"state_max_bytes"`
}

// ConnectionsStatus is the memory of the open connections, in bytes, and each listener's part of it.
type ConnectionsStatus struct {
	Used      int64            `json:"used_bytes"`
	Limit     int64            `json:"limit_bytes"`
	Listeners []ListenerStatus `json:"listeners"`
}

// ListenerStatus has the connections of a listener.
type ListenerStatus struct {
	//openapi:enum [http, kafka, riemann]
	Name string `json:"name"`
	Open int    `json:"open"` // Open connections.
	// Connections of this listener that fit if no other listener has any.
	Limit   int    `json:"limit"`
	Refused uint64 `json:"refused"` // Refused connections and readers since the start of the broker.
	// The setting that raises the limit.
	Setting string `json:"setting"`
}

// ProducersStatus counts idempotent producers.
type ProducersStatus struct {
	Known int `json:"known"`
	// The most that --memory-limit allows; one principal may hold eight ninths of them.
	Limit int `json:"limit"`
}

// KafkaStatus is the listener for Kafka clients. The host of Address is 0.0.0.0 or :: if it listens on
// every address of its machine.
type KafkaStatus struct {
	// Host and port for clients. The host is 0.0.0.0 or :: if it listens on every address.
	Address string `json:"address"`
	TLS     bool   `json:"tls,omitempty"`
}

// RiemannStatus is the endpoint for Riemann clients. An address is absent without its listener. Counts
// are since the start of the broker.
type RiemannStatus struct {
	// Host and port for TCP; absent without this listener.
	Address          string             `json:"address,omitempty"`
	TLS              bool               `json:"tls,omitempty"`
	UDPAddress       string             `json:"udp_address,omitempty"` // Host and port for datagrams.
	WebAddress       string             `json:"web_address,omitempty"` // Host and port for subscriptions.
	WebTLS           bool               `json:"web_tls,omitempty"`
	Topic            string             `json:"topic,omitempty"` // Absent if the client may not describe it.
	Connections      int                `json:"connections"`     // Open connections.
	Events           uint64             `json:"events"`          // Stored events.
	MessagesRefused  uint64             `json:"messages_refused"`
	Datagrams        uint64             `json:"datagrams"`
	DatagramsDropped uint64             `json:"datagrams_dropped"` // Dropped by Seb or, on Linux, by the kernel.
	Index            RiemannIndexStatus `json:"index"`             // The index of Riemann events.
}

// RiemannIndexStatus is the index of Riemann events.
type RiemannIndexStatus struct {
	Events        int64 `json:"events"`
	Bytes         int64 `json:"bytes"`
	Subscriptions int64 `json:"subscriptions"`
	// Records of the topic that the index has not read.
	LagRecords int64 `json:"lag_records"`
	// Upper bound on the age of the oldest of them.
	LagSeconds  float64 `json:"lag_seconds"`
	Unavailable string  `json:"unavailable,omitempty"` // Why queries fail; absent if they do not.
}

// CompactionStatus is a running compaction. While it is sorting, it reads all records of its partitions,
// and finds those that a newer one with the same key replaces. While it is dropping, it reads a second
// time the parts that lose records.
type CompactionStatus struct {
	//openapi:enum [sorting, dropping]
	Phase      string    `json:"phase"`
	Started    time.Time `json:"started"`
	Partitions int       `json:"partitions"` // Partitions that it compacts.
	// Topic and partition that it reads. The topic is absent if the client may not describe it.
	Topic     string `json:"topic,omitempty"`
	Partition uint32 `json:"partition"`
	ReadBytes int64  `json:"read_bytes"` // Bytes that it has read.
	Bytes     int64  `json:"bytes"`      // Bytes that it reads until its end; at most, while it is sorting.
}

// LagStatus describes unprocessed records.
type LagStatus struct {
	// The group with the most records left to read in a topic.
	Group          *GroupLag `json:"group,omitempty"`
	TriggerRecords int64     `json:"trigger_records"`
	TriggerSeconds float64   `json:"trigger_seconds"`
}

// Letters are the messages of a dead-letter queue that are not done.
type Letters struct {
	Queue    string `json:"queue"`
	Messages int64  `json:"messages"`
}

// TransactionsStatus are the open transactions. Committed reads of their partitions wait for them.
type TransactionsStatus struct {
	Open int `json:"open"`
	// The oldest, of those that the client may describe.
	OldestID      string  `json:"oldest_id,omitempty"`
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`    // Its age.
	Partitions    int     `json:"oldest_partitions,omitempty"` // Number of its partitions.
}

// GroupLag is the lag of a group in a topic.
type GroupLag struct {
	Group   string `json:"group"`
	Topic   string `json:"topic"`
	Records int64  `json:"records"`
}

// LogTime is the answer to GET /time and POST /time/reset.
type LogTime struct {
	// Append time of the last commit; absent if there is none.
	Last  time.Time `json:"last,omitzero"`
	Now   time.Time `json:"now"`             // Time of the next commit.
	Error string    `json:"error,omitempty"` // Why writes wait; absent if they do not.
}

// Upgrade is the answer to GET and POST /upgrade: the format level of the bucket.
type Upgrade struct {
	Level        int `json:"level"`         // Format level of the bucket.
	HighestLevel int `json:"highest_level"` // The highest level that the broker knows.
	// When the first write raises the bucket to `highest_level`; before that an older version can lead
	// the bucket again. Absent if no write raises it.
	RaiseAt time.Time `json:"raise_at,omitzero"`
}

// TextOrBase64 returns b for the JSON members NAME and NAME_base64: text if b is valid UTF-8, else
// standard base64. If b is nil, both are nil.
func TextOrBase64(b []byte) (text, b64 *string) {
	switch {
	case b == nil:
		return nil, nil
	case utf8.Valid(b):
		return new(string(b)), nil
	}
	return nil, new(base64.StdEncoding.EncodeToString(b))
}

// Setting describes a setting of topics. It has `choices`, or it is a size, a time or a ratio with bounds.
type Setting struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	// The default for topics with compaction, if it differs.
	DefaultCompacted string `json:"default_compacted,omitempty"`
	// The allowed values of a setting that is neither a size, a time nor a ratio.
	Choices []string `json:"choices,omitempty"`
	// Sizes are like 1048576 or 16MiB, times like 90s, 12h or 7d, ratios like 0.5.
	//openapi:enum [bytes, time, ratio]
	Unit      string `json:"unit,omitempty"`
	Min       string `json:"min,omitempty"`
	Max       string `json:"max,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"` // true: the value may also be "unlimited".
	Meaning   string `json:"meaning"`
}

// Settings is the answer to GET /settings.
type Settings struct {
	Settings []Setting `json:"settings"` // Of topics.
	Queues   []Setting `json:"queues"`   // Of queues.
}

// HeaderSession carries the page's half of a session (Session.Session). The other half is a cookie.
const HeaderSession = "Seb-Session"

// Session is the answer to POST /console/login and GET /console/session: who a web page acts for.
type Session struct {
	Principal string `json:"principal"` // The ID of the token; seb for the root key.
	// The half that the page keeps; only the login has it.
	Session string    `json:"session,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Operations that the client may perform on some resource, by type of resource.
	May         map[string][]string `json:"may"`
	EventsTopic string              `json:"events_topic"` // The default topic of POST /event.
	// The topic of audit records, if there is one that the client may read.
	AuditTopic string `json:"audit_topic,omitempty"`
	ReadOnly   bool   `json:"read_only,omitempty"` // The broker is a follower.
}

// Headers of the answers about record keys, in addition to HeaderEpoch, HeaderNextOffset and
// HeaderOffset.
const (
	// HeaderKeyIndexLag is the number of records of the topic that the key index did not have when
	// it was read.
	HeaderKeyIndexLag = "Seb-View-Lag"
	// HeaderPartition and HeaderTimestamp belong to the record in the answer to GET /key. The
	// timestamp is in ms since 1970.
	HeaderPartition = "Seb-Partition"
	HeaderTimestamp = "Seb-Timestamp"
)

// PartitionRecord is a Record with its partition.
//
//openapi:required [partition, offset, timestamp]
type PartitionRecord struct {
	Partition int32 `json:"partition"`
	Record
}

// KeyEntry is a key, in `key_base64` if it is not valid UTF-8, with the position of its newest
// record. It has one of the two.
type KeyEntry struct {
	Key *string `json:"key,omitempty"`
	//openapi:format byte
	KeyBase64 *string `json:"key_base64,omitempty"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"` // Milliseconds since 1970.
}

// Keys is the answer to GET /keys, sorted by the bytes of the keys.
type Keys struct {
	Keys []KeyEntry `json:"keys"`
	Next *string    `json:"next,omitempty"` // Value of `after` for the next page.
	// Value of `after-base64` for the next page.
	//openapi:format byte
	NextBase64 *string `json:"next_base64,omitempty"`
}

// KeyHistory is the answer to GET /key/history.
type KeyHistory struct {
	Records []PartitionRecord `json:"records"`
	Next    string            `json:"next,omitempty"` // Value of `after` for the next page.
}
