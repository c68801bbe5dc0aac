package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeClientQuotas (48) and AlterClientQuotas (49), v0 and v1 (KIP-546): the quotas of users. The
// default user is every user without a quota of its own. There are no quotas of client IDs, of IP
// addresses and of CPU time.
var (
	_ = register(api{
		key: kmsg.DescribeClientQuotas, min: 0, max: 1,
		shape: wire.Shape{Flexible: 1, Fields: []wire.Field{wire.Array(wire.Text, wire.Int8, wire.Text), wire.Bool}},
		begin: serving((*call).describeClientQuotas),
	})
	_ = register(api{
		key: kmsg.AlterClientQuotas, min: 0, max: 1, leader: true,
		shape: wire.Shape{Flexible: 1, Fields: []wire.Field{
			wire.Array(wire.Array(wire.Text, wire.Text), wire.Array(wire.Text, wire.Int64, wire.Bool)), wire.Bool,
		}},
		begin: serving((*call).alterClientQuotas),
	})
)

// entityUser is the type of entities with quotas.
const entityUser = "user"

// quotaKeys are the limits of a quota with their names in Kafka. Kafka has no limit of requests; its
// tools pass the name on.
var quotaKeys = []struct {
	name  string
	limit func(*access.Quota) *uint64
}{
	{"producer_byte_rate", func(q *access.Quota) *uint64 { return &q.ProduceBytes }},
	{"consumer_byte_rate", func(q *access.Quota) *uint64 { return &q.FetchBytes }},
	{"request_rate", func(q *access.Quota) *uint64 { return &q.Requests }},
}

var (
	// errQuota is the sentinel of refused changes and filters.
	errQuota = errors.New("invalid quota")
	// errEntity: a filter of entities that Kafka does not have either.
	errEntity = errors.New("unknown entity type")
)

func (c *call) describeClientQuotas(_ context.Context, r *kmsg.DescribeClientQuotasRequest) (*kmsg.DescribeClientQuotasResponse, error) {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if resp.ErrorCode = c.clusterDenied(access.DescribeConfigs); resp.ErrorCode != none {
		resp.ErrorMessage = text(errDenied)
		return resp, nil
	}
	selects, err := quotaFilter(r)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = accessCode(err), text(err)
		return resp, nil
	}
	quotas := slices.DeleteFunc(c.b.Access().Quotas(), func(q access.Quota) bool { return !selects(q.Principal) })
	if err := c.frame.Charge(int64(len(quotas)) * ruleBytes); err != nil {
		return nil, err
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null would mean failure
	for i := range quotas {
		entry := kmsg.NewDescribeClientQuotasResponseEntry()
		entity := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		entity.Type = entityUser
		if quotas[i].Principal != access.Any {
			entity.Name = &quotas[i].Principal
		}
		entry.Entity = append(entry.Entity, entity)
		for _, k := range quotaKeys {
			if limit := *k.limit(&quotas[i]); limit > 0 {
				value := kmsg.NewDescribeClientQuotasResponseEntryValue()
				value.Key, value.Value = k.name, float64(limit)
				entry.Values = append(entry.Values, value)
			}
		}
		resp.Entries = append(resp.Entries, entry)
	}
	return resp, nil
}

// quotaFilter returns which principals a request selects. An entity has to match each component, and
// has no other types than user, so strict has no effect.
func quotaFilter(r *kmsg.DescribeClientQuotasRequest) (selects func(principal string) bool, err error) {
	selects = func(string) bool { return true }
	seen := map[string]bool{}
	for i := range r.Components {
		p := &r.Components[i]
		switch {
		case seen[p.EntityType]:
			return nil, fmt.Errorf("%w: entity type %.80q occurs twice", errQuota, p.EntityType)
		case p.MatchType < kmsg.QuotasMatchTypeExact || p.MatchType > kmsg.QuotasMatchTypeAny:
			return nil, fmt.Errorf("%w: unknown match type %d", errQuota, p.MatchType)
		case (p.MatchType == kmsg.QuotasMatchTypeExact) != (p.Match != nil):
			return nil, fmt.Errorf("%w: only the match type 0, an exact name, has a name", errQuota)
		case p.EntityType == "client-id" || p.EntityType == "ip":
			selects = func(string) bool { return false }
		case p.EntityType != entityUser:
			return nil, fmt.Errorf("%w %.80q", errEntity, p.EntityType)
		case len(r.Components) > 1: // the other one matches nothing, or is refused
		case p.MatchType == kmsg.QuotasMatchTypeExact:
			selects = func(principal string) bool { return principal == *p.Match && principal != access.Any }
		case p.MatchType == kmsg.QuotasMatchTypeDefault:
			selects = func(principal string) bool { return principal == access.Any }
		}
		seen[p.EntityType] = true
	}
	return selects, nil
}

func (c *call) alterClientQuotas(ctx context.Context, r *kmsg.AlterClientQuotasRequest) (*kmsg.AlterClientQuotasResponse, error) {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	ctx, denied := c.as(ctx, access.AlterConfigs, access.Cluster, access.ClusterName)
	for i := range r.Entries {
		ask := &r.Entries[i]
		result := kmsg.NewAlterClientQuotasResponseEntry()
		for _, e := range ask.Entity {
			entity := kmsg.NewAlterClientQuotasResponseEntryEntity()
			entity.Type, entity.Name = e.Type, e.Name
			result.Entity = append(result.Entity, entity)
		}
		if result.ErrorCode = denied; denied != none {
			result.ErrorMessage = text(errDenied)
		} else if err := c.alterQuota(ctx, ask, r.ValidateOnly); err != nil {
			result.ErrorCode, result.ErrorMessage = accessCode(err), text(err)
		}
		resp.Entries = append(resp.Entries, result)
	}
	return resp, nil
}

func (c *call) alterQuota(ctx context.Context, ask *kmsg.AlterClientQuotasRequestEntry, validateOnly bool) error {
	principal, err := quotaEntity(ask.Entity)
	if err != nil {
		return err
	}
	change := func(q *access.Quota) error {
		for i := range ask.Ops {
			if err := alterLimit(q, &ask.Ops[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if validateOnly {
		return c.o.Auth.CheckQuota(principal, change)
	}
	return c.o.Auth.ChangeQuota(ctx, principal, change)
}

// quotaEntity returns the principal that an entity names.
func quotaEntity(entity []kmsg.AlterClientQuotasRequestEntryEntity) (principal string, err error) {
	for _, e := range entity {
		if e.Type != entityUser {
			return "", fmt.Errorf("%w: entity type %.80q is not supported: only users have quotas, not client IDs and IP addresses", errQuota, e.Type)
		}
	}
	switch {
	case len(entity) != 1:
		return "", fmt.Errorf("%w: %d entities: want one user", errQuota, len(entity))
	case entity[0].Name == nil:
		return access.Any, nil
	case *entity[0].Name == access.Any:
		return "", fmt.Errorf("%w: user %q: want the default entity", errQuota, access.Any)
	}
	return *entity[0].Name, nil
}

func alterLimit(q *access.Quota, op *kmsg.AlterClientQuotasRequestEntryOp) error {
	for _, k := range quotaKeys {
		switch {
		case k.name != op.Key:
		case op.Remove:
			*k.limit(q) = 0
			return nil
		case !(op.Value > 0) || op.Value > access.RateMax || op.Value != math.Trunc(op.Value):
			return fmt.Errorf("%w: %s=%v: want a whole number from 1 to %d", errQuota, op.Key, op.Value, uint64(access.RateMax))
		default:
			*k.limit(q) = uint64(op.Value)
			return nil
		}
	}
	return fmt.Errorf("%w: %.80q is not supported: want producer_byte_rate, consumer_byte_rate or request_rate (requests per second)", errQuota, op.Key)
}
