package group

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/groups"
	"github.com/sebbroker/seb/internal/kafka/wire"
)

// DeleteGroups (42), v0 to v3: a group with members is NON_EMPTY_GROUP. One after the other.
var deleteGroupsAPI = API{
	Key: kmsg.DeleteGroups, Min: 0, Max: 3,
	Shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.List(wire.Text)}},
	Begin: serving((*Server).deleteGroups),
}

func (s *Server) deleteGroups(_ *Call, ctx context.Context, r *kmsg.DeleteGroupsRequest) (kmsg.Response, *budget.Reservation) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	resp := kmsg.NewPtrDeleteGroupsResponse()
	ready := s.Coordinator.Ready()
	for _, name := range r.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		if g.ErrorCode = int16(ready); ready == groups.OK {
			g.ErrorCode = codeOf(s.Coordinator.DeleteGroup(ctx, name))
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}
