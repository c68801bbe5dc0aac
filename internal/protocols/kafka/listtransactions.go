package kafka

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ListTransactions (66), v0 to v2: the transactional IDs that the client may describe, filtered by state, producer
// ID, duration (v1) and a pattern of RE2 (v2). Tools ask every broker; only the leader lists any. The duration
// selects open transactions.
var _ = register(api{
	key: kmsg.ListTransactions, min: 0, max: 2,
	shape: wire.Shape{Flexible: 0, Fields: []wire.Field{
		wire.List(wire.Text), wire.List(wire.Int64), wire.Int64.Since(1), wire.Text.Since(2),
	}},
	begin: serving((*call).listTransactions),
})

// The states of transactions.
const (
	txnEmpty          = "Empty"
	txnOngoing        = "Ongoing"
	txnCompleteCommit = "CompleteCommit"
	txnCompleteAbort  = "CompleteAbort"
)

// txnStates are the states that Kafka knows. A transaction of Seb is never in the last four.
var txnStates = []string{txnEmpty, txnOngoing, txnCompleteCommit, txnCompleteAbort, "PrepareCommit", "PrepareAbort", "Dead", "PrepareEpochFence"}

// txnState is the state of a transaction in Kafka's words.
func txnState(t *broker.TransactionInfo) string {
	switch {
	case !t.Started.IsZero():
		return txnOngoing
	case t.Ended == state.EndedCommitted:
		return txnCompleteCommit
	case t.Ended == state.EndedNot:
		return txnEmpty
	}
	return txnCompleteAbort
}

// transactionBytes bounds the memory of a transaction in an answer, without its partitions.
const transactionBytes = 512

func (c *call) listTransactions(_ context.Context, r *kmsg.ListTransactionsRequest) (*kmsg.ListTransactionsResponse, error) {
	resp := kmsg.NewPtrListTransactionsResponse()
	for _, name := range r.StateFilters {
		if !slices.Contains(txnStates, name) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	pattern, err := regexp.Compile("^(?:" + deref(r.TransactionalIDPattern) + ")$")
	if err != nil {
		resp.ErrorCode = kerr.InvalidRegularExpression.Code
		return resp, nil
	}
	if !c.b.Leads() {
		return resp, nil
	}
	list := c.b.Transactions()
	if err := c.frame.Charge(int64(len(list)) * transactionBytes); err != nil {
		return nil, err
	}
	for i := range list {
		t := &list[i]
		name := txnState(t)
		switch {
		case len(r.StateFilters) > 0 && !slices.Contains(r.StateFilters, name),
			len(r.ProducerIDFilters) > 0 && !slices.Contains(r.ProducerIDFilters, t.Producer.ID),
			r.DurationFilterMillis >= 0 && (t.Started.IsZero() || time.Since(t.Started).Milliseconds() <= r.DurationFilterMillis),
			deref(r.TransactionalIDPattern) != "" && !pattern.MatchString(t.ID),
			!c.may(access.Describe, access.TransactionalID, t.ID):
			continue
		}
		out := kmsg.NewListTransactionsResponseTransactionState()
		out.TransactionalID, out.ProducerID, out.TransactionState = t.ID, t.Producer.ID, name
		resp.TransactionStates = append(resp.TransactionStates, out)
	}
	return resp, nil
}
