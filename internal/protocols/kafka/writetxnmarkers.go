package kafka

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// WriteTxnMarkers (27), v0 and v1, of `kafka-transactions.sh abort`: aborts the open transaction of a producer, in
// all its partitions, and fences the producer. Brokers of a Kafka cluster write markers with it; Seb has no use for
// that, so a commit is INVALID_REQUEST.
var _ = register(api{
	key: kmsg.WriteTxnMarkers, min: 0, max: 1,
	shape: wire.Shape{Flexible: 1, Fields: []wire.Field{
		wire.Array(wire.Int64, wire.Int16, wire.Bool, wire.Array(wire.Text, wire.List(wire.Int32)), wire.Int32),
	}},
	begin: serving((*call).writeTxnMarkers),
})

func (c *call) writeTxnMarkers(ctx context.Context, r *kmsg.WriteTxnMarkersRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	o := access.Alter
	if !c.may(o, access.Cluster, access.ClusterName) && c.may(access.ClusterAction, access.Cluster, access.ClusterName) {
		o = access.ClusterAction
	}
	ctx, denied := c.as(ctx, o, access.Cluster, access.ClusterName)
	for i := range r.Markers {
		m := &r.Markers[i]
		code := denied
		if code == none {
			code = c.writeMarker(ctx, m)
		}
		out := kmsg.NewWriteTxnMarkersResponseMarker()
		out.ProducerID = m.ProducerID
		for j := range m.Topics {
			topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			topic.Topic = m.Topics[j].Topic
			for _, n := range m.Topics[j].Partitions {
				p := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				if p.Partition, p.ErrorCode = n, code; code == none && !c.has(topic.Topic, n) {
					p.ErrorCode = kerr.UnknownTopicOrPartition.Code
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return resp, nil
}

// writeMarker aborts the transaction of a producer, if the producer has one in the named partitions.
func (c *call) writeMarker(ctx context.Context, m *kmsg.WriteTxnMarkersRequestMarker) int16 {
	if m.Committed {
		return kerr.InvalidRequest.Code
	}
	if !c.b.Leads() {
		return kerr.NotLeaderForPartition.Code
	}
	id := c.b.TransactionalID(m.ProducerID)
	t, known := c.b.Transaction(id)
	switch {
	case !known || !holds(&t, m):
		return none // as in Kafka, where the marker has no effect
	case t.Producer != state.ProducerEpoch{ID: m.ProducerID, Epoch: m.ProducerEpoch}:
		return kerr.InvalidProducerEpoch.Code
	}
	err := c.b.AbortDescribed(ctx, &t) // a later one may have the same epoch
	if errors.Is(err, state.ErrTransactionState) {
		return none // it has ended meanwhile
	}
	if code := TransactionCode(err); code != kerr.NotCoordinator.Code {
		return code
	}
	return kerr.NotLeaderForPartition.Code
}

// holds reports whether a transaction has batches in a partition of a request.
func holds(t *broker.TransactionInfo, m *kmsg.WriteTxnMarkersRequestMarker) bool {
	return slices.ContainsFunc(t.Parts, func(p broker.TransactionPart) bool {
		return slices.ContainsFunc(m.Topics, func(named kmsg.WriteTxnMarkersRequestMarkerTopic) bool {
			return named.Topic == p.Topic && slices.Contains(named.Partitions, p.Partition)
		})
	})
}
