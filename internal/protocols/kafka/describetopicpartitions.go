package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeTopicPartitions (75), v0: topics by name, all if none is named, in pages. A page has at
// most the requested number of partitions, at most 2,000, and a cursor for the next page. Topics
// are sorted by name.
var _ = register(api{
	key: kmsg.DescribeTopicPartitions, min: 0, max: 0,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Array(wire.Text), wire.Int32, wire.Optional(wire.Text, wire.Int32)}},
	begin: serving((*call).describeTopicPartitions),
})

// pagePartitions bounds the partitions of an answer.
const pagePartitions = 2000

func (c *call) describeTopicPartitions(_ context.Context, r *kmsg.DescribeTopicPartitionsRequest) (*kmsg.DescribeTopicPartitionsResponse, error) {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	var names []string
	for i := range r.Topics {
		names = append(names, r.Topics[i].Topic)
	}
	if len(names) == 0 {
		for _, t := range c.topicRefs() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if r.Cursor != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return name < r.Cursor.Topic })
	}
	room := min(pagePartitions, max(1, int(r.ResponsePartitionLimit)))
	if err := c.frame.Charge(int64(room+len(names)) * c.partitionBytes()); err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { // on every page, as in Kafka
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = &name, c.denied(access.Describe, access.Topic, name)
		if t.ErrorCode == none {
			return false
		}
		resp.Topics = append(resp.Topics, t)
		return true
	})
	ns := c.nodes()
	for _, name := range names {
		from := 0
		if r.Cursor != nil && name == r.Cursor.Topic {
			from = int(max(0, r.Cursor.Partition))
		}
		if room == 0 {
			next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
			next.Topic = name
			resp.NextCursor = &next
			break
		}
		t, n := c.topicPage(name, from, room, &ns)
		room -= len(t.Partitions)
		resp.Topics = append(resp.Topics, t)
		if at := from + len(t.Partitions); at < n {
			next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
			next.Topic, next.Partition = name, int32(at)
			resp.NextCursor = &next
			break
		}
	}
	return resp, nil
}

// topicPage describes at most limit partitions of a topic; n is the number of its partitions.
func (c *call) topicPage(name string, from, limit int, ns *nodes) (t kmsg.DescribeTopicPartitionsResponseTopic, n int) {
	t = kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.AuthorizedOperations = &name, c.operations(access.Topic, name)
	ref, code := c.topicNamed(name, access.Describe)
	if t.ErrorCode = code; code != none {
		return t, 0
	}
	t.TopicID = ref.ID
	for i := from; i < min(ref.Partitions, from+limit); i++ {
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.LeaderEpoch = int32(i), ns.leaderID(), ns.epoch
		p.Replicas, p.ISR, p.OfflineReplicas = ns.replicas, ns.inSync, ns.offline
		if ns.leader == nil {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{} // Java rejects null
		t.Partitions = append(t.Partitions, p)
	}
	return t, ref.Partitions
}
