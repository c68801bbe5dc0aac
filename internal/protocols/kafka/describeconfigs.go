package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeConfigs (32), v1 to v4: topic settings under Kafka's names (configs.go), read-only broker
// configs that tools look for, and group configs of the consumer protocol. Other resources are
// refused. There is no documentation; synonyms contain only the value itself.
var _ = register(api{
	key: kmsg.DescribeConfigs, min: 1, max: 4,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Array(wire.Int8, wire.Text, wire.List(wire.Text)), wire.Bool, wire.Bool.Since(3),
	}},
	begin: serving((*call).describeConfigs),
})

func (c *call) describeConfigs(ctx context.Context, r *kmsg.DescribeConfigsRequest) (*kmsg.DescribeConfigsResponse, error) {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	ofBroker := c.brokerConfigs()
	// The answer for each resource has all settings.
	if err := c.frame.Charge(int64(len(r.Resources)*max(len(configs), len(ofBroker))) * partitionBytes); err != nil {
		return nil, err
	}
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		if out.ErrorCode = c.configDenied(access.DescribeConfigs, ask.ResourceType, ask.ResourceName); out.ErrorCode != none {
			out.ErrorMessage = text(errDenied)
			resp.Resources = append(resp.Resources, out)
			continue
		}
		switch ask.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			if err := state.CheckTopicName(ask.ResourceName); err != nil {
				out.ErrorCode, out.ErrorMessage = kerr.InvalidTopicException.Code, text(err)
				break
			}
			info, ok := c.b.TopicNamed(ask.ResourceName)
			if !ok {
				out.ErrorCode, out.ErrorMessage = TopicCode(state.ErrUnknownTopic), text(state.ErrUnknownTopic)
				break
			}
			out.Configs = topicConfigs(info.Settings, ask.ConfigNames, r.IncludeSynonyms)
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			if ask.ResourceName != "" && ask.ResourceName != strconv.Itoa(int(c.nodeID())) {
				out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, text(fmt.Errorf("unknown broker %.100q, want %d", ask.ResourceName, c.nodeID()))
			} else if ask.ResourceType == kmsg.ConfigResourceTypeBroker && ask.ResourceName != "" {
				out.Configs = fixedConfigs(ofBroker, kmsg.ConfigSourceStaticBrokerConfig, ask.ConfigNames, r.IncludeSynonyms)
			}
		case kmsg.ConfigResourceTypeGroupConfig:
			if ask.ResourceName == "" {
				out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, text(errors.New("empty group name"))
				break
			}
			out.Configs = fixedConfigs(groupConfigs, kmsg.ConfigSourceDefaultConfig, ask.ConfigNames, r.IncludeSynonyms)
		default:
			out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, text(errors.New("unsupported resource type: want a topic, the broker or a group"))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// topicConfigs lists the named configs of a topic with these settings; all if names is empty.
func topicConfigs(settings map[string]string, names []string, synonyms bool) []kmsg.DescribeConfigsResponseResourceConfig {
	list := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(configs))
	for i := range configs {
		g := &configs[i]
		if len(names) > 0 && !slices.Contains(names, g.name) {
			continue
		}
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		value := g.value(settings)
		_, given := settings[g.setting]
		out.Name, out.Value, out.IsDefault, out.Source = g.name, &value, !given, sourceOf(given)
		out.ConfigType = kmsg.ConfigType(g.kind)
		if synonyms {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = g.name, &value, out.Source
			out.ConfigSynonyms = append(out.ConfigSynonyms, s)
		}
		list = append(list, out)
	}
	return list
}

// fixed is a read-only config.
type fixed struct {
	name  string
	kind  int8
	value string
}

// groupConfigs are the timeouts of the consumer protocol.
var groupConfigs = []fixed{{"consumer.heartbeat.interval.ms", kindInt, "5000"}, {"consumer.session.timeout.ms", kindInt, "45000"}}

// brokerConfigs are the configs of Kafka brokers that tools look for, with Seb's values. Those of
// topics are the defaults.
func (s *session) brokerConfigs() []fixed {
	topics, listener, address := state.Resolve(nil), "SASL_PLAINTEXT", s.host()
	if s.secured != nil {
		listener = "SASL_SSL"
	}
	return []fixed{
		{"advertised.listeners", kindList, fmt.Sprintf("%s://%s", listener, net.JoinHostPort(address.host, strconv.Itoa(int(address.port))))},
		{"auto.create.topics.enable", kindBool, strconv.FormatBool(s.b.AutoCreates())},
		{"broker.id", kindInt, strconv.Itoa(int(s.nodeID()))},
		{"compression.type", kindString, "producer"},
		{"default.replication.factor", kindInt, "1"},
		{"delete.topic.enable", kindBool, "true"},
		{"group.initial.rebalance.delay.ms", kindInt, "3000"},
		{"group.max.session.timeout.ms", kindInt, "1800000"},
		{"group.max.size", kindInt, "1000"},
		{"group.min.session.timeout.ms", kindInt, "6000"},
		{"log.cleanup.policy", kindList, topics.CleanupPolicy},
		{"log.retention.bytes", kindLong, strconv.FormatInt(topics.RetentionBytes, 10)},
		{"log.retention.ms", kindLong, configNamed(configs, "retention.ms").value(nil)},
		{"message.max.bytes", kindInt, strconv.Itoa(topics.MaxBatchBytes)},
		{"min.insync.replicas", kindInt, "1"},
		{"node.id", kindInt, strconv.Itoa(int(s.nodeID()))},
		{"num.partitions", kindInt, strconv.Itoa(s.b.DefaultPartitions())},
		{"offsets.topic.replication.factor", kindInt, "1"},
		{"producer.id.expiration.ms", kindInt, strconv.FormatInt(s.b.ProducerExpiration().Milliseconds(), 10)},
		{"unclean.leader.election.enable", kindBool, "false"},
	}
}

// fixedConfigs lists the named configs of all; every one if names is empty.
func fixedConfigs(all []fixed, source kmsg.ConfigSource, names []string, synonyms bool) []kmsg.DescribeConfigsResponseResourceConfig {
	list := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(all))
	for _, g := range all {
		if len(names) > 0 && !slices.Contains(names, g.name) {
			continue
		}
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		out.Name, out.Value, out.ReadOnly, out.Source, out.ConfigType = g.name, &g.value, true, source, kmsg.ConfigType(g.kind)
		out.IsDefault = source == kmsg.ConfigSourceDefaultConfig
		if synonyms {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = g.name, &g.value, source
			out.ConfigSynonyms = append(out.ConfigSynonyms, s)
		}
		list = append(list, out)
	}
	return list
}

// sourceOf is the source of a value: set for the topic, or the default.
func sourceOf(given bool) kmsg.ConfigSource {
	if given {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}

// configDenied is the code of a request about configs without the right to it, or none.
func (c *call) configDenied(o access.Operation, kind kmsg.ConfigResourceType, name string) int16 {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return c.denied(o, access.Topic, name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return c.denied(o, access.Group, name)
	}
	return c.clusterDenied(o)
}
