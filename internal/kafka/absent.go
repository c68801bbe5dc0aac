package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/kafka/conn"
)

// The keys of this file are about features that Seb does not have. The answers are those of a Kafka
// broker that does not use them, so that tools that list everything continue.
var (
	// ListPartitionReassignments (46), v0.
	listPartitionReassignmentsAPI = api{
		key: kmsg.ListPartitionReassignments, min: 0, max: 0,
		shape: conn.Shape{Flexible: 0, Fields: []conn.Field{conn.Int32, conn.Array(conn.Text, conn.List(conn.Int32))}},
		needs: []need{{access.Describe, access.Cluster}},
		begin: serving(func(c *call, _ context.Context, _ *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
			resp := kmsg.NewPtrListPartitionReassignmentsResponse()
			resp.ErrorCode = c.clusterDenied(access.Describe)
			return resp, nil
		}),
	}
	// DescribeTransactions (65), v0.
	describeTransactionsAPI = api{
		key: kmsg.DescribeTransactions, min: 0, max: 0,
		shape: conn.Shape{Flexible: 0, Fields: []conn.Field{conn.List(conn.Text)}},
		begin: serving((*call).describeTransactions),
	}
	// ListTransactions (66), v0 to v2.
	listTransactionsAPI = api{
		key: kmsg.ListTransactions, min: 0, max: 2,
		shape: conn.Shape{Flexible: 0, Fields: []conn.Field{
			conn.List(conn.Text), conn.List(conn.Int64), conn.Int64.Since(1), conn.Text.Since(2),
		}},
		begin: serving(func(*call, context.Context, *kmsg.ListTransactionsRequest) (kmsg.Response, error) {
			return kmsg.NewPtrListTransactionsResponse(), nil
		}),
	}
)

func (c *call) describeTransactions(_ context.Context, r *kmsg.DescribeTransactionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range r.TransactionalIDs {
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.ErrorCode = id, kerr.TransactionalIDNotFound.Code
		resp.TransactionStates = append(resp.TransactionStates, state)
	}
	return resp, nil
}
