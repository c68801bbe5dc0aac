package kafka_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/test/must"
)

// TestListOffsetsV0: librdkafka up to 1.6 asks for start and end with v0, and reads nothing without
// an answer.
func TestListOffsetsV0(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	for range 3 { // each of three records with the timestamps 1000, 1001 and 1002
		if p := produced(c.ask(produceRequest(ref, -1, batch(t, nil, "a", "b", "c")), 8)); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	must.Get(s.b.Trim(t.Context(), "t", 0, 3))(t)
	for _, w := range []struct {
		name      string
		partition int32
		at        int64
		most      int32
		code      int16
		want      []int64
	}{
		{"t", 0, -2, 1, 0, []int64{3}},
		{"t", 0, -1, 1, 0, []int64{9}},
		{"t", 0, -1, 10, 0, []int64{9}},
		{"t", 0, 1001, 1, 0, []int64{4}},
		{"t", 0, 2000, 1, 0, []int64{9}},
		{"t", 0, -1, 0, 0, nil},
		{"t", 1, -1, 1, 3, nil},
		{"unknown", 0, -1, 1, 3, nil},
		{"t", 0, -3, 1, 35, nil},
	} {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.MaxNumOffsets = w.partition, w.at, w.most
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID = -1
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: w.name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		got := c.ask(r, 0).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if got.ErrorCode != w.code || !slices.Equal(got.OldStyleOffsets, w.want) {
			t.Errorf("%+v: %+v", w, got)
		}
	}
}

// TestVersionsThatLibrdkafkaLooksFor: librdkafka enables features such as groups or zstd only if a
// broker supports certain old versions of requests, whatever versions it then uses.
func TestVersionsThatLibrdkafkaLooksFor(t *testing.T) {
	there := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range unauthenticated(t, &served{addr: newTestSite(t).addr}).ask(kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse).ApiKeys {
		there[k.ApiKey] = k
	}
	for what, versions := range map[string]map[kmsg.Key]int16{
		"records with headers": {kmsg.Produce: 3, kmsg.Fetch: 4},
		"zstd":                 {kmsg.Produce: 7, kmsg.Fetch: 10},
		"lz4":                  {kmsg.FindCoordinator: 0},
		"versions":             {kmsg.ApiVersions: 0},
		"groups": {
			kmsg.FindCoordinator: 0, kmsg.OffsetCommit: 1, kmsg.OffsetFetch: 1, kmsg.JoinGroup: 0, kmsg.SyncGroup: 0, kmsg.Heartbeat: 0,
			kmsg.LeaveGroup: 0,
		},
		"offsets by time":      {kmsg.ListOffsets: 1},
		"offsets, up to 1.6":   {kmsg.ListOffsets: 0},
		"idempotent producers": {kmsg.InitProducerID: 0},
		"SASL":                 {kmsg.SASLHandshake: 0},
		"SASL with heads":      {kmsg.SASLHandshake: 1, kmsg.SASLAuthenticate: 0},
	} {
		for key, version := range versions {
			if k, ok := there[key.Int16()]; !ok || k.MinVersion > version || k.MaxVersion < version {
				t.Errorf("%s needs %s v%d, served are v%d to v%d", what, key.Name(), version, k.MinVersion, k.MaxVersion)
			}
		}
	}
}
