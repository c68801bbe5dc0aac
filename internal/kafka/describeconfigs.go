package kafka

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/kafka/wire"
	"github.com/sebbroker/seb/internal/state"
)

// DescribeConfigs (32), v1 to v4: a topic's settings under Kafka's names (configs.go); of the broker, which is set by flags,
// nothing. Other resources are refused. No documentation; of synonyms only the value itself.
var describeConfigsAPI = api{
	key: kmsg.DescribeConfigs, min: 1, max: 4,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Array(wire.Int8, wire.Text, wire.List(wire.Text)), wire.Bool, wire.Bool.Since(3),
	}},
	begin: serving((*call).describeConfigs),
}

func (c *call) describeConfigs(ctx context.Context, r *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	// Each resource is answered with all settings.
	if err := c.frame.Charge(int64(len(r.Resources)*len(configs)) * partitionBytes); err != nil {
		return nil, err
	}
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		switch ask.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			if err := state.CheckTopicName(ask.ResourceName); err != nil {
				out.ErrorCode, out.ErrorMessage = invalidTopic, text(err)
				break
			}
			info, ok := c.b.TopicNamed(ask.ResourceName)
			if !ok {
				out.ErrorCode, out.ErrorMessage = topicCode(broker.ErrUnknownTopic), text(broker.ErrUnknownTopic)
				break
			}
			out.Configs = topicConfigs(info.Settings, ask.ConfigNames, r.IncludeSynonyms)
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
			if ask.ResourceName != "" && ask.ResourceName != strconv.Itoa(nodeID) {
				out.ErrorCode, out.ErrorMessage = invalidRequest, text(errors.New("there is no broker but 1"))
			}
		default:
			out.ErrorCode, out.ErrorMessage = invalidRequest, text(errors.New("only topics and the broker have configs"))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// topicConfigs lists the named configs of a topic with these settings, all if there are no names.
func topicConfigs(settings map[string]string, names []string, synonyms bool) []kmsg.DescribeConfigsResponseResourceConfig {
	resolved := state.Resolve(settings)
	list := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(configs))
	for i := range configs {
		g := &configs[i]
		if len(names) > 0 && !slices.Contains(names, g.name) {
			continue
		}
		out := kmsg.NewDescribeConfigsResponseResourceConfig()
		value := g.show(&resolved)
		_, given := settings[g.ours]
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

// sourceOf is where a value comes from: given for the topic, or the default.
func sourceOf(given bool) kmsg.ConfigSource {
	if given {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}
