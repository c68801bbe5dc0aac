package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// CreateTopics (19), v2 to v7: creates topics independently, one after the other. -1 partitions
// means broker.Options.DefaultPartitions. The store replicates: any replication factor is accepted,
// and 1 is reported. configs.go lists the supported configs; configs without a meaning here are
// ignored, others refused.
var _ = register(api{
	key: kmsg.CreateTopics, min: 2, max: 7, leader: true,
	shape: wire.Shape{Flexible: 5, Fields: []wire.Field{
		wire.Array(
			wire.Text, wire.Int32, wire.Int16,
			wire.Array(wire.Int32, wire.List(wire.Int32)),
			wire.Array(wire.Text, wire.Text),
		),
		wire.Int32, wire.Bool,
	}},
	begin: serving((*call).createTopics),
})

func (c *call) createTopics(ctx context.Context, r *kmsg.CreateTopicsRequest) (*kmsg.CreateTopicsResponse, error) {
	resp := kmsg.NewPtrCreateTopicsResponse()
	ctx, cancel := c.waitFor(ctx, r.TimeoutMillis)
	defer cancel()
	count := map[string]int{}
	for i := range r.Topics {
		count[r.Topics[i].Topic]++
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = t.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		if count[t.Topic] < 0 {
			continue
		}
		if count[t.Topic] > 1 {
			count[t.Topic] = -1 // answered once
			out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, text(errors.New("the request names the topic twice"))
		} else {
			c.createTopic(ctx, t, r.ValidateOnly, &out)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) createTopic(ctx context.Context, t *kmsg.CreateTopicsRequestTopic, dry bool, out *kmsg.CreateTopicsResponseTopic) {
	fail := func(code int16, err error) { out.ErrorCode, out.ErrorMessage = code, text(err) }
	spec := broker.TopicSpec{Partitions: int(t.NumPartitions), Settings: map[string]string{}}
	ctx, code := c.createAs(ctx, t.Topic)
	if code != none {
		fail(code, errDenied)
		return
	}
	if err := state.CheckTopicName(t.Topic); err != nil {
		fail(kerr.InvalidTopicException.Code, err)
		return
	}
	if _, there := c.b.TopicNamed(t.Topic); there {
		fail(kerr.TopicAlreadyExists.Code, state.ErrTopicExists)
		return
	}
	switch {
	case len(t.ReplicaAssignment) > 0 && (t.NumPartitions != -1 || t.ReplicationFactor != -1):
		fail(kerr.InvalidRequest.Code, errors.New("a replica assignment excludes a number of partitions and a replication factor"))
		return
	case len(t.ReplicaAssignment) > 0:
		spec.Partitions = len(t.ReplicaAssignment)
	case t.NumPartitions == -1:
		spec.Partitions = c.b.DefaultPartitions()
	}
	if spec.Partitions < 1 || spec.Partitions > state.PartitionsMax {
		fail(kerr.InvalidPartitions.Code, fmt.Errorf("%d partitions: want 1 to %d", spec.Partitions, state.PartitionsMax))
		return
	}
	if len(t.ReplicaAssignment) == 0 && t.ReplicationFactor != -1 && t.ReplicationFactor < 1 {
		fail(kerr.InvalidReplicationFactor.Code, fmt.Errorf("replication factor %d: want 1 or more", t.ReplicationFactor))
		return
	}
	for _, g := range t.Configs {
		name, value, err := settingOf(g.Name, g.Value)
		if err != nil {
			fail(kerr.InvalidConfig.Code, err)
			return
		}
		if name != "" {
			spec.Settings[name] = value
		}
	}
	settings, err := state.CheckSettings(spec.Settings)
	if err != nil {
		fail(kerr.InvalidConfig.Code, err)
		return
	}
	if !dry {
		info, err := c.b.CreateTopic(ctx, t.Topic, spec)
		if err != nil {
			fail(TopicCode(err), err)
			return
		}
		out.TopicID = info.ID
	}
	if !c.may(access.DescribeConfigs, access.Topic, t.Topic) { // the creation itself was allowed
		out.ConfigErrorCode = denials[access.Topic].Code
		return
	}
	out.NumPartitions, out.ReplicationFactor = int32(spec.Partitions), 1
	out.Configs = createdConfigs(settings)
}

func createdConfigs(settings map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	list := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(configs))
	for i := range configs {
		g := kmsg.NewCreateTopicsResponseTopicConfig()
		value := configs[i].value(settings)
		_, given := settings[configs[i].setting]
		g.Name, g.Value, g.Source = configs[i].name, &value, int8(sourceOf(given))
		list = append(list, g)
	}
	return list
}

// waitFor bounds a change of topics by the client's timeout. A change that has begun continues if
// the client leaves.
func (s *Server) waitFor(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.within(millis, commitTime))
}

// createAs is as for the creation of a topic: Create on the topic, or on the cluster.
func (c *call) createAs(ctx context.Context, topic string) (context.Context, int16) {
	if c.may(access.Create, access.Cluster, access.ClusterName) {
		return c.as(ctx, access.Create, access.Cluster, access.ClusterName)
	}
	return c.as(ctx, access.Create, access.Topic, topic)
}
