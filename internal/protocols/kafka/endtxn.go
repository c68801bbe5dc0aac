package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// EndTxn (26), v0 to v5: commits or aborts a transaction, with all its batches and offsets, in one slot,
// and answers when that is stored. From v5 on the answer has the producer ID and epoch of the next
// transaction (version 2). A repetition gets the answer of the first request; COORDINATOR_NOT_AVAILABLE means
// that the outcome is unknown and the client must ask again. After a takeover an abort of version 1 without records on
// the log may get UNKNOWN_PRODUCER_ID, after which a client takes the next epoch, where INVALID_TXN_STATE would stop it.
// See transactions.go for late requests.
var _ = register(api{
	key: kmsg.EndTxn, min: 0, max: 5,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{wire.Text, wire.Int64, wire.Int16, wire.Bool}},
	begin: coordinating((*call).endTxn),
})

func (c *call) endTxn(ctx context.Context, r *kmsg.EndTxnRequest) (resp *kmsg.EndTxnResponse, late bool) {
	resp = kmsg.NewPtrEndTxnResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	ctx, resp.ErrorCode = c.as(ctx, access.Write, access.TransactionalID, r.TransactionalID)
	if resp.ErrorCode != none {
		return resp, false
	}
	if r.TransactionalID == "" {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, false
	}
	p := state.ProducerEpoch{ID: r.ProducerID, Epoch: r.ProducerEpoch}
	x, current, code := c.enter(ctx, r.TransactionalID, p)
	if resp.ErrorCode = code; code != none {
		return resp, false
	}
	defer x.leave()
	first := c.version < endsWithEpoch
	if current && c.isLate(x, first, true) {
		resp.ErrorCode = lateCode
		return resp, true
	}
	next, err := c.b.EndTransaction(ctx, broker.EndTransaction{ID: r.TransactionalID, Producer: p, Commit: r.Commit, Next: !first})
	if current && !first && errors.Is(err, state.ErrTransactionState) && c.isBegun(x) {
		// The client has added partitions, but sent no records, so the log has nothing to commit. An abort gives the
		// client its next epoch.
		next, err = c.b.EndTransaction(ctx, broker.EndTransaction{ID: r.TransactionalID, Producer: p, Next: true})
	}
	if current {
		err = c.ended(x, r, next, err)
	}
	if resp.ErrorCode = c.txnCode(err, knowsFenced); err == nil {
		resp.ProducerID, resp.ProducerEpoch = next.ID, next.Epoch
	}
	return resp, false
}
