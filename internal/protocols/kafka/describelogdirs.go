package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeLogDirs (35), v1 to v5: one directory, the bucket, with the sizes of the named
// partitions, or of all. Its total and usable bytes are unknown.
var _ = register(api{
	key: kmsg.DescribeLogDirs, min: 1, max: 5,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.Array(wire.Text, wire.List(wire.Int32))}},
	begin: serving((*call).describeLogDirs),
})

// bucketDir is the name of the bucket as a directory.
const bucketDir = "/bucket"

func (c *call) describeLogDirs(ctx context.Context, r *kmsg.DescribeLogDirsRequest) (*kmsg.DescribeLogDirsResponse, error) {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if resp.ErrorCode = c.clusterDenied(access.Describe); resp.ErrorCode != none {
		return resp, nil
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = bucketDir
	asked := map[string]map[int32]bool{} // empty: all
	for i := range r.Topics {
		t := &r.Topics[i]
		if asked[t.Topic] == nil {
			asked[t.Topic] = map[int32]bool{}
		}
		for _, p := range t.Partitions {
			asked[t.Topic][p] = true
		}
	}
	var found []broker.TopicRef
	for _, t := range c.topicRefs() {
		if r.Topics == nil || asked[t.Name] != nil {
			found = append(found, t)
		}
	}
	if err := c.chargeTopics(found); err != nil {
		return nil, err
	}
	for i := range found {
		t := kmsg.NewDescribeLogDirsResponseDirTopic()
		t.Topic = found[i].Name
		described, err := c.b.Topic(ctx, t.Topic, false)
		if err != nil {
			continue // deleted concurrently
		}
		for n, info := range described.Partitions {
			if want := asked[t.Topic]; want == nil || want[int32(n)] {
				p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
				p.Partition, p.Size = int32(n), info.Bytes
				t.Partitions = append(t.Partitions, p)
			}
		}
		dir.Topics = append(dir.Topics, t)
	}
	resp.Dirs = []kmsg.DescribeLogDirsResponseDir{dir}
	return resp, nil
}
