package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/internal/kafka/conn"
)

// FindCoordinator (10), v0 to v6: the leader coordinates all groups. Transactions are refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, share groups with INVALID_REQUEST.
var findCoordinatorAPI = API{
	Key: kmsg.FindCoordinator, Min: 0, Max: 6,
	Shape: conn.Shape{Flexible: 3, Fields: []conn.Field{
		conn.Text.Until(3), conn.Int8.Since(1), conn.List(conn.Text).Since(4),
	}},
	Begin: beginDecoded(findCoordinator),
}

const (
	groupKey       = 0
	transactionKey = 1

	groupTransactionalIDAuthorizationFailed = 53
)

func findCoordinator(s *groupServer, c *Call, r *kmsg.FindCoordinatorRequest) Finish {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	code, why := none, ""
	switch {
	case r.CoordinatorType == transactionKey:
		code, why = groupTransactionalIDAuthorizationFailed, "transactions are not supported"
	case r.CoordinatorType != groupKey:
		code, why = kerr.InvalidRequest.Code, "unsupported coordinator type: want group"
	case s.Coordinator.Ready() != group.OK:
		code, why = kerr.CoordinatorNotAvailable.Code, "this broker is not the leader"
	}
	self := c.Self
	if code != none {
		self = Node{ID: -1, Port: -1}
	}
	resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = code, orNil(why), self.ID, self.Host, self.Port
	for _, key := range r.CoordinatorKeys {
		out := kmsg.NewFindCoordinatorResponseCoordinator()
		out.Key, out.ErrorCode, out.ErrorMessage, out.NodeID, out.Host, out.Port = key, code, orNil(why), self.ID, self.Host, self.Port
		resp.Coordinators = append(resp.Coordinators, out)
	}
	return answered(resp)
}
