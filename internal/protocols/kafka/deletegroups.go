package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DeleteGroups (42), v0 to v3: deletes groups one after the other; NON_EMPTY_GROUP if a group has
// members.
var _ = register(api{
	key: kmsg.DeleteGroups, min: 0, max: 3, groups: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.List(wire.Text)}},
	begin: groupServing((*call).deleteGroups),
})

func (c *call) deleteGroups(ctx context.Context, r *kmsg.DeleteGroupsRequest) (*kmsg.DeleteGroupsResponse, *budget.Reservation) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	resp := kmsg.NewPtrDeleteGroupsResponse()
	ready := c.groups.Ready()
	for _, name := range r.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		if g.ErrorCode = MemberCode(ready); ready == group.OK {
			as, denied := c.as(ctx, access.Delete, access.Group, name)
			if g.ErrorCode = denied; denied == none {
				g.ErrorCode = GroupCode(c.groups.DeleteGroup(as, name))
			}
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
