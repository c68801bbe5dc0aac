package kafka

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), v1 to v3: the rules about topics, groups,
// the cluster and transactional IDs. Rules about triggers and metrics, which Kafka does not have,
// are not among them. Principals are "User:" and an ID, or "User:*".
var (
	_ = register(api{
		key: kmsg.DescribeACLs, min: 1, max: 3,
		shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.Int8, wire.Text, wire.Int8, wire.Text, wire.Text, wire.Int8, wire.Int8}},
		begin: serving((*call).describeACLs),
	})
	_ = register(api{
		key: kmsg.CreateACLs, min: 1, max: 3, leader: true,
		shape: wire.Shape{Flexible: 2, Fields: []wire.Field{
			wire.Array(wire.Int8, wire.Text, wire.Int8, wire.Text, wire.Text, wire.Int8, wire.Int8),
		}},
		begin: serving((*call).createACLs),
	})
	_ = register(api{
		key: kmsg.DeleteACLs, min: 1, max: 3, leader: true,
		shape: wire.Shape{Flexible: 2, Fields: []wire.Field{
			wire.Array(wire.Int8, wire.Text, wire.Int8, wire.Text, wire.Text, wire.Int8, wire.Int8),
		}},
		begin: serving((*call).deleteACLs),
	})
)

const userPrefix = "User:"

// ruleBytes is the memory of a rule in an answer, decoded and encoded.
const ruleBytes = 512

// ruleFilter selects rules, as in DescribeAcls and DeleteAcls. Null names match every name.
type ruleFilter struct {
	resource        kmsg.ACLResourceType
	name            *string
	pattern         kmsg.ACLResourcePatternType
	principal, host *string
	operation       kmsg.ACLOperation
	permission      kmsg.ACLPermissionType
}

// operationLast is the last operation of Kafka 4.3, on transactional IDs.
const operationLast = 15

// check refuses a filter that cannot match.
func (f *ruleFilter) check() error {
	switch {
	case f.resource == kmsg.ACLResourceTypeUnknown || f.resource > kmsg.ACLResourceTypeUser:
		return fmt.Errorf("unknown resource type %d", f.resource)
	case f.pattern < kmsg.ACLResourcePatternTypeAny || f.pattern > kmsg.ACLResourcePatternTypePrefixed:
		return fmt.Errorf("unknown pattern type %d", f.pattern)
	case f.operation < kmsg.ACLOperationAny || f.operation > operationLast:
		return fmt.Errorf("unknown operation %d", f.operation)
	case f.permission < kmsg.ACLPermissionTypeAny || f.permission > kmsg.ACLPermissionTypeAllow:
		return fmt.Errorf("unknown permission type %d", f.permission)
	}
	return nil
}

func (f *ruleFilter) matches(r *access.Rule) bool {
	return r.Resource < access.Trigger &&
		(f.resource == kmsg.ACLResourceTypeAny || access.ResourceType(f.resource) == r.Resource) &&
		(f.principal == nil || *f.principal == userPrefix+r.Principal) && (f.host == nil || *f.host == r.Host) &&
		(f.operation == kmsg.ACLOperationAny || access.Operation(f.operation) == r.Operation) &&
		(f.permission == kmsg.ACLPermissionTypeAny || f.permission == permissionOf(r)) && f.matchesName(r)
}

// matchesName: MATCH selects every rule that applies to the name, ANY every pattern with this text.
func (f *ruleFilter) matchesName(r *access.Rule) bool {
	switch f.pattern {
	case kmsg.ACLResourcePatternTypeLiteral:
		return !r.Prefix && (f.name == nil || *f.name == r.Name)
	case kmsg.ACLResourcePatternTypePrefixed:
		return r.Prefix && (f.name == nil || *f.name == r.Name)
	case kmsg.ACLResourcePatternTypeMatch:
		return f.name == nil || r.Prefix && strings.HasPrefix(*f.name, r.Name) || !r.Prefix && (r.Name == *f.name || r.Name == access.Any)
	}
	return f.name == nil || *f.name == r.Name
}

func permissionOf(r *access.Rule) kmsg.ACLPermissionType {
	if r.Deny {
		return kmsg.ACLPermissionTypeDeny
	}
	return kmsg.ACLPermissionTypeAllow
}

func patternOf(r *access.Rule) kmsg.ACLResourcePatternType {
	if r.Prefix {
		return kmsg.ACLResourcePatternTypePrefixed
	}
	return kmsg.ACLResourcePatternTypeLiteral
}

// selected returns the rules that a filter matches.
func (f *ruleFilter) selected(t *access.Table) (rules []access.Rule) {
	for _, r := range t.Rules() {
		if f.matches(&r) {
			rules = append(rules, r)
		}
	}
	return rules
}

func (c *call) describeACLs(_ context.Context, r *kmsg.DescribeACLsRequest) (*kmsg.DescribeACLsResponse, error) {
	resp := kmsg.NewPtrDescribeACLsResponse()
	f := ruleFilter{r.ResourceType, r.ResourceName, r.ResourcePatternType, r.Principal, r.Host, r.Operation, r.PermissionType}
	if resp.ErrorCode = c.clusterDenied(access.Describe); resp.ErrorCode != none {
		resp.ErrorMessage = text(errDenied)
		return resp, nil
	}
	if err := f.check(); err != nil {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, text(err)
		return resp, nil
	}
	rules := f.selected(c.b.Access())
	if err := c.frame.Charge(int64(len(rules)) * ruleBytes); err != nil {
		return nil, err
	}
	type resource struct {
		t      access.ResourceType
		name   string
		prefix bool
	}
	at := map[resource]int{}
	for i := range rules {
		rule := &rules[i]
		k := resource{rule.Resource, rule.Name, rule.Prefix}
		if _, known := at[k]; !known {
			at[k] = len(resp.Resources)
			out := kmsg.NewDescribeACLsResponseResource()
			out.ResourceType, out.ResourceName, out.ResourcePatternType = kmsg.ACLResourceType(rule.Resource), rule.Name, patternOf(rule)
			resp.Resources = append(resp.Resources, out)
		}
		acl := kmsg.NewDescribeACLsResponseResourceACL()
		acl.Principal, acl.Host, acl.Operation, acl.PermissionType = userPrefix+rule.Principal, rule.Host, kmsg.ACLOperation(rule.Operation), permissionOf(rule)
		resp.Resources[at[k]].ACLs = append(resp.Resources[at[k]].ACLs, acl)
	}
	return resp, nil
}

func (c *call) createACLs(ctx context.Context, r *kmsg.CreateACLsRequest) (*kmsg.CreateACLsResponse, error) {
	resp := kmsg.NewPtrCreateACLsResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	ctx, denied := c.as(ctx, access.Alter, access.Cluster, access.ClusterName)
	for i := range r.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		rule, err := ruleOf(&r.Creations[i])
		if result.ErrorCode = denied; denied != none {
			result.ErrorMessage = text(errDenied)
		} else if err == nil {
			err = c.o.Auth.ChangeRules(ctx, c.who, []access.Rule{rule}, nil)
		}
		if denied == none && err != nil {
			result.ErrorCode, result.ErrorMessage = accessCode(err), text(err)
		}
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

// ruleOf converts a rule of Kafka. ChangeRules checks it.
func ruleOf(a *kmsg.CreateACLsRequestCreation) (rule access.Rule, err error) {
	id, ok := strings.CutPrefix(a.Principal, userPrefix)
	switch {
	case !ok:
		return rule, fmt.Errorf("%w: principal %.80q: want User: and an ID", errRule, a.Principal)
	case a.ResourceType < kmsg.ACLResourceTypeTopic || a.ResourceType > kmsg.ACLResourceTypeTransactionalId:
		return rule, fmt.Errorf("%w: resource type %s is not supported", errRule, a.ResourceType)
	case a.ResourcePatternType != kmsg.ACLResourcePatternTypeLiteral && a.ResourcePatternType != kmsg.ACLResourcePatternTypePrefixed:
		return rule, fmt.Errorf("%w: pattern type %s: want LITERAL or PREFIXED", errRule, a.ResourcePatternType)
	case a.PermissionType != kmsg.ACLPermissionTypeAllow && a.PermissionType != kmsg.ACLPermissionTypeDeny:
		return rule, fmt.Errorf("%w: permission type %s: want ALLOW or DENY", errRule, a.PermissionType)
	}
	return access.Rule{
		Principal: id, Resource: access.ResourceType(a.ResourceType), Name: a.ResourceName, Host: a.Host, Operation: access.Operation(a.Operation),
		Prefix: a.ResourcePatternType == kmsg.ACLResourcePatternTypePrefixed, Deny: a.PermissionType == kmsg.ACLPermissionTypeDeny,
	}, nil
}

func (c *call) deleteACLs(ctx context.Context, r *kmsg.DeleteACLsRequest) (*kmsg.DeleteACLsResponse, error) {
	resp := kmsg.NewPtrDeleteACLsResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	ctx, denied := c.as(ctx, access.Alter, access.Cluster, access.ClusterName)
	for i := range r.Filters {
		a := &r.Filters[i]
		f := ruleFilter{a.ResourceType, a.ResourceName, a.ResourcePatternType, a.Principal, a.Host, a.Operation, a.PermissionType}
		result := kmsg.NewDeleteACLsResponseResult()
		if result.ErrorCode = denied; denied != none {
			result.ErrorMessage = text(errDenied)
		} else if err := f.check(); err != nil {
			result.ErrorCode, result.ErrorMessage = kerr.InvalidRequest.Code, text(err)
		} else if err := c.deleteRules(ctx, &f, &result); err != nil {
			return nil, err
		}
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

// deleteRules deletes the rules that a filter matches. The error is that of the memory of the
// answer.
func (c *call) deleteRules(ctx context.Context, f *ruleFilter, result *kmsg.DeleteACLsResponseResult) error {
	rules := f.selected(c.b.Access())
	if err := c.frame.Charge(int64(len(rules)) * ruleBytes); err != nil {
		return err
	}
	if err := c.o.Auth.ChangeRules(ctx, c.who, nil, rules); err != nil {
		result.ErrorCode, result.ErrorMessage = accessCode(err), text(err)
		return nil
	}
	for i := range rules {
		rule := &rules[i]
		m := kmsg.NewDeleteACLsResponseResultMatchingACL()
		m.ResourceType, m.ResourceName, m.ResourcePatternType = kmsg.ACLResourceType(rule.Resource), rule.Name, patternOf(rule)
		m.Principal, m.Host, m.Operation, m.PermissionType = userPrefix+rule.Principal, rule.Host, kmsg.ACLOperation(rule.Operation), permissionOf(rule)
		result.MatchingACLs = append(result.MatchingACLs, m)
	}
	return nil
}
