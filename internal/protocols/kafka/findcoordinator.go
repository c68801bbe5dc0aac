package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// FindCoordinator (10), v0 to v6: the leader coordinates all groups. Transactions are refused with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, share groups with INVALID_REQUEST.
var _ = register(api{
	key: kmsg.FindCoordinator, min: 0, max: 6, groups: true,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{
		wire.Text.Until(3), wire.Int8.Since(1), wire.List(wire.Text).Since(4),
	}},
	begin: beginning(findCoordinator),
})

const (
	groupKey       = 0
	transactionKey = 1

	groupTransactionalIDAuthorizationFailed = 53
)

func findCoordinator(c *call, r *kmsg.FindCoordinatorRequest) finish[*kmsg.FindCoordinatorResponse] {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	code, why := none, ""
	switch {
	case r.CoordinatorType == transactionKey:
		code, why = groupTransactionalIDAuthorizationFailed, "transactions are not supported"
	case r.CoordinatorType != groupKey:
		code, why = kerr.InvalidRequest.Code, "unsupported coordinator type: want group"
	}
	ns := c.nodes()
	if code == none && (ns.leader == nil || ns.leader.id == ns.self && c.groups.Ready() != group.OK) {
		code, why = kerr.CoordinatorNotAvailable.Code, "no broker leads"
	}
	find := func(key string) (int16, *string, int32, address) {
		denied := none
		if code == none {
			denied = c.denied(access.Describe, access.Group, key)
		}
		switch {
		case code != none:
			return code, orNil(why), -1, address{port: -1}
		case denied != none:
			return denied, text(errDenied), -1, address{port: -1}
		}
		return none, nil, ns.leader.id, ns.leader.address
	}
	var at address
	if c.version < 4 {
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, at = find(r.CoordinatorKey)
		resp.Host, resp.Port = at.host, at.port
	}
	for _, key := range r.CoordinatorKeys {
		out := kmsg.NewFindCoordinatorResponseCoordinator()
		out.Key = key
		out.ErrorCode, out.ErrorMessage, out.NodeID, at = find(key)
		out.Host, out.Port = at.host, at.port
		resp.Coordinators = append(resp.Coordinators, out)
	}
	return answered(resp)
}
