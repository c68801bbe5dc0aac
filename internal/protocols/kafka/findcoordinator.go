package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// FindCoordinator (10), v0 to v6: the leader coordinates all groups and transactions. Share groups are
// refused with INVALID_REQUEST, and transactions with TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the bucket's
// format level is too low for them.
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
)

func findCoordinator(c *call, r *kmsg.FindCoordinatorRequest) finish[*kmsg.FindCoordinatorResponse] {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	code, why, resource := none, "", access.Group
	switch level := c.b.Level().Now; {
	case r.CoordinatorType == transactionKey && level != 0 && level < state.LevelTransactions:
		err := &state.LevelError{Needs: state.LevelTransactions, Has: level}
		code, why = TransactionCode(err), err.Error()
	case r.CoordinatorType == transactionKey:
		resource = access.TransactionalID
	case r.CoordinatorType != groupKey:
		code, why = kerr.InvalidRequest.Code, "unsupported coordinator type: want group or transaction"
	}
	ns := c.nodes()
	if code == none && (ns.leader == nil || ns.leader.id == ns.self && c.groups.Ready() != group.OK) {
		code, why = kerr.CoordinatorNotAvailable.Code, "no broker leads"
	}
	find := func(key string) (int16, *string, int32, address) {
		denied := none
		if code == none {
			denied = c.denied(access.Describe, resource, key)
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
