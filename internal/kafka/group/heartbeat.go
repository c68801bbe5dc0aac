package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/kafka/wire"
)

// Heartbeat (12), v0 to v4.
var heartbeatAPI = API{
	Key: kmsg.Heartbeat, Min: 0, Max: 4,
	Shape: wire.Shape{Flexible: 4, Fields: []wire.Field{wire.Text, wire.Int32, wire.Text, wire.Text.Since(3)}},
	Begin: beginning(heartbeat),
}

func heartbeat(s *Server, c *Call, r *kmsg.HeartbeatRequest) Finish {
	caller := callerOf(c, r.Group, r.MemberID, r.InstanceID, r.Generation)
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = int16(s.Coordinator.Heartbeat(&caller))
	return answered(resp)
}
