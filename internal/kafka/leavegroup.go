package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/internal/kafka/wire"
)

// LeaveGroup (13), v0 to v5: several members from v3 on, static ones also by instance alone.
var leaveGroupAPI = api{
	key: kmsg.LeaveGroup, min: 0, max: 5, groups: true,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Text, wire.Text.Until(2), wire.Array(wire.Text, wire.Text, wire.Text.Since(5)).Since(3),
	}},
	needs: []need{{access.Read, access.Group}},
	begin: beginning(leaveGroup),
}

func leaveGroup(c *call, r *kmsg.LeaveGroupRequest) finish[*kmsg.LeaveGroupResponse] {
	resp := kmsg.NewPtrLeaveGroupResponse()
	if resp.ErrorCode = c.denied(access.Read, access.Group, r.Group); resp.ErrorCode != none {
		return answered(resp)
	}
	leaving := []group.Leaving{{Member: r.MemberID}}
	if c.version >= 3 {
		leaving = make([]group.Leaving, len(r.Members))
		for i, m := range r.Members {
			leaving[i] = group.Leaving{Member: m.MemberID, Instance: deref(m.InstanceID)}
		}
	}
	codes, code := c.groups.Leave(r.Group, leaving)
	resp.ErrorCode = memberCode(code)
	if code != group.OK {
		return answered(resp)
	}
	if c.version < 3 {
		resp.ErrorCode = memberCode(codes[0])
		return answered(resp)
	}
	for i, m := range r.Members {
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = m.MemberID, m.InstanceID, memberCode(codes[i])
		resp.Members = append(resp.Members, out)
	}
	return answered(resp)
}
