package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/kafka/conn"
)

// The keys of this file are about features that Seb does not have. The answers are those of a Kafka
// broker that does not use them, so that tools that list everything continue.
var (
	// ListPartitionReassignments (46), v0.
	listPartitionReassignmentsAPI = api{
		key: kmsg.ListPartitionReassignments, min: 0, max: 0,
		shape: conn.Shape{Flexible: 0, Fields: []conn.Field{conn.Int32, conn.Array(conn.Text, conn.List(conn.Int32))}},
		begin: serving(func(*call, context.Context, *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
			return kmsg.NewPtrListPartitionReassignmentsResponse(), nil
		}),
	}
	// DescribeClientQuotas (48), v0 and v1.
	describeClientQuotasAPI = api{
		key: kmsg.DescribeClientQuotas, min: 0, max: 1,
		shape: conn.Shape{Flexible: 1, Fields: []conn.Field{conn.Array(conn.Text, conn.Int8, conn.Text), conn.Bool}},
		begin: serving(func(*call, context.Context, *kmsg.DescribeClientQuotasRequest) (kmsg.Response, error) {
			resp := kmsg.NewPtrDescribeClientQuotasResponse()
			resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null would mean failure
			return resp, nil
		}),
	}
	// DescribeUserScramCredentials (50), v0: any user name is valid, so there is no list of users.
	describeUserSCRAMCredentialsAPI = api{
		key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0,
		shape: conn.Shape{Flexible: 0, Fields: []conn.Field{conn.Array(conn.Text)}},
		begin: serving((*call).describeUserSCRAMCredentials),
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

func (c *call) describeUserSCRAMCredentials(_ context.Context, r *kmsg.DescribeUserSCRAMCredentialsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	for _, u := range r.Users {
		result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		result.User, result.ErrorCode = u.Name, kerr.ResourceNotFound.Code
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

func (c *call) describeTransactions(_ context.Context, r *kmsg.DescribeTransactionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range r.TransactionalIDs {
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.ErrorCode = id, kerr.TransactionalIDNotFound.Code
		resp.TransactionStates = append(resp.TransactionStates, state)
	}
	return resp, nil
}
