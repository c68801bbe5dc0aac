package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// The keys of this file are about features that Seb does not have. The answers are those of a Kafka
// broker that does not use them, so that tools that list everything continue.
var (
	// ListPartitionReassignments (46), v0.
	_ = register(api{
		key: kmsg.ListPartitionReassignments, min: 0, max: 0,
		shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Int32, wire.Array(wire.Text, wire.List(wire.Int32))}},
		begin: serving(func(c *call, _ context.Context, _ *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
			resp := kmsg.NewPtrListPartitionReassignmentsResponse()
			resp.ErrorCode = c.clusterDenied(access.Describe)
			return resp, nil
		}),
	})
	// DescribeTransactions (65), v0.
	_ = register(api{
		key: kmsg.DescribeTransactions, min: 0, max: 0,
		shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.List(wire.Text)}},
		begin: serving((*call).describeTransactions),
	})
	// ListTransactions (66), v0 to v2.
	_ = register(api{
		key: kmsg.ListTransactions, min: 0, max: 2,
		shape: wire.Shape{Flexible: 0, Fields: []wire.Field{
			wire.List(wire.Text), wire.List(wire.Int64), wire.Int64.Since(1), wire.Text.Since(2),
		}},
		begin: serving(func(*call, context.Context, *kmsg.ListTransactionsRequest) (*kmsg.ListTransactionsResponse, error) {
			return kmsg.NewPtrListTransactionsResponse(), nil
		}),
	})
)

func (c *call) describeTransactions(_ context.Context, r *kmsg.DescribeTransactionsRequest) (*kmsg.DescribeTransactionsResponse, error) {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range r.TransactionalIDs {
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.ErrorCode = id, kerr.TransactionalIDNotFound.Code
		resp.TransactionStates = append(resp.TransactionStates, state)
	}
	return resp, nil
}
