package api

import "time"

// OffsetCommit is the body of PUT /offsets for one partition, which the query names. It is also an
// entry of OffsetCommits, and then names its own topic and partition.
type OffsetCommit struct {
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset"` // next offset to read; required
	// ExpectedOffset is a condition: the broker refuses the commit unless the group's committed
	// offset equals it. -1 means that the group has committed none. Absent: no condition.
	ExpectedOffset *int64 `json:"expected_offset,omitempty"`
	// NoMembers is a condition: the broker refuses the commit while the group has members. Without
	// it, it does so only if ExpectedOffset is absent.
	NoMembers bool   `json:"no_members,omitempty"`
	Metadata  string `json:"metadata,omitempty"` // defined by the group
}

// OffsetCommits is the body of PUT /offsets for several partitions.
//
//openapi:additionalProperties false
type OffsetCommits struct {
	//openapi:items {$ref: '#/components/schemas/OffsetEntry'}
	//openapi:minItems 1
	Offsets []OffsetCommit `json:"offsets"`
}

// OffsetResult is the outcome of one OffsetCommit. Without `code` the offset is durable.
type OffsetResult struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Code      Code   `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Committed *int64 `json:"committed_offset,omitempty"` // The actual committed offset; -1: none.
}

// OffsetResults is the answer to PUT /offsets, in the order of the request.
type OffsetResults struct {
	Group   string         `json:"group"`
	Offsets []OffsetResult `json:"offsets"`
}

// Group has the committed offsets of a consumer group, by topic and partition.
type Group struct {
	Name    string        `json:"group"`
	Lag     int64         `json:"lag"`     // Sum over all offsets.
	Offsets []GroupOffset `json:"offsets"` // By topic and partition.

	// Only with `members=true`.
	//openapi:enum [Empty, PreparingRebalance, CompletingRebalance, Stable, Reconciling]
	State string `json:"state,omitempty"`
	// By time of joining; only with `members=true`.
	Members []GroupMember `json:"members,omitzero"`
}

// GroupMember is a member of a consumer group. Assigned names only topics that the client may
// describe. In the classic protocol it is empty unless the group is Stable.
type GroupMember struct {
	ID       string `json:"member"`             // ID of the member.
	Instance string `json:"instance,omitempty"` // `group.instance.id` of a static member.
	ClientID string `json:"client_id"`
	Host     string `json:"host"`
	// Assigned partitions of the topics that the client may describe. In the classic protocol it is
	// empty unless the group is `Stable`.
	Assigned []TopicPartitions `json:"assigned"`
}

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// GroupOffset is a group's committed offset in one partition. Offsets from `start_offset` to before
// `next_offset` can be read.
type GroupOffset struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"` // Offset of the next record to read.
	Metadata  string    `json:"metadata,omitempty"`
	Committed time.Time `json:"committed_at"`
	Start     int64     `json:"start_offset"`
	Next      int64     `json:"next_offset"`
	// Number of offsets to read; after compaction an upper bound of the records.
	Lag int64 `json:"lag"`
}

// Groups is the answer to GET /groups, sorted by name.
type Groups struct {
	Groups []Group `json:"groups"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
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
	// Of the record at `offset`, in ms since 1970; null without a record at or after `time`, and for
	// earliest and latest.
	Timestamp *int64 `json:"timestamp"`
}
