package api

import "time"

// OffsetCommit is the body of PUT /offsets for one partition, named in the query, or one entry of OffsetCommits, which
// names its own.
type OffsetCommit struct {
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset"` // the next one to read; required
	// ExpectedOffset refuses the commit unless the group has committed that; -1 is nothing. Absent: no condition.
	ExpectedOffset *int64 `json:"expected_offset,omitempty"`
	Metadata       string `json:"metadata,omitempty"` // the group's own
}

// OffsetCommits is the body of PUT /offsets for any number of partitions.
type OffsetCommits struct {
	Offsets []OffsetCommit `json:"offsets"`
}

// OffsetResult is what became of one OffsetCommit: Code empty means durable.
type OffsetResult struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Code      Code   `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	// Committed is what the group has really committed, with offset_mismatch; -1 is nothing.
	Committed *int64 `json:"committed_offset,omitempty"`
}

// OffsetResults is the answer to PUT /offsets, in the order of the request.
type OffsetResults struct {
	Group   string         `json:"group"`
	Offsets []OffsetResult `json:"offsets"`
}

// Group is what a consumer group has committed, by topic and partition.
type Group struct {
	Name    string        `json:"group"`
	Lag     int64         `json:"lag"` // of all its offsets together
	Offsets []GroupOffset `json:"offsets"`
}

// GroupOffset is a group's offset in one partition of a topic, whose offsets [Start, Next) are there.
type GroupOffset struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"` // the next one to read
	Metadata  string    `json:"metadata,omitempty"`
	Committed time.Time `json:"committed_at"`
	Start     int64     `json:"start_offset"`
	Next      int64     `json:"next_offset"`
	Lag       int64     `json:"lag"` // how many offsets are left to read
}

// Groups is the answer to GET /groups, by name.
type Groups struct {
	Groups []Group `json:"groups"`
}
