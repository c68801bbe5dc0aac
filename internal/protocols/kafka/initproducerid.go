package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// InitProducerId (22), v0 to v5: a new ID for an idempotent producer, with epoch 0. Transactions
// are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which stops a producer at once instead of
// making it retry.
var _ = register(api{
	key: kmsg.InitProducerID, min: 0, max: 5, leader: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.Text, wire.Int32, wire.Int64.Since(3), wire.Int16.Since(3)}},
	begin: serving((*call).initProducerID),
})

func (c *call) initProducerID(_ context.Context, r *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case r.TransactionalID != nil:
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
	case !c.may(access.IdempotentWrite, access.Cluster, access.ClusterName) && !c.who.AllowSome(access.Write, access.Topic):
		resp.ErrorCode = c.deny(access.IdempotentWrite, access.Cluster, access.ClusterName) // Write on any topic is enough, too
	case (r.ProducerID == -1) != (r.ProducerEpoch == -1): // only both or none are valid
		resp.ErrorCode = kerr.InvalidRequest.Code
	default:
		id, err := c.b.NewProducerID(c.who.ID())
		if err != nil {
			resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // retry until there is a leader, and a place
			break
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	return resp, nil
}
