package kafka_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestUnsupportedFeatures: requests about reassignments and elections are answered as by a Kafka broker
// that does not use them.
func TestUnsupportedFeatures(t *testing.T) {
	s := memory(t)
	topic(t, s.b, "t", broker.TopicSpec{Partitions: 2})
	a, ctx := admin(t, s), t.Context()
	if got, err := a.DescribeUserSCRAMs(ctx); err != nil || len(got) != 0 {
		t.Errorf("DescribeUserScramCredentials: %+v %v", got, err)
	}
	if got, err := a.DescribeUserSCRAMs(ctx, "x"); err != nil || !errors.Is(got["x"].Err, kerr.ResourceNotFound) {
		t.Errorf("DescribeUserScramCredentials of x: %+v %v", got, err)
	}
	if got, err := a.ListPartitionReassignments(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("ListPartitionReassignments: %+v %v", got, err)
	}
	if got, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, nil); err != nil || len(got) != 0 {
		t.Errorf("ElectLeaders: %+v %v", got, err)
	}
	set := kadm.TopicsSet{}
	set.Add("t", 0, 1, 2)
	elected, err := a.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	for p, want := range []error{kerr.ElectionNotNeeded, kerr.ElectionNotNeeded, kerr.UnknownTopicOrPartition} {
		if got := elected["t"][int32(p)]; err != nil || !errors.Is(got.Err, want) {
			t.Errorf("ElectLeaders of partition %d: %+v %v, want %v", p, got, err, want)
		}
	}
}

// TestAuthorizedOperations: a client that asks gets all operations, as from a Kafka broker without
// an authorizer.
func TestAuthorizedOperations(t *testing.T) {
	s := memory(t)
	topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	for _, ask := range []bool{true, false} {
		ofTopic, ofCluster := int32(-1<<31), int32(-1<<31)
		if ask {
			ofTopic, ofCluster = 3576, 8096
		}
		r := kmsg.NewPtrMetadataRequest()
		r.IncludeTopicAuthorizedOperations, r.IncludeClusterAuthorizedOperations = ask, ask
		m := c.ask(r, 9).(*kmsg.MetadataResponse)
		if m.AuthorizedOperations != ofCluster || m.Topics[0].AuthorizedOperations != ofTopic {
			t.Errorf("Metadata: %d, %d of a topic, want %d, %d", m.AuthorizedOperations, m.Topics[0].AuthorizedOperations, ofCluster, ofTopic)
		}
		d := kmsg.NewPtrDescribeClusterRequest()
		d.IncludeClusterAuthorizedOperations = ask
		check.Equalf(t, c.ask(d, 1).(*kmsg.DescribeClusterResponse).ClusterAuthorizedOperations, ofCluster, "DescribeCluster")
	}
	got := c.ask(kmsg.NewPtrDescribeTopicPartitionsRequest(), 0).(*kmsg.DescribeTopicPartitionsResponse)
	check.Equalf(t, got.Topics[0].AuthorizedOperations, 3576, "DescribeTopicPartitions: %+v", got)
}

// TestConfigResources: the list has the topics and the broker, filtered by type.
func TestConfigResources(t *testing.T) {
	s := memory(t)
	topic(t, s.b, "t", broker.TopicSpec{})
	c := dial(t, s)
	for _, x := range []struct {
		version int16
		types   []int8
		want    string
	}{
		{0, nil, "0 []"},
		{1, nil, "0 [8 1 4 1 2 t]"},
		{1, []int8{2}, "0 [2 t]"},
		{1, []int8{4, 32, 16}, "0 [4 1]"},
		{1, []int8{2, 3}, "35 []"},
	} {
		r := kmsg.NewPtrListConfigResourcesRequest()
		r.ResourceTypes = x.types
		resp := c.ask(r, x.version).(*kmsg.ListConfigResourcesResponse)
		list := []string{}
		for _, g := range resp.ConfigResources {
			list = append(list, fmt.Sprintf("%d %s", g.Type, g.Name))
		}
		check.Equalf(t, fmt.Sprint(resp.ErrorCode, " ", list), x.want, "v%d of %v", x.version, x.types)
	}
}

// TestFixedConfigs: the configs of the broker and of groups are read-only.
func TestFixedConfigs(t *testing.T) {
	s := serve(t, openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.DefaultPartitions = 4 }), kafka.Options{})
	a, ctx := admin(t, s), t.Context()
	got, err := a.DescribeBrokerConfigs(ctx, 1)
	if err != nil || len(got) != 1 || got[0].Err != nil {
		t.Fatalf("%+v %v", got, err)
	}
	want := map[string]string{
		"num.partitions": "4", "auto.create.topics.enable": "true", "default.replication.factor": "1", "message.max.bytes": "1048588",
		"log.retention.ms": "-1", "node.id": "1", "advertised.listeners": "SASL_PLAINTEXT://" + s.addr,
	}
	for _, c := range got[0].Configs {
		if value, ok := want[c.Key]; ok && c.MaybeValue() != value {
			t.Errorf("%s is %s, want %s", c.Key, c.MaybeValue(), value)
		}
		delete(want, c.Key)
	}
	if len(want) > 0 {
		t.Errorf("missing configs: %v", want)
	}
	ask := func(kind kmsg.ConfigResourceType, name string, names ...string) kmsg.DescribeConfigsResponseResource {
		r := kmsg.NewPtrDescribeConfigsRequest()
		r.IncludeSynonyms = true
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: names}}
		return dial(t, s).ask(r, 4).(*kmsg.DescribeConfigsResponse).Resources[0]
	}
	one := ask(kmsg.ConfigResourceTypeBroker, "1", "node.id", "none")
	if len(one.Configs) != 1 || !one.Configs[0].ReadOnly || len(one.Configs[0].ConfigSynonyms) != 1 {
		t.Errorf("%+v", one)
	}
	if all := ask(kmsg.ConfigResourceTypeBroker, ""); all.ErrorCode != 0 || len(all.Configs) != 0 {
		t.Errorf("%+v", all)
	}
	if other := ask(kmsg.ConfigResourceTypeBroker, "2"); other.ErrorCode != 42 {
		t.Errorf("%+v", other)
	}
	group := ask(kmsg.ConfigResourceTypeGroupConfig, "g")
	if group.ErrorCode != 0 || len(group.Configs) != 2 || *group.Configs[1].Value != "45000" || !group.Configs[1].IsDefault && group.Configs[1].Source != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("%+v", group)
	}
	if unnamed := ask(kmsg.ConfigResourceTypeGroupConfig, ""); unnamed.ErrorCode != 42 {
		t.Errorf("%+v", unnamed)
	}
	if metrics := ask(kmsg.ConfigResourceTypeClientMetrics, "m"); metrics.ErrorCode != 42 {
		t.Errorf("%+v", metrics)
	}
}

// TestDefaultPartitions: a topic without a number of partitions gets the broker's default.
func TestDefaultPartitions(t *testing.T) {
	s := serve(t, openBroker(t, objstore.NewMemory(), func(o *broker.Options) { o.DefaultPartitions = 4 }), kafka.Options{})
	a, ctx := admin(t, s), t.Context()
	for name, partitions := range map[string]int32{"left": -1, "said": 2} {
		must.Get(a.CreateTopic(ctx, partitions, -1, nil, name))(t)
	}
	r := kmsg.NewPtrMetadataRequest()
	r.AllowAutoTopicCreation = true
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: str("asked")}}
	dial(t, s).ask(r, 9)
	must.NoError(t, s.b.EnsureTopic(ctx, "written"))
	for name, want := range map[string]int{"left": 4, "said": 2, "asked": 4, "written": 4} {
		if n, err := s.b.Partitions(name); n != want || err != nil {
			t.Errorf("%s has %d partitions, %v, want %d", name, n, err, want)
		}
	}
}
