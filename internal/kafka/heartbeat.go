package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/kafka/conn"
)

// Heartbeat (12), v0 to v4.
var heartbeatAPI = API{
	Key: kmsg.Heartbeat, Min: 0, Max: 4,
	Shape: conn.Shape{Flexible: 4, Fields: []conn.Field{conn.Text, conn.Int32, conn.Text, conn.Text.Since(3)}},
	Begin: beginDecoded(heartbeat),
}

func heartbeat(s *groupServer, c *Call, r *kmsg.HeartbeatRequest) Finish {
	caller := callerOf(c, r.Group, r.MemberID, r.InstanceID, r.Generation)
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = memberCode(s.Coordinator.Heartbeat(&caller))
	return answered(resp)
}
