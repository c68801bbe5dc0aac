package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ListGroups (16), v0 to v5, with the filters of v4 and v5. The list includes groups of HTTP
// consumers. Groups without members have type classic and an empty protocol type. A standby coordinates
// none: clients ask all brokers.
var _ = register(api{
	key: kmsg.ListGroups, min: 0, max: 5, groups: true,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{wire.List(wire.Text).Since(4), wire.List(wire.Text).Since(5)}},
	begin: groupServing((*call).listGroups),
})

// The types of groups.
const (
	classic  = "classic"
	consumer = "consumer"
)

func (c *call) listGroups(ctx context.Context, r *kmsg.ListGroupsRequest) (*kmsg.ListGroupsResponse, *budget.Reservation) {
	resp := kmsg.NewPtrListGroupsResponse()
	if c.standsBy() {
		return resp, nil
	}
	list, code := c.groups.List()
	memory, err := c.fetchClass.Reserve(int64(len(list)) * elementBytes)
	if err != nil {
		code = group.CoordinatorNotAvailable
	}
	if resp.ErrorCode = MemberCode(code); code != group.OK {
		return resp, memory
	}
	for i := range list {
		if !c.may(access.Describe, access.Group, list[i].Name) {
			continue
		}
		kind := classic
		if list[i].Consumers != nil {
			kind = consumer
		}
		if !passes(r.StatesFilter, list[i].State.String()) || !passes(r.TypesFilter, kind) {
			continue
		}
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.ProtocolType, g.GroupState, g.GroupType = list[i].Name, list[i].ProtocolType, list[i].State.String(), kind
		resp.Groups = append(resp.Groups, g)
	}
	return resp, memory
}

// passes reports whether a filter accepts s; an empty filter accepts everything.
func passes(filter []string, s string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, s) })
}
