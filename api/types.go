package api

import (
	"encoding/json"
	"time"
)

// The media types of POST /records and GET /records.
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

// Headers that are Seb's own.
const (
	// HeaderEpoch is the epoch of the broker that answered a read.
	HeaderEpoch = "Seb-Epoch"
	// HeaderBaseOffset is the offset of the first record of a RecordBatch body; it may be below the one asked for.
	HeaderBaseOffset = "Seb-Base-Offset"
	// HeaderNextOffset is, on reads, the partition's end: the next offset that will be written.
	HeaderNextOffset = "Seb-Next-Offset"
	// HeaderResumeOffset is, on reads of records, where the next read goes on: behind the last record of the answer and behind
	// what compaction has removed after it.
	HeaderResumeOffset = "Seb-Resume-Offset"
	// HeaderOffset is, on reads of a consumer group, the offset at which the read began; on GET /key the record's.
	HeaderOffset = "Seb-Offset"
	// HeaderProducerID, HeaderProducerEpoch and HeaderSequence make a produce to one partition idempotent: the first two
	// name its producer, the third is the number of its first record among all that the producer sent to the partition,
	// from 0, after 2147483647 again from 0.
	HeaderProducerID    = "Seb-Producer-Id"
	HeaderProducerEpoch = "Seb-Producer-Epoch"
	HeaderSequence      = "Seb-Sequence"
)

// Offsets is the answer to a multipart produce: the offset of each record, in order.
type Offsets struct {
	Offsets   []int64 `json:"offsets"`
	Duplicate bool    `json:"duplicate,omitempty"` // they were there already, as the same producer's
}

// Produced is the answer to every other produce. If the records went to one partition, Partition and FirstOffset say
// where; if to several, Results does and those two are absent.
type Produced struct {
	Topic       string            `json:"topic"`
	Partition   *int32            `json:"partition,omitempty"`
	FirstOffset *int64            `json:"first_offset,omitempty"`
	Count       int64             `json:"count"`
	Duplicate   bool              `json:"duplicate,omitempty"` // they were there already, as the same producer's
	Results     []PartitionResult `json:"results,omitempty"`
}

// PartitionResult is what became of the records of one partition: Code empty means durable.
type PartitionResult struct {
	Partition   int32  `json:"partition"`
	FirstOffset *int64 `json:"first_offset,omitempty"`
	Count       int64  `json:"count"`
	Code        Code   `json:"code,omitempty"`
	Detail      string `json:"detail,omitempty"`
}

// Topic is a topic as committed. NextOffset and LatestCommitAt are those of the partition asked for (default 0).
type Topic struct {
	Name           string            `json:"name"`
	ID             string            `json:"id"`
	Partitions     []Partition       `json:"partitions"`
	Settings       map[string]string `json:"settings"` // explicitly set ones
	NextOffset     int64             `json:"next_offset"`
	LatestCommitAt time.Time         `json:"latest_commit_at"` // 0001-01-01T00:00:00Z if nothing was ever written
}

// Partition is one partition of a topic: offsets [Start, Next) are there. They have Records records: compaction
// may have removed others, and where a trim went into what it has left they may be a little fewer.
type Partition struct {
	Partition    int32     `json:"partition"`
	Start        int64     `json:"start_offset"`
	Next         int64     `json:"next_offset"`
	LatestCommit time.Time `json:"latest_commit_at"` // zero if nothing was ever written
	Records      int64     `json:"records"`
	Bytes        int64     `json:"bytes"`
}

// Topics is the answer to GET /topics, by name.
type Topics struct {
	Topics []Topic `json:"topics"`
}

// TopicSpec is the body of PUT /topic. Partitions 0 or absent: 1 for a new topic, unchanged for one that is there.
// Settings are merged into those that are set; null or "" removes one.
type TopicSpec struct {
	Partitions int                        `json:"partitions,omitempty"`
	Settings   map[string]json.RawMessage `json:"settings,omitempty"` // string, number, boolean or null
}

// Record is a record in the JSON forms that the broker gives. Exactly one of Value and ValueBase64 is set, or neither
// and the value is null; likewise the key. Bytes that are valid UTF-8 are given as a string.
type Record struct {
	Offset      int64    `json:"offset"`
	Timestamp   int64    `json:"timestamp"` // ms since 1970
	Key         *string  `json:"key"`
	KeyBase64   *string  `json:"key_base64,omitempty"`
	Value       *string  `json:"value"`
	ValueBase64 *string  `json:"value_base64,omitempty"`
	Headers     []Header `json:"headers,omitempty"`
}

// Header is one header of a record; names may repeat.
type Header struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 *string `json:"value_base64,omitempty"`
}

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status"` // "ok"
	Epoch  uint32 `json:"epoch,omitempty"`
	// FormatLevel is that of the bucket.
	FormatLevel uint32 `json:"format_level,omitempty"`
}

// LogTime is the answer to GET /time and POST /time/reset.
type LogTime struct {
	Last  time.Time `json:"last,omitzero"`   // append time of the last commit; zero if there is none
	Now   time.Time `json:"now"`             // that a commit would have
	Error string    `json:"error,omitempty"` // why no commit is made at that time
}

// Upgrade is the answer to GET and POST /upgrade: the format level of the bucket.
type Upgrade struct {
	Level        int `json:"level"`
	HighestLevel int `json:"highest_level"` // that the broker knows
	// RaiseAt is when the first write raises the bucket to HighestLevel; before, an older program can lead the bucket
	// again. Zero: no write raises it.
	RaiseAt time.Time `json:"raise_at,omitzero"`
}
