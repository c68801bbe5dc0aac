package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/internal/kafka/conn"
)

// DeleteGroups (42), v0 to v3: deletes groups one after the other; NON_EMPTY_GROUP if a group has
// members.
var deleteGroupsAPI = API{
	Key: kmsg.DeleteGroups, Min: 0, Max: 3,
	Shape: conn.Shape{Flexible: 2, Fields: []conn.Field{conn.List(conn.Text)}},
	Begin: groupServing((*groupServer).deleteGroups),
}

func (s *groupServer) deleteGroups(_ *Call, ctx context.Context, r *kmsg.DeleteGroupsRequest) (kmsg.Response, *budget.Reservation) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	resp := kmsg.NewPtrDeleteGroupsResponse()
	ready := s.Coordinator.Ready()
	for _, name := range r.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		if g.ErrorCode = memberCode(ready); ready == group.OK {
			g.ErrorCode = groupCode(s.Coordinator.DeleteGroup(ctx, name))
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
