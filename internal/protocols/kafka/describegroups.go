package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeGroups (15), v0 to v6: an unknown group is Dead, from v6 on GROUP_ID_NOT_FOUND, and so is
// a group of the consumer protocol. Metadata and assignments are reported while the group is
// stable.
var _ = register(api{
	key: kmsg.DescribeGroups, min: 0, max: 6, groups: true,
	shape: wire.Shape{Flexible: 5, Fields: []wire.Field{wire.List(wire.Text), wire.Bool.Since(3)}},
	begin: groupServing((*call).describeGroups),
})

func (c *call) describeGroups(ctx context.Context, r *kmsg.DescribeGroupsRequest) (*kmsg.DescribeGroupsResponse, *budget.Reservation) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	memory, err := c.fetchClass.Reserve(0)
	for _, name := range r.Groups {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group = name
		if g.ErrorCode = c.denied(access.Describe, access.Group, name); g.ErrorCode != none {
			resp.Groups = append(resp.Groups, g)
			continue
		}
		g.State = group.Dead.String()
		view, code := group.View{}, group.CoordinatorNotAvailable
		if err == nil {
			if view, code = c.groups.Describe(name); code == group.OK {
				err = memory.Grow(viewBytes(&view))
			}
		}
		switch {
		case code != group.OK:
		case err != nil:
			code = group.CoordinatorNotAvailable // also for all groups that follow
		case view.State == group.Dead || view.Consumers != nil:
			if c.version >= 6 {
				why := "group not found among those of the classic protocol"
				code, g.ErrorMessage = group.GroupIDNotFound, &why
			}
		default:
			g.State, g.ProtocolType, g.Protocol = view.State.String(), view.ProtocolType, view.Protocol
			for i := range view.Members {
				g.Members = append(g.Members, describedMember(&view.Members[i]))
			}
		}
		if g.ErrorCode = MemberCode(code); r.IncludeAuthorizedOperations && code == group.OK {
			g.AuthorizedOperations = c.operations(access.Group, name)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, memory
}

func describedMember(v *group.MemberView) kmsg.DescribeGroupsResponseGroupMember {
	m := kmsg.NewDescribeGroupsResponseGroupMember()
	m.MemberID, m.InstanceID, m.ClientID, m.ClientHost = v.Member, orNil(v.Instance), v.Client, v.Host
	m.ProtocolMetadata, m.MemberAssignment = v.Metadata, v.Assignment
	return m
}

// viewBytes is the memory of the answer about a group.
func viewBytes(v *group.View) int64 {
	size := int64(0)
	for i := range v.Members {
		m := &v.Members[i]
		size += elementBytes + 2*int64(len(m.Member)+len(m.Client)+len(m.Host)+len(m.Metadata)+len(m.Assignment))
	}
	return size
}
