package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/test/check"
)

// coder sends requests and returns the code of the answer.
type coder struct {
	t *testing.T
	c *raw
}

func (k coder) create(name string, partitions int32, assigned bool, config string) int16 {
	r := kmsg.NewPtrCreateTopicsRequest()
	n := kmsg.NewCreateTopicsRequestTopic()
	n.Topic, n.NumPartitions, n.ReplicationFactor = name, partitions, -1
	if assigned {
		n.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1}}}
	}
	if config != "" {
		n.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: config, Value: &config}}
	}
	r.Topics, r.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{n}, 10_000
	return k.c.ask(r, 5).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
}

func (k coder) alter(name string, ops int, config string) int16 {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, name
	for range ops {
		res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: config, Value: &config})
	}
	r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{res}
	return k.c.ask(r, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

func (k coder) noValue(op kmsg.IncrementalAlterConfigOp) int16 {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Op: op}}
	r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{res}
	return k.c.ask(r, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

func (k coder) metadata(name string) int16 {
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	return k.c.ask(r, 9).(*kmsg.MetadataResponse).Topics[0].ErrorCode
}

func (k coder) cut(name string, offset int64) int16 {
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.TimeoutMillis = 10_000
	r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
	return k.c.ask(r, 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
}

func (k coder) id(id int64, epoch int16) int16 {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.ProducerID, r.ProducerEpoch = id, epoch
	return k.c.ask(r, 4).(*kmsg.InitProducerIDResponse).ErrorCode
}

func (k coder) cluster(kind int8) int16 {
	r := kmsg.NewPtrDescribeClusterRequest()
	r.EndpointType = kind
	got := k.c.ask(r, 1).(*kmsg.DescribeClusterResponse)
	if got.EndpointType != 1 || got.ErrorMessage == nil {
		k.t.Errorf("endpoints of type %d: %+v", kind, got)
	}
	return got.ErrorCode
}

func (k coder) describe(kind kmsg.ConfigResourceType, name string) int16 {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name}}
	return k.c.ask(r, 4).(*kmsg.DescribeConfigsResponse).Resources[0].ErrorCode
}

// TestSameCodes: refusals have the same codes as in Kafka where several would fit, because clients
// act on them.
func TestSameCodes(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)

	k := coder{t, c}
	for what, got := range map[string][2]int16{
		"create: a bad name and a bad config":         {k.create("a b", 1, false, "no.such"), 17},
		"create: an existing topic, and a bad config": {k.create("t", 1, false, "no.such"), 36},
		"create: replicas and partitions":             {k.create("new", 1, true, ""), 42},
		"alter: a bad name and a bad config":          {k.alter("a b", 1, "no.such"), 17},
		"alter: an unknown topic, and a bad config":   {k.alter("other", 1, "no.such"), 3},
		"alter: a duplicate config":                   {k.alter("t", 2, "retention.ms"), 42},
		"alter: a config without a value":             {k.noValue(kmsg.IncrementalAlterConfigOpSet), 42},
		"alter: back to the default":                  {k.noValue(kmsg.IncrementalAlterConfigOpDelete), 0},
		"metadata of a name that no topic can have":   {k.metadata("a b"), 17},
		"metadata of an unknown topic":                {k.metadata("other"), 3},
		"delete records below -2":                     {k.cut("t", -2), 1},
		"delete records below -2 of an unknown topic": {k.cut("other", -2), 3},
		"a producer id without its epoch":             {k.id(5, -1), 42},
		"an epoch without its producer id":            {k.id(-1, 5), 42},
		"configs of a name that no topic can have":    {k.describe(kmsg.ConfigResourceTypeTopic, "a b"), 17},
		"configs of another broker":                   {k.describe(kmsg.ConfigResourceTypeBroker, "7"), 42},
		"configs of the broker":                       {k.describe(kmsg.ConfigResourceTypeBroker, "1"), 0},
		"controllers":                                 {k.cluster(2), 114},
		"an unknown type of endpoints":                {k.cluster(3), 115},
	} {
		check.Equalf(t, got[0], got[1], "%s", what)
	}
}

// TestSameOffsets: the other fields of an answer are as in Kafka.
func TestSameOffsets(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	list := func(at int64, version int16) kmsg.ListOffsetsResponseTopicPartition {
		r := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = at
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		return c.ask(r, version).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	}
	if p := list(-2, 4); p.LeaderEpoch != int32(s.b.Epoch()) || p.Offset != 0 {
		t.Errorf("the start of an empty partition: %+v", p)
	}
	for at, since := range map[int64]int16{-3: 7, -4: 8, -5: 9, -6: 11, -7: 12} {
		for _, version := range []int16{1, since - 1, min(since, 11)} {
			want := int16(35)
			if version >= since {
				want = 0
			}
			if p := list(at, version); p.ErrorCode != want {
				t.Errorf("offset at %d in v%d: %+v", at, version, p)
			}
		}
	}
	r2 := kmsg.NewPtrOffsetForLeaderEpochRequest()
	r2.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
		{Partition: 7, CurrentLeaderEpoch: int32(s.b.Epoch()) + 1},
	}}}
	if p := c.ask(r2, 3).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]; p.ErrorCode != 3 {
		t.Errorf("the epoch of an unknown partition: %+v", p)
	}
	c.ask(produceRequest(ref, -1, batch(t, nil, "v")), 9)
	if p := fetched(c.ask(fetchRequest(ref, 7), 12)); p.ErrorCode != 1 || p.HighWatermark != -1 || p.LastStableOffset != -1 || p.LogStartOffset != -1 {
		t.Errorf("beyond the end: %+v", p)
	}
	r := fetchRequest(ref, 0)
	r.SessionEpoch = 3
	if got := c.ask(r, 12).(*kmsg.FetchResponse); got.ErrorCode != 70 || len(got.Topics) != 0 {
		t.Errorf("an unknown session: %+v", got)
	}
	d := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, "t", []string{}
	d.Resources = append(d.Resources, res)
	if got := c.ask(d, 4).(*kmsg.DescribeConfigsResponse).Resources[0].Configs; len(got) == 0 {
		t.Error("an empty list of names returns no configs, want all")
	}
	topic(t, s.b, "u", broker.TopicSpec{})
	p := kmsg.NewPtrDescribeTopicPartitionsRequest()
	p.ResponsePartitionLimit = 0
	if got := c.ask(p, 0).(*kmsg.DescribeTopicPartitionsResponse); len(got.Topics) != 1 || got.NextCursor == nil || got.NextCursor.Topic != "u" {
		t.Errorf("a limit of 0 must mean 1: %+v", got)
	}
}
