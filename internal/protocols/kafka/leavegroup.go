package kafka

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// LeaveGroup (13), v0 to v5: several members from v3 on, static ones also by instance alone.
var _ = register(api{
	key: kmsg.LeaveGroup, min: 0, max: 5, groups: true,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{
		wire.Text, wire.Text.Until(2), wire.Array(wire.Text, wire.Text, wire.Text.Since(5)).Since(3),
	}},
	begin: beginning(leaveGroup),
})

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
	results, code := c.groups.Leave(r.Group, leaving)
	resp.ErrorCode = MemberCode(code)
	if code != group.OK {
		return answered(resp)
	}
	if c.version < 3 {
		resp.ErrorCode = MemberCode(results[0])
		return answered(resp)
	}
	for i, m := range r.Members {
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = m.MemberID, m.InstanceID, MemberCode(results[i])
		resp.Members = append(resp.Members, out)
	}
	return answered(resp)
}

// A broker that leaves tells its clients which broker leads before it closes their connections,
// because some wait for seconds until they ask for metadata again: franz-go for 5.

// departure is the end of the service of a broker.
type departure struct {
	leaving context.Context // ends when Leave is called
	begin   context.CancelFunc
	untold  atomic.Int64 // connections that produce or fetch, and have not been told the leader
	changed wake.Signal  // untold is smaller
}

func newDeparture() *departure {
	d := &departure{changed: wake.New()}
	d.leaving, d.begin = context.WithCancel(context.Background())
	return d
}

// brokerLeaves reports whether this broker leaves.
func (d *departure) brokerLeaves() bool { return d.leaving.Err() != nil }

// untilLeave returns a context that also ends when this broker leaves.
func (d *departure) untilLeave(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(d.leaving, cancel)
	return ctx, func() { stop(); cancel() }
}

// Leave answers requests to produce and to fetch with the broker that leads, also those that wait. It
// returns when each connection with such requests has got that answer, or ctx ends. It does nothing if
// no other broker leads.
func (s *Server) Leave(ctx context.Context) {
	if s.o.Cluster == nil {
		return
	}
	if leader, ok := s.o.Cluster.Leader(); !ok || leader.Run == s.o.Cluster.Self().Run {
		return
	}
	s.begin()
	for s.untold.Load() > 0 {
		select {
		case <-s.changed:
		case <-ctx.Done():
			return
		}
	}
}

// noteExpectsLeader notes that the client produces or fetches, and so expects the leader here.
func (s *session) noteExpectsLeader() {
	if s.o.Cluster != nil && !s.expects.Swap(true) {
		s.untold.Add(1)
	}
}

// noteLeaderNamed notes that the client is told that another broker leads, or is gone.
func (s *session) noteLeaderNamed() {
	if !s.expects.Swap(false) {
		return
	}
	s.untold.Add(-1)
	s.changed.Send()
}
