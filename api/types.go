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
	Offsets   []int64 `json:"offsets"`
	Duplicate bool    `json:"duplicate,omitempty"` // stored earlier, by the same producer
}

// Produced is the answer to all other produces. Partition and FirstOffset are set if the records
// went to one partition, and Results if they went to several.
type Produced struct {
	Topic       string `json:"topic"`
	Partition   *int32 `json:"partition,omitempty"`
	FirstOffset *int64 `json:"first_offset,omitempty"`
	Count       int64  `json:"count"`
	// stored earlier, by the same producer
	Duplicate bool              `json:"duplicate,omitempty"`
	Results   []PartitionResult `json:"results,omitempty"`
}

// PartitionResult is the outcome for the records of one partition. An empty Code means that they
// are durable.
type PartitionResult struct {
	Partition   int32  `json:"partition"`
	FirstOffset *int64 `json:"first_offset,omitempty"`
	Count       int64  `json:"count"`
	Code        Code   `json:"code,omitempty"`
	Detail      string `json:"detail,omitempty"`
}

// Topic is the committed state of a topic. NextOffset and LatestCommitAt belong to the requested
// partition (default 0).
type Topic struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Partitions []Partition       `json:"partitions"`
	Settings   map[string]string `json:"settings"` // explicit settings only
	NextOffset int64             `json:"next_offset"`
	// LatestCommitAt is absent if the partition was never written.
	LatestCommitAt time.Time `json:"latest_commit_at,omitzero"`
}

// Partition is one partition of a topic. Offsets [Start, Next) can be read. Records is the number
// of records in that range, which compaction can make smaller than the range. After a trim into a
// compacted range it is an upper bound.
type Partition struct {
	Partition    int32     `json:"partition"`
	Start        int64     `json:"start_offset"`
	Next         int64     `json:"next_offset"`
	LatestCommit time.Time `json:"latest_commit_at,omitzero"` // absent if the partition was never written
	Records      int64     `json:"records"`
	Bytes        int64     `json:"bytes"`
}

// TopicOffsets is the answer to GET /topic/offsets, by partition.
type TopicOffsets struct {
	Partitions []PartitionOffset `json:"partitions"`
}

// PartitionOffset is the offset of a partition at a time: that of the first record with the time or
// a later one, else the end of the partition.
type PartitionOffset struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
	// Timestamp is the time of that record in ms since 1970; nil without a record, and for the times
	// earliest and latest.
	Timestamp *int64 `json:"timestamp"`
}

// ScanProgress is the data of an event "progress" in an event stream with a filter: what the stream
// has looked at.
type ScanProgress struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"` // of keys and values
	// Offset is that of the next record, and NextOffset the end of the partition; nil for a stream
	// of all partitions.
	Offset     *int64 `json:"offset,omitempty"`
	NextOffset *int64 `json:"next_offset,omitempty"`
}

// Topics is the answer to GET /topics, sorted by name.
type Topics struct {
	Topics []Topic `json:"topics"`
}

// TopicSpec is the body of PUT /topic. Partitions 0 or absent means 1 for a new topic, and
// unchanged for an existing one. Settings are merged into the current settings; null or "" removes
// one.
type TopicSpec struct {
	Partitions int `json:"partitions,omitempty"`
	// string, number, boolean or null
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
}

// Record is a record in the broker's JSON answers. At most one of Value and ValueBase64 is set;
// neither means null. The same holds for the key. Valid UTF-8 is sent as a string.
type Record struct {
	Offset      int64   `json:"offset"`
	Timestamp   int64   `json:"timestamp"` // ms since 1970
	Key         *string `json:"key"`
	KeyBase64   *string `json:"key_base64,omitempty"`
	Value       *string `json:"value"`
	ValueBase64 *string `json:"value_base64,omitempty"`
	// ValueBytes is the length of the whole value if it is cut to max-value-bytes.
	ValueBytes *int64   `json:"value_bytes,omitempty"`
	Headers    []Header `json:"headers,omitempty"`
}

// Header is one header of a record. Several headers may have the same key.
type Header struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 *string `json:"value_base64,omitempty"`
}

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status"` // "ok"
	Epoch  uint32 `json:"epoch,omitempty"`
	// FormatLevel is the format level of the bucket.
	FormatLevel uint32 `json:"format_level,omitempty"`
	// Run identifies the process, as in GET /cluster. Only GET /healthz has it.
	Run string `json:"run,omitempty"`
}

// Status is the answer to GET /status.
type Status struct {
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Role    string    `json:"role"` // starting, leader, follower, fenced or stopped
	Epoch   uint32    `json:"epoch"`
	// FormatLevel is the format level of the bucket.
	FormatLevel uint32 `json:"format_level"`
	Ready       bool   `json:"ready"`
	// Reason is the reason why the broker is not ready.
	Reason string       `json:"reason,omitempty"`
	Store  StoreStatus  `json:"store"`
	Memory MemoryStatus `json:"memory"`
	Topics int          `json:"topics"`
	Lag    LagStatus    `json:"lag"`
	// Kafka is absent without a listener for Kafka clients.
	Kafka *KafkaStatus `json:"kafka,omitempty"`
	// Riemann is absent without a listener for Riemann clients.
	Riemann *RiemannStatus `json:"riemann,omitempty"`
	// Warnings are conditions for an operator to check, one sentence each.
	Warnings []string `json:"warnings,omitempty"`
}

// StoreStatus describes the bucket and the latencies of the last PUTs of commit objects.
type StoreStatus struct {
	Name string `json:"name,omitempty"`
	// Journal: a folder keeps the commit objects of the epoch in a journal.
	Journal bool `json:"journal,omitempty"`
	// Puts is the number of measured PUTs, at most 128. The latencies are 0 without one.
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

// KafkaStatus is the listener for Kafka clients. The host of Address is 0.0.0.0 or :: if it listens on
// every address of its machine.
type KafkaStatus struct {
	Address string `json:"address"` // host:port for clients
	TLS     bool   `json:"tls,omitempty"`
}

// RiemannStatus is the endpoint for Riemann clients. An address is absent without its listener. Counts
// are since the start of the broker.
type RiemannStatus struct {
	Address    string `json:"address,omitempty"` // host:port
	TLS        bool   `json:"tls,omitempty"`
	UDPAddress string `json:"udp_address,omitempty"`
	WebAddress string `json:"web_address,omitempty"` // of subscriptions
	WebTLS     bool   `json:"web_tls,omitempty"`
	// Topic is absent if the client may not describe it.
	Topic            string             `json:"topic,omitempty"`
	Connections      int                `json:"connections"`
	Events           uint64             `json:"events"` // stored
	MessagesRefused  uint64             `json:"messages_refused"`
	Datagrams        uint64             `json:"datagrams"`
	DatagramsDropped uint64             `json:"datagrams_dropped"` // on Linux with those of the kernel
	Index            RiemannIndexStatus `json:"index"`
}

// RiemannIndexStatus is the index of Riemann events.
type RiemannIndexStatus struct {
	Events        int64 `json:"events"`
	Bytes         int64 `json:"bytes"`
	Subscriptions int64 `json:"subscriptions"`
	// LagRecords is the number of records of the topic that the index has not read. LagSeconds is an
	// upper bound on the age of the oldest of them.
	LagRecords int64   `json:"lag_records"`
	LagSeconds float64 `json:"lag_seconds"`
	// Unavailable is the reason why queries fail; absent if they do not.
	Unavailable string `json:"unavailable,omitempty"`
}

// LagStatus describes unprocessed records.
type LagStatus struct {
	// Group is the group with the most records left to read in a topic.
	Group *GroupLag `json:"group,omitempty"`
	// TriggerRecords and TriggerSeconds are the lag of the trigger engine.
	TriggerRecords int64   `json:"trigger_records"`
	TriggerSeconds float64 `json:"trigger_seconds"`
}

// GroupLag is the lag of a group in a topic.
type GroupLag struct {
	Group   string `json:"group"`
	Topic   string `json:"topic"`
	Records int64  `json:"records"`
}

// LogTime is the answer to GET /time and POST /time/reset.
type LogTime struct {
	// Last is the append time of the last commit; zero if there is none.
	Last time.Time `json:"last,omitzero"`
	Now  time.Time `json:"now"` // append time of a commit at this moment
	// Error is the reason why the broker does not commit at this time.
	Error string `json:"error,omitempty"`
}

// Upgrade is the answer to GET and POST /upgrade: the format level of the bucket.
type Upgrade struct {
	Level        int `json:"level"`
	HighestLevel int `json:"highest_level"` // that the broker knows
	// RaiseAt is the time from which the first write raises the bucket to HighestLevel. Before it,
	// an older program can still lead the bucket. Zero: no write raises the level.
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

// Setting describes a setting of topics. It has Choices, or it is a size or a time with bounds.
type Setting struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	// DefaultCompacted is the default for topics with compaction, if it differs.
	DefaultCompacted string   `json:"default_compacted,omitempty"`
	Choices          []string `json:"choices,omitempty"`
	// Unit is bytes, with a suffix like 16MiB, or time, such as 90s or 7d.
	Unit      string `json:"unit,omitempty"`
	Min       string `json:"min,omitempty"`
	Max       string `json:"max,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"` // also accepts unlimited
	Meaning   string `json:"meaning"`
}

// Settings is the answer to GET /settings.
type Settings struct {
	Settings []Setting `json:"settings"`
}

// HeaderSession carries the page's half of a session (Session.Session). The other half is a cookie.
const HeaderSession = "Seb-Session"

// Session is the answer to POST /console/login and GET /console/session: who a web page acts for.
type Session struct {
	Principal string `json:"principal"` // an ID; "seb" for the root key
	// Session is the half of the session that the page keeps. Only the login returns it.
	Session string    `json:"session,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// May lists the operations that the client may perform on some resource of a type, by type.
	May         map[string][]string `json:"may"`
	EventsTopic string              `json:"events_topic"`
	AuditTopic  string              `json:"audit_topic,omitempty"` // if the client may read it
	ReadOnly    bool                `json:"read_only,omitempty"`
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

// PartitionRecord is a record with its partition.
type PartitionRecord struct {
	Partition int32 `json:"partition"`
	Record
}

// KeyEntry is a key with the position of its newest record. Exactly one of Key and KeyBase64 is
// set.
type KeyEntry struct {
	Key       *string `json:"key,omitempty"`
	KeyBase64 *string `json:"key_base64,omitempty"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"` // ms since 1970
}

// Keys is the answer to GET /keys, sorted by the bytes of the keys. If Next or NextBase64 is set,
// it is the parameter after or after-base64 of the next page.
type Keys struct {
	Keys       []KeyEntry `json:"keys"`
	Next       *string    `json:"next,omitempty"`
	NextBase64 *string    `json:"next_base64,omitempty"`
}

// KeyHistory is the answer to GET /key/history. If Next is set, it is the parameter after of the
// next page.
type KeyHistory struct {
	Records []PartitionRecord `json:"records"`
	Next    string            `json:"next,omitempty"`
}
