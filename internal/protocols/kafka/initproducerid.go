package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// InitProducerId (22), v0 to v5. Without a transactional ID: a new ID for an idempotent producer, with epoch 0. With
// one: the producer of that ID with its next epoch, so that earlier clients are fenced. An open transaction is
// aborted in the same slot, for which the answer waits, where Kafka answers CONCURRENT_TRANSACTIONS until it is. A
// client that names its ID and epoch (v3, KIP-360) gets them raised, or is fenced.
//
// A timeout above Options.TransactionTimeout is INVALID_TRANSACTION_TIMEOUT. Format levels below that of
// transactions refuse transactional IDs with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which stops a producer at once
// instead of making it retry.
var _ = register(api{
	key: kmsg.InitProducerID, min: 0, max: 5, leader: true,
	shape: wire.Shape{Flexible: 2, Fields: []wire.Field{wire.Text, wire.Int32, wire.Int64.Since(3), wire.Int16.Since(3)}},
	stays: transactionalInit,
	begin: serving((*call).initProducerID),
})

// transactionalInit reports whether a request is for the coordinator of transactions, which clients find themselves. The
// order of its connections counts, so that a standby must not forward it.
func transactionalInit(c *call) bool {
	r, err := decode[kmsg.InitProducerIDRequest](c)
	return err != nil || r.TransactionalID != nil
}

func (c *call) initProducerID(ctx context.Context, r *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case r.TransactionalID != nil:
		c.initTransactions(ctx, r, resp)
	case !c.may(access.IdempotentWrite, access.Cluster, access.ClusterName) && !c.who.AllowSome(access.Write, access.Topic):
		resp.ErrorCode = c.deny(access.IdempotentWrite, access.Cluster, access.ClusterName) // Write on any topic is enough, too
	case halfProducer(r):
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

// halfProducer: only both an ID and its epoch, or none, are valid.
func halfProducer(r *kmsg.InitProducerIDRequest) bool {
	return (r.ProducerID == -1) != (r.ProducerEpoch == -1)
}

// initTransactions gives a transactional ID to a client.
func (c *call) initTransactions(ctx context.Context, r *kmsg.InitProducerIDRequest, resp *kmsg.InitProducerIDResponse) {
	id, timeout := *r.TransactionalID, time.Duration(r.TransactionTimeoutMillis)*time.Millisecond
	ctx, resp.ErrorCode = c.as(ctx, access.Write, access.TransactionalID, id)
	switch {
	case resp.ErrorCode != none:
		return
	case id == "" || halfProducer(r):
		resp.ErrorCode = kerr.InvalidRequest.Code
		return
	case timeout <= 0 || timeout > c.o.TransactionTimeout:
		c.warn("kafka: timeout of a transaction refused", "transactional-id", id, "timeout", timeout, "max", c.o.TransactionTimeout, "setting", "transaction-max-timeout")
		resp.ErrorCode = kerr.InvalidTransactionTimeout.Code
		return
	}
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	was := state.ProducerEpoch{ID: -1}
	if r.ProducerID != -1 {
		was = state.ProducerEpoch{ID: r.ProducerID, Epoch: r.ProducerEpoch}
	}
	p, err := c.b.InitTransactions(ctx, broker.InitTransactions{ID: id, Timeout: timeout, Was: was})
	if err != nil {
		if resp.ErrorCode = c.txnCode(err, initKnowsFenced); resp.ErrorCode != kerr.NotCoordinator.Code {
			c.warn("kafka: transactional ID refused", "transactional-id", id, "err", err)
		}
		return
	}
	c.inited(id, p)
	resp.ProducerID, resp.ProducerEpoch = p.ID, p.Epoch
}
