package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// Heartbeat (12), v0 to v4.
var _ = register(api{
	key: kmsg.Heartbeat, min: 0, max: 4, groups: true,
	shape: wire.Shape{Flexible: 4, Fields: []wire.Field{wire.Text, wire.Int32, wire.Text, wire.Text.Since(3)}},
	begin: beginning(heartbeat),
})

func heartbeat(c *call, r *kmsg.HeartbeatRequest) finish[*kmsg.HeartbeatResponse] {
	caller := callerOf(c, r.Group, r.MemberID, r.InstanceID, r.Generation)
	resp := kmsg.NewPtrHeartbeatResponse()
	if resp.ErrorCode = c.denied(access.Read, access.Group, r.Group); resp.ErrorCode != none {
		return answered(resp)
	}
	resp.ErrorCode = MemberCode(c.groups.Heartbeat(&caller))
	return answered(resp)
}
