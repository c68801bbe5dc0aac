package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// AddOffsetsToTxn (25), v0 to v4: the group whose offsets a transaction of version 1 will commit. Nothing is
// stored: the first TxnOffsetCommit adds the group.
var _ = register(api{
	key: kmsg.AddOffsetsToTxn, min: 0, max: 4,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{wire.Text, wire.Int64, wire.Int16, wire.Text}},
	begin: coordinating((*call).addOffsetsToTxn),
})

func (c *call) addOffsetsToTxn(ctx context.Context, r *kmsg.AddOffsetsToTxnRequest) (resp *kmsg.AddOffsetsToTxnResponse, late bool) {
	resp = kmsg.NewPtrAddOffsetsToTxnResponse()
	if resp.ErrorCode = c.deniedTransaction(r.TransactionalID); resp.ErrorCode == none {
		resp.ErrorCode = c.denied(access.Read, access.Group, r.Group)
	}
	if resp.ErrorCode == none {
		p := state.ProducerEpoch{ID: r.ProducerID, Epoch: r.ProducerEpoch}
		resp.ErrorCode, late = c.begin(ctx, r.TransactionalID, p, func(x *transaction) {
			if len(x.groups) >= groupsMax {
				x.groups = nil
			} else if x.groups != nil {
				x.groups[r.Group] = struct{}{}
			}
		})
	}
	return resp, late
}
