package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/groups"
	"github.com/sebbroker/seb/internal/kafka/wire"
)

// LeaveGroup (13), v0 to v5: several members from v3 on, static ones by their instance alone.
var leaveGroupAPI = API{
	Key: kmsg.LeaveGroup, Min: 0, Max: 5,
	Shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Text, wire.Text.Until(2), wire.Array(wire.Text, wire.Text, wire.Text.Since(5)).Since(3),
	}},
	Begin: beginning(leaveGroup),
}

func leaveGroup(s *Server, c *Call, r *kmsg.LeaveGroupRequest) Finish {
	leaving := []groups.Leaving{{Member: r.MemberID}}
	if c.Version >= 3 {
		leaving = make([]groups.Leaving, len(r.Members))
		for i, m := range r.Members {
			leaving[i] = groups.Leaving{Member: m.MemberID, Instance: deref(m.InstanceID)}
		}
	}
	codes, code := s.Coordinator.Leave(r.Group, leaving)
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.ErrorCode = int16(code)
	if code != groups.OK {
		return answered(resp)
	}
	if c.Version < 3 {
		resp.ErrorCode = int16(codes[0])
		return answered(resp)
	}
	for i, m := range r.Members {
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = m.MemberID, m.InstanceID, int16(codes[i])
		resp.Members = append(resp.Members, out)
	}
	return answered(resp)
}
