package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/internal/kafka/conn"
)

// FindCoordinator (10), v0 to v6: the leader coordinates all groups. Transactions are refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, share groups with INVALID_REQUEST.
var findCoordinatorAPI = api{
	key: kmsg.FindCoordinator, min: 0, max: 6, groups: true,
	shape: conn.Shape{Flexible: 3, Fields: []conn.Field{
		conn.Text.Until(3), conn.Int8.Since(1), conn.List(conn.Text).Since(4),
	}},
	begin: beginning(findCoordinator),
}

const (
	groupKey       = 0
	transactionKey = 1

	groupTransactionalIDAuthorizationFailed = 53
)

func findCoordinator(c *call, r *kmsg.FindCoordinatorRequest) finish {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	code, why := none, ""
	switch {
	case r.CoordinatorType == transactionKey:
		code, why = groupTransactionalIDAuthorizationFailed, "transactions are not supported"
	case r.CoordinatorType != groupKey:
		code, why = kerr.InvalidRequest.Code, "unsupported coordinator type: want group"
	case c.groups.Ready() != group.OK:
		code, why = kerr.CoordinatorNotAvailable.Code, "this broker is not the leader"
	}
	id, self := int32(nodeID), c.host()
	if code != none {
		id, self = -1, address{port: -1}
	}
	resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = code, orNil(why), id, self.host, self.port
	for _, key := range r.CoordinatorKeys {
		out := kmsg.NewFindCoordinatorResponseCoordinator()
		out.Key, out.ErrorCode, out.ErrorMessage, out.NodeID, out.Host, out.Port = key, code, orNil(why), id, self.host, self.port
		resp.Coordinators = append(resp.Coordinators, out)
	}
	return answered(resp)
}
