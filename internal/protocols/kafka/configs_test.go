package kafka_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestAlterConfigs: single settings are set, reset and appended to; all settings are replaced; an
// invalid change has no effect.
func TestAlterConfigs(t *testing.T) {
	s := memory(t)
	topic(t, s.b, "t", broker.TopicSpec{Settings: map[string]string{"retention-time": "1h"}})
	a, ctx := admin(t, s), t.Context()
	now := func() string {
		info := must.Get(s.b.Topic(ctx, "t", false))(t)
		return fmt.Sprint(info.Settings)
	}
	for i, c := range []struct {
		change []kadm.AlterConfig
		all    bool // AlterConfigs instead of IncrementalAlterConfigs
		dry    bool
		err    error
		want   string
	}{
		{[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: str("2000")}}, false, false, nil, "map[max-batch-bytes:2000 retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: str("compact")}}, false, false, nil, "map[cleanup-policy:compact,delete max-batch-bytes:2000 retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: str("compact")}}, false, false, nil, "map[cleanup-policy:delete max-batch-bytes:2000 retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: str("delete")}}, false, false, kerr.InvalidConfig, "map[cleanup-policy:delete max-batch-bytes:2000 retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "max.message.bytes"}, {Op: kadm.DeleteConfig, Name: "cleanup.policy"}, {Op: kadm.DeleteConfig, Name: "segment.ms"}}, false, false, nil, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: str("-1")}}, false, true, nil, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: str("no")}}, false, true, kerr.InvalidConfig, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "compression.type", Value: str("no")}}, false, false, kerr.InvalidConfig, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.AppendConfig, Name: "retention.ms", Value: str("1")}}, false, false, kerr.InvalidConfig, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{
			{Op: kadm.SetConfig, Name: "compression.zstd.level", Value: str("3")},
			{Op: kadm.SetConfig, Name: "local.retention.ms", Value: str("-2")},
			{Op: kadm.SetConfig, Name: "remote.storage.enable", Value: str("false")},
			{Op: kadm.DeleteConfig, Name: "remote.log.copy.disable"},
			{Op: kadm.DeleteConfig, Name: "no.such"},
		}, false, false, nil, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: str("")}}, false, false, kerr.InvalidConfig, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Name: "compression.type", Value: str("")}}, true, false, kerr.InvalidConfig, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "no.such", Value: str("1")}}, false, false, kerr.InvalidConfig, "map[retention-time:1h0m0s]"},
		{[]kadm.AlterConfig{{Name: "compression.type", Value: str("zstd")}, {Name: "segment.bytes", Value: str("14")}}, true, false, nil, "map[compression:zstd]"},
	} {
		var got kadm.AlterConfigsResponses
		var err error
		switch {
		case c.all:
			got, err = a.AlterTopicConfigsState(ctx, c.change, "t")
		case c.dry:
			got, err = a.ValidateAlterTopicConfigs(ctx, c.change, "t")
		default:
			got, err = a.AlterTopicConfigs(ctx, c.change, "t")
		}
		if err != nil || len(got) != 1 || !errors.Is(got[0].Err, c.err) || now() != c.want {
			t.Errorf("%d: %+v %v, then %s, want %s", i, got, err, now(), c.want)
		}
	}
	if got, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: str("5000")}}, "no"); err != nil || !errors.Is(got[0].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := a.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Name: "log.dir", Value: str("/")}}, 1); err != nil || !errors.Is(got[0].Err, kerr.InvalidRequest) {
		t.Errorf("%+v %v", got, err)
	}
}

// TestLogDirs: the bucket is one directory with the requested partitions.
func TestLogDirs(t *testing.T) {
	s := memory(t)
	ref := topic(t, s.b, "t", broker.TopicSpec{Partitions: 3})
	topic(t, s.b, "u", broker.TopicSpec{})
	size := int64(len(store(t, s, ref, 1, batch(t, nil, "a"))))
	a := admin(t, s)
	all, err := a.DescribeAllLogDirs(t.Context(), nil)
	if err != nil || len(all) != 1 || len(all[1]) != 1 {
		t.Fatalf("%+v %v", all, err)
	}
	n := 0
	all[1].EachPartition(func(p kadm.DescribedLogDirPartition) {
		if n++; p.Topic == "t" && p.Partition == 1 && p.Size != size {
			t.Errorf("%+v", p)
		}
	})
	check.Equalf(t, n, 4, "partitions")
	var some kadm.TopicsSet
	some.Add("t", 1)
	one, err := a.DescribeAllLogDirs(t.Context(), some)
	n = 0
	one[1].EachPartition(func(kadm.DescribedLogDirPartition) { n++ })
	if err != nil || n != 1 {
		t.Errorf("%d partitions, %v", n, err)
	}
}

// TestTopicPages: the pages contain each partition once, sorted by topic, and the unknown topic.
func TestTopicPages(t *testing.T) {
	s := memory(t)
	for name, n := range map[string]int{"c": 5, "a": 3, "b": 1} {
		topic(t, s.b, name, broker.TopicSpec{Partitions: n})
	}
	c := dial(t, s)
	for limit := int32(1); limit < 12; limit++ {
		for _, names := range [][]string{nil, {"c", "none", "a", "b", "a"}} {
			r := kmsg.NewPtrDescribeTopicPartitionsRequest()
			r.ResponsePartitionLimit = limit
			for _, n := range names {
				top := kmsg.NewDescribeTopicPartitionsRequestTopic()
				top.Topic = n
				r.Topics = append(r.Topics, top)
			}
			got := ""
			for pages := 0; pages < 20; pages++ {
				resp := c.ask(r, 0).(*kmsg.DescribeTopicPartitionsResponse)
				n := int32(0)
				for _, top := range resp.Topics {
					for _, p := range top.Partitions {
						got += fmt.Sprint(*top.Topic, p.Partition, " ")
						if n++; p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
							t.Fatalf("null list: %+v", p)
						}
					}
					if top.ErrorCode != 0 {
						got += *top.Topic + " "
					}
				}
				if resp.NextCursor == nil {
					break
				}
				must.Equalf(t, n, limit, "a page of")
				next := kmsg.NewDescribeTopicPartitionsRequestCursor()
				next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
				r.Cursor = &next
			}
			want := "a0 a1 a2 b0 c0 c1 c2 c3 c4 "
			if names != nil {
				want += "none "
			}
			check.Equalf(t, got, want, "by %d", limit)
		}
	}
}
