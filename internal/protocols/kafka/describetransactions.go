package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeTransactions (65), v0: the state of transactional IDs, and the partitions in which their open transactions
// have batches.
var _ = register(api{
	key: kmsg.DescribeTransactions, min: 0, max: 0,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.List(wire.Text)}},
	begin: serving((*call).describeTransactions),
})

func (c *call) describeTransactions(_ context.Context, r *kmsg.DescribeTransactionsRequest) (*kmsg.DescribeTransactionsResponse, error) {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range r.TransactionalIDs {
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.TransactionalID, out.ProducerID, out.ProducerEpoch, out.StartTimestamp = id, -1, -1, -1
		switch denied := c.denied(access.Describe, access.TransactionalID, id); {
		case denied != none:
			out.ErrorCode = denied
		case id == "":
			out.ErrorCode = kerr.InvalidRequest.Code
		case !c.b.Leads():
			out.ErrorCode = kerr.NotCoordinator.Code
		default:
			if err := c.describeTransaction(&out); err != nil {
				return nil, err
			}
		}
		resp.TransactionStates = append(resp.TransactionStates, out)
	}
	return resp, nil
}

// describeTransaction describes one transactional ID. The error is that of the memory of the answer.
func (c *call) describeTransaction(out *kmsg.DescribeTransactionsResponseTransactionState) error {
	t, known := c.b.Transaction(out.TransactionalID)
	if !known {
		out.ErrorCode = kerr.TransactionalIDNotFound.Code
		return nil
	}
	if err := c.frame.Charge(transactionBytes + int64(len(t.Parts))*elementBytes); err != nil {
		return err
	}
	out.State, out.TimeoutMillis = txnState(&t), int32(t.Timeout.Milliseconds())
	out.ProducerID, out.ProducerEpoch = t.Producer.ID, t.Producer.Epoch
	if !t.Started.IsZero() {
		out.StartTimestamp = t.Started.UnixMilli()
	}
	at := map[string]int{}
	for _, p := range t.Parts {
		if !c.may(access.Describe, access.Topic, p.Topic) {
			continue
		}
		i, known := at[p.Topic]
		if !known {
			topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			topic.Topic = p.Topic
			i, out.Topics = len(out.Topics), append(out.Topics, topic)
			at[p.Topic] = i
		}
		out.Topics[i].Partitions = append(out.Topics[i].Partitions, p.Partition)
	}
	for i := range out.Topics {
		slices.Sort(out.Topics[i].Partitions)
	}
	return nil
}
