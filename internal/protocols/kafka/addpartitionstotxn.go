package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// AddPartitionsToTxn (24), v0 to v3, those of clients: the partitions to which a transaction of version 1 will
// write. Nothing is stored: the first batch in a partition adds it to the transaction. The leader
// remembers them, and refuses batches to other partitions. v4 and v5 are for the brokers of a Kafka cluster.
var _ = register(api{
	key: kmsg.AddPartitionsToTxn, min: 0, max: 3,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{wire.Text, wire.Int64, wire.Int16, wire.Array(wire.Text, wire.List(wire.Int32))}},
	begin: coordinating((*call).addPartitionsToTxn),
})

func (c *call) addPartitionsToTxn(ctx context.Context, r *kmsg.AddPartitionsToTxnRequest) (resp *kmsg.AddPartitionsToTxnResponse, late bool) {
	resp = kmsg.NewPtrAddPartitionsToTxnResponse()
	all := c.deniedTransaction(r.TransactionalID)
	refused := false
	var partitions []partition
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewAddPartitionsToTxnResponseTopic()
		out.Topic = t.Topic
		code := all
		if code == none {
			code = c.denied(access.Write, access.Topic, t.Topic)
		}
		for _, n := range t.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = n, code
			if code == none && !c.has(t.Topic, n) {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			}
			refused = refused || p.ErrorCode != none
			partitions = append(partitions, partition{t.Topic, n})
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	code := kerr.OperationNotAttempted.Code // all partitions are added, or none
	if !refused {
		p := state.ProducerEpoch{ID: r.ProducerID, Epoch: r.ProducerEpoch}
		code, late = c.begin(ctx, r.TransactionalID, p, func(x *transaction) { x.add(partitions) })
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == none {
				p.ErrorCode = code
			}
		}
	}
	return resp, late
}

// add notes partitions that a client has added.
func (x *transaction) add(partitions []partition) {
	if x.added == nil || len(x.added)+len(partitions) > addedMax {
		x.added = nil
		return
	}
	for _, p := range partitions {
		x.added[p] = struct{}{}
	}
}
