package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// JoinGroup (11), v0 to v9: static members from v5, member IDs in two steps from v4 (KIP-394), no
// assignment by a returning static leader from v9 (KIP-814). GROUP_MAX_SIZE_REACHED also means that
// a memory limit is reached.
var _ = register(api{
	key: kmsg.JoinGroup, min: 0, max: 9, groups: true,
	shape: wire.Shape{Flexible: 6, Fields: []wire.Field{
		wire.Text, wire.Int32, wire.Int32.Since(1), wire.Text, wire.Text.Since(5), wire.Text,
		wire.Array(wire.Text, wire.Bytes), wire.Text.Since(8),
	}},
	begin: beginning(joinGroup),
})

func joinGroup(c *call, r *kmsg.JoinGroupRequest) finish[*kmsg.JoinGroupResponse] {
	ask := &group.JoinRequest{
		Group: r.Group, Member: r.MemberID, Instance: deref(r.InstanceID), Client: string(c.client), Host: hostOf(c.remote),
		ProtocolType:     r.ProtocolType,
		Protocols:        make([]group.Protocol, len(r.Protocols)),
		SessionTimeout:   int64(r.SessionTimeoutMillis) * int64(time.Millisecond),
		RebalanceTimeout: int64(r.RebalanceTimeoutMillis) * int64(time.Millisecond),
		Owns:             ownsPartitions(r),
		TwoSteps:         c.version >= 4, CanSkip: c.version >= 9,
	}
	for i, p := range r.Protocols {
		ask.Protocols[i] = group.Protocol{Name: p.Name, Metadata: p.Metadata}
	}
	if code := c.denied(access.Read, access.Group, r.Group); code != none {
		return answered(refusedJoin(code, ""))
	}
	answer := c.groups.Join(ask)
	return func(ctx context.Context) (*kmsg.JoinGroupResponse, *budget.Reservation) {
		select {
		case a := <-answer:
			if code := c.denied(access.Read, access.Group, r.Group); code != none { // the wait may be long
				return refusedJoin(code, a.Member), nil
			}
			return c.joined(&a)
		case <-ctx.Done():
			return c.joined(&group.JoinAnswer{Code: group.NotCoordinator, Member: ask.Member, Generation: -1})
		}
	}
}

// ownsPartitions reports whether a consumer says that it has partitions of an earlier generation.
func ownsPartitions(r *kmsg.JoinGroupRequest) bool {
	if r.ProtocolType != "consumer" {
		return false
	}
	return slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		m := kmsg.NewConsumerMemberMetadata()
		return m.ReadFrom(p.Metadata) == nil && len(m.OwnedPartitions) > 0
	})
}

// joined builds the answer of a JoinGroup. The leader's answer may be large; without memory for it
// the leader must retry.
func (c *call) joined(a *group.JoinAnswer) (*kmsg.JoinGroupResponse, *budget.Reservation) {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = MemberCode(a.Code), a.Member, -1
	if a.Code != group.OK {
		return resp, nil
	}
	size := int64(0)
	for i := range a.Members {
		m := &a.Members[i]
		size += elementBytes + 2*int64(len(m.Member)+len(m.Instance)+len(m.Metadata))
	}
	memory, err := c.fetchClass.Reserve(size)
	if err != nil {
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return resp, nil
	}
	resp.Generation, resp.ProtocolType, resp.Protocol = a.Generation, &a.ProtocolType, &a.Protocol
	resp.LeaderID, resp.SkipAssignment = a.Leader, a.SkipAssignment
	for i := range a.Members {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.InstanceID, m.ProtocolMetadata = a.Members[i].Member, orNil(a.Members[i].Instance), a.Members[i].Metadata
		resp.Members = append(resp.Members, m)
	}
	return resp, memory
}

func refusedJoin(code int16, member string) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = code, member, -1
	return resp
}
