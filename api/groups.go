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
type OffsetCommits struct {
	Offsets []OffsetCommit `json:"offsets"`
}

// OffsetResult is the outcome of one OffsetCommit. An empty Code means that it is durable.
type OffsetResult struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Code      Code   `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	// Committed is the group's actual committed offset, for offset_mismatch; -1 means none.
	Committed *int64 `json:"committed_offset,omitempty"`
}

// OffsetResults is the answer to PUT /offsets, in the order of the request.
type OffsetResults struct {
	Group   string         `json:"group"`
	Offsets []OffsetResult `json:"offsets"`
}

// Group has the committed offsets of a consumer group, by topic and partition.
type Group struct {
	Name    string        `json:"group"`
	Lag     int64         `json:"lag"` // sum over all offsets
	Offsets []GroupOffset `json:"offsets"`

	// State and Members are there only if they were requested. State is Empty, PreparingRebalance,
	// CompletingRebalance, Stable or Reconciling, as in Kafka.
	State   string        `json:"state,omitempty"`
	Members []GroupMember `json:"members,omitzero"` // by time of joining
}

// GroupMember is a member of a consumer group. Assigned names only topics that the client may
// describe. In the classic protocol it is empty unless the group is Stable.
type GroupMember struct {
	ID       string            `json:"member"`
	Instance string            `json:"instance,omitempty"` // of a static member
	ClientID string            `json:"client_id"`
	Host     string            `json:"host"`
	Assigned []TopicPartitions `json:"assigned"`
}

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// GroupOffset is a group's committed offset in one partition. Offsets [Start, Next) can be read.
type GroupOffset struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"` // next offset to read
	Metadata  string    `json:"metadata,omitempty"`
	Committed time.Time `json:"committed_at"`
	Start     int64     `json:"start_offset"`
	Next      int64     `json:"next_offset"`
	Lag       int64     `json:"lag"` // number of offsets left to read
}

// Groups is the answer to GET /groups, sorted by name.
type Groups struct {
	Groups []Group `json:"groups"`
}
