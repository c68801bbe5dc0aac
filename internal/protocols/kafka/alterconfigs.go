package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// AlterConfigs (33), v0 to v2: sets a topic's settings (configs.go); settings that the request does
// not name get their default. Broker configs cannot be changed, because flags set them.
var _ = register(api{
	key: kmsg.AlterConfigs, min: 0, max: 2, leader: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{
		wire.Array(wire.Int8, wire.Text, wire.Array(wire.Text, wire.Text)), wire.Bool,
	}},
	begin: serving((*call).alterConfigs),
})

// IncrementalAlterConfigs (44), v0 and v1: sets single settings of a topic or resets them to their
// default. cleanup.policy is a list, and takes APPEND and SUBTRACT.
var _ = register(api{
	key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, leader: true,
	shape: wire.Shape{Flexible: 1, Fields: []wire.Field{
		wire.Array(wire.Int8, wire.Text, wire.Array(wire.Text, wire.Int8, wire.Text)), wire.Bool,
	}},
	begin: serving((*call).incrementalAlterConfigs),
})

func (c *call) alterConfigs(ctx context.Context, r *kmsg.AlterConfigsRequest) (*kmsg.AlterConfigsResponse, error) {
	resp := kmsg.NewPtrAlterConfigsResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		if out.ErrorCode = c.configDenied(access.AlterConfigs, ask.ResourceType, ask.ResourceName); out.ErrorCode != none {
			out.ErrorMessage = text(errDenied)
			resp.Resources = append(resp.Resources, out)
			continue
		}
		change := map[string]string{}
		for j := range configs {
			change[configs[j].setting] = "" // the default
		}
		names := make([]string, len(ask.Configs))
		for j := range ask.Configs {
			names[j] = ask.Configs[j].Name
		}
		err := c.alterable(ask.ResourceType, ask.ResourceName, names)
		if err == nil && slices.ContainsFunc(ask.Configs, func(g kmsg.AlterConfigsRequestResourceConfig) bool { return g.Value == nil }) {
			err = errNoValue
		}
		for j := range ask.Configs {
			name, value, bad := settingOf(ask.Configs[j].Name, ask.Configs[j].Value)
			if err = errors.Join(err, bad); name != "" {
				change[name] = value
			}
		}
		out.ErrorCode, out.ErrorMessage = c.changeConfigs(ctx, ask.ResourceName, change, r.ValidateOnly, err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (c *call) incrementalAlterConfigs(ctx context.Context, r *kmsg.IncrementalAlterConfigsRequest) (*kmsg.IncrementalAlterConfigsResponse, error) {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	for i := range r.Resources {
		ask := &r.Resources[i]
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		if out.ErrorCode = c.configDenied(access.AlterConfigs, ask.ResourceType, ask.ResourceName); out.ErrorCode != none {
			out.ErrorMessage = text(errDenied)
			resp.Resources = append(resp.Resources, out)
			continue
		}
		names := make([]string, len(ask.Configs))
		for j := range ask.Configs {
			names[j] = ask.Configs[j].Name
		}
		var change map[string]string
		err := c.alterable(ask.ResourceType, ask.ResourceName, names)
		if err == nil && slices.ContainsFunc(ask.Configs, func(g kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
			return g.Value == nil && g.Op != kmsg.IncrementalAlterConfigOpDelete
		}) {
			err = errNoValue
		}
		if err == nil {
			change, err = c.increments(ctx, ask)
		}
		out.ErrorCode, out.ErrorMessage = c.changeConfigs(ctx, ask.ResourceName, change, r.ValidateOnly, err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

var (
	errNoTopic         = errors.New("only topic configs can be changed; flags set the broker configs")
	errNoValue         = errors.New("config without a value")
	errDuplicateConfig = errors.New("duplicate config name")
)

// alterable checks that the configs of these names can be changed, whatever their new values.
func (c *call) alterable(kind kmsg.ConfigResourceType, topic string, names []string) error {
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) < len(names) {
		return errDuplicateConfig
	}
	if kind != kmsg.ConfigResourceTypeTopic {
		return errNoTopic
	}
	if err := state.CheckTopicName(topic); err != nil {
		return &state.InvalidError{Field: "topic-name", Reason: err.Error()}
	}
	if _, ok := c.b.TopicNamed(topic); !ok {
		return state.ErrUnknownTopic
	}
	return nil
}

// increments computes the new values of the settings that a request names.
func (c *call) increments(ctx context.Context, ask *kmsg.IncrementalAlterConfigsRequestResource) (map[string]string, error) {
	change := map[string]string{}
	var errs []error
	for i := range ask.Configs {
		g := &ask.Configs[i]
		value := g.Value
		switch g.Op {
		case kmsg.IncrementalAlterConfigOpDelete:
			if of := configNamed(configs, g.Name); of != nil {
				change[of.setting] = ""
			}
			continue // an unknown config has nothing to reset
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			policies, err := c.policies(ctx, ask.ResourceName, g)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			value = &policies
		case kmsg.IncrementalAlterConfigOpSet:
		default:
			errs = append(errs, fmt.Errorf("config %.100s: unknown operation %d", g.Name, g.Op))
			continue
		}
		name, setting, err := settingOf(g.Name, value)
		if errs = append(errs, err); name != "" {
			change[name] = setting
		}
	}
	return change, errors.Join(errs...)
}

// policies applies an APPEND or SUBTRACT to cleanup.policy.
func (c *call) policies(ctx context.Context, topic string, g *kmsg.IncrementalAlterConfigsRequestResourceConfig) (string, error) {
	if g.Name != "cleanup.policy" || g.Value == nil {
		return "", fmt.Errorf("config %.100s is not a list", g.Name)
	}
	info, ok := c.b.TopicNamed(topic)
	if !ok {
		return "", state.ErrUnknownTopic
	}
	has := map[string]bool{}
	for _, p := range strings.Split(state.Resolve(info.Settings).CleanupPolicy, ",") {
		has[p] = true
	}
	for _, p := range strings.Split(strings.ReplaceAll(*g.Value, " ", ""), ",") {
		if p != "compact" && p != "delete" {
			return "", fmt.Errorf("config cleanup.policy: invalid policy %.100q, want compact or delete", p)
		}
		has[p] = g.Op == kmsg.IncrementalAlterConfigOpAppend
	}
	switch {
	case has["compact"] && has["delete"]:
		return "compact,delete", nil
	case has["compact"]:
		return "compact", nil
	case has["delete"]:
		return "delete", nil
	}
	return "", errors.New("config cleanup.policy: no policy is left")
}

// changeConfigs merges settings into a topic's, unless err is set. "" means the default.
func (c *call) changeConfigs(ctx context.Context, topic string, change map[string]string, dry bool, err error) (int16, *string) {
	var invalid *state.InvalidError
	switch {
	case errors.Is(err, errNoTopic), errors.Is(err, errDuplicateConfig), errors.Is(err, errNoValue):
		return kerr.InvalidRequest.Code, text(err)
	case errors.Is(err, state.ErrUnknownTopic), errors.As(err, &invalid):
		return TopicCode(err), text(err)
	case err != nil:
		return kerr.InvalidConfig.Code, text(err)
	}
	if !dry {
		ctx, code := c.as(ctx, access.AlterConfigs, access.Topic, topic)
		if code != none {
			return code, text(errDenied)
		}
		_, err = c.b.UpdateTopic(ctx, topic, broker.TopicSpec{Settings: change})
		return TopicCode(err), text(err)
	}
	set := map[string]string{}
	for k, v := range change {
		if v != "" {
			set[k] = v
		}
	}
	if _, err = state.CheckSettings(set); err != nil {
		return kerr.InvalidConfig.Code, text(err)
	}
	if _, ok := c.b.TopicNamed(topic); !ok {
		return kerr.UnknownTopicOrPartition.Code, text(state.ErrUnknownTopic)
	}
	return none, nil
}
