package auth

import (
	"fmt"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
)

// adminOperations are those of the scope admin on topics.
var adminOperations = []access.Operation{
	access.Create, access.Delete, access.Alter, access.Describe, access.DescribeConfigs, access.AlterConfigs,
}

// ScopeRules returns the rules of scopes, without a principal. The error is a *state.InvalidError.
func ScopeRules(s *api.Scopes) (rules []access.Rule, err error) {
	for _, scope := range []struct {
		field      string
		resource   access.ResourceType
		patterns   []string
		operations []access.Operation
	}{
		{"read", access.Topic, s.Read, []access.Operation{access.Read}},
		{"write", access.Topic, s.Write, []access.Operation{access.Write}},
		{"admin", access.Topic, s.Admin, adminOperations},
		{"groups", access.Group, s.Groups, []access.Operation{access.Read, access.Delete}},
		{"triggers", access.Trigger, s.Triggers, []access.Operation{access.All}},
		{"metrics", access.Metrics, onlyIf(s.Metrics, access.MetricsName), []access.Operation{access.Describe}},
		{"cluster", access.Cluster, onlyIf(s.Cluster, access.ClusterName), []access.Operation{access.All}},
	} {
		for _, text := range scope.patterns {
			name, prefix, err := access.ParsePattern(text)
			if err != nil {
				return nil, invalid(scope.field, "pattern %.80q: %v", text, err)
			}
			for _, o := range scope.operations {
				rules = append(rules, access.Rule{Resource: scope.resource, Name: name, Prefix: prefix, Operation: o, Host: access.Any})
			}
		}
	}
	return rules, nil
}

// The presets of tokens: for a person who looks, and for one who runs what is on the broker. Neither
// may see or change tokens, rules and quotas.
const (
	Viewer   = "viewer"
	Operator = "operator"
)

// OwnTopics are the topics of Seb itself that presets cover. The topic of triggers is none of them,
// because it can hold secrets of webhooks, nor is that of audit records.
type OwnTopics struct{ Events, Firings string }

// PresetRules returns the rules of a preset, without a principal; "" has none. The error is a
// *state.InvalidError.
func PresetRules(preset string, own OwnTopics) ([]access.Rule, error) {
	var rules []access.Rule
	allow := func(t access.ResourceType, name string, operations ...access.Operation) {
		for _, o := range operations {
			rules = append(rules, access.Rule{Resource: t, Name: name, Operation: o, Host: access.Any})
		}
	}
	switch preset {
	case "":
		return nil, nil
	case Viewer:
		for _, topic := range []string{access.Any, own.Events, own.Firings} {
			allow(access.Topic, topic, access.Read, access.DescribeConfigs)
		}
		allow(access.Group, access.Any, access.Describe)
		allow(access.Trigger, access.Any, access.Read)
	case Operator:
		allow(access.Topic, access.Any, access.All)
		allow(access.Topic, own.Events, access.All)
		allow(access.Topic, own.Firings, access.Read, access.DescribeConfigs)
		allow(access.Group, access.Any, access.All)
		allow(access.Trigger, access.Any, access.All)
	default:
		return nil, invalid("preset", "%.40q: want %s or %s", preset, Viewer, Operator)
	}
	allow(access.Metrics, access.MetricsName, access.Describe)
	return rules, nil
}

func onlyIf(given bool, name string) []string {
	if given {
		return []string{name}
	}
	return nil
}

// ParseRule returns a rule of the API. It does not check whether the rule can match something. The
// error is a *state.InvalidError.
func ParseRule(r *api.Rule) (out access.Rule, err error) {
	out = access.Rule{Principal: r.Principal, Deny: r.Deny, Host: r.Host}
	if out.Host == "" {
		out.Host = access.Any
	}
	if out.Resource, err = access.ParseResourceType(r.Resource); err != nil {
		return out, invalid("resource", "%v", err)
	}
	if out.Operation, err = access.ParseOperation(r.Operation); err != nil {
		return out, invalid("operation", "%v", err)
	}
	if out.Name, out.Prefix, err = access.ParsePattern(r.Pattern); err != nil {
		return out, invalid("pattern", "%.80q: %v", r.Pattern, err)
	}
	return out, nil
}

// ParseRules is ParseRule for a list. An error names the index of the invalid rule.
func ParseRules(list []api.Rule) ([]access.Rule, error) {
	out := make([]access.Rule, len(list))
	for i := range list {
		var err error
		if out[i], err = ParseRule(&list[i]); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return out, nil
}

// WireRules returns rules in the form of the API.
func WireRules(list []access.Rule) []api.Rule {
	out := make([]api.Rule, len(list))
	for i := range list {
		r := &list[i]
		out[i] = api.Rule{Principal: r.Principal, Resource: r.Resource.String(), Pattern: r.Pattern(), Operation: r.Operation.String(), Deny: r.Deny}
		if r.Host != access.Any {
			out[i].Host = r.Host
		}
	}
	return out
}
