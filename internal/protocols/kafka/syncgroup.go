package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// SyncGroup (14), v0 to v5: passes the leader's assignment unchanged to the members of its
// generation. From v5 on the protocol and its type are required. A member that was not in the last generation, but said
// in its JoinGroup that it has partitions, gets ILLEGAL_GENERATION once, and so reads the committed offsets again.
var _ = register(api{
	key: kmsg.SyncGroup, min: 0, max: 5, groups: true,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Text, wire.Int32, wire.Text, wire.Text.Since(3), wire.Text.Since(5), wire.Text.Since(5),
		wire.Array(wire.Text, wire.Bytes),
	}},
	begin: beginning(syncGroup),
})

func syncGroup(c *call, r *kmsg.SyncGroupRequest) finish[*kmsg.SyncGroupResponse] {
	if code := c.denied(access.Read, access.Group, r.Group); code != none {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = code
		return answered(resp)
	}
	if c.version >= 5 && (r.ProtocolType == nil || r.Protocol == nil) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return answered(resp)
	}
	ask := &group.SyncRequest{
		Caller:       callerOf(c, r.Group, r.MemberID, r.InstanceID, r.Generation),
		ProtocolType: deref(r.ProtocolType), Protocol: deref(r.Protocol),
		Assignments: make([]group.Assignment, len(r.GroupAssignment)),
	}
	for i, a := range r.GroupAssignment {
		ask.Assignments[i] = group.Assignment{Member: a.MemberID, Data: a.MemberAssignment}
	}
	answer := c.groups.Sync(ask)
	return func(ctx context.Context) (*kmsg.SyncGroupResponse, *budget.Reservation) {
		a := group.SyncAnswer{Code: group.NotCoordinator}
		select {
		case a = <-answer:
		case <-ctx.Done():
		}
		resp := kmsg.NewPtrSyncGroupResponse()
		if resp.ErrorCode = c.denied(access.Read, access.Group, r.Group); resp.ErrorCode != none { // the wait may be long
			return resp, nil
		}
		memory, err := c.fetchClass.Reserve(2 * int64(len(a.Assignment)))
		if err != nil {
			resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
			return resp, nil
		}
		if resp.ErrorCode = MemberCode(a.Code); a.Code == group.OK {
			resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &a.ProtocolType, &a.Protocol, a.Assignment
		}
		return resp, memory
	}
}
