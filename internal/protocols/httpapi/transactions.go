package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// paramOpen asks for transactional IDs with an open transaction only.
const paramOpen = "open"

// Upper bounds of the memory of a transactional ID in an answer, and of a partition of its transaction.
const (
	transactionBytes     = 4 << 10
	transactionPartBytes = 1 << 10
)

// getTransactions answers with one transactional ID, if it is named, or with all.
func (a *API) getTransactions(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	page, open := parsePage(q), q.Bool(paramOpen)
	if _, one := q.Text(httpconn.ParamTransactional); one {
		id := q.TransactionalID()
		if q.Fault != nil {
			return q.Fault
		}
		return a.writeTransaction(w, by, id)
	}
	if q.Fault != nil {
		return q.Fault
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "transactions", page.most)
	for _, ref := range a.b.TransactionRefs() {
		if open && !ref.Open || !page.has(ref.ID) || !by.Allow(access.Describe, access.TransactionalID, ref.ID) {
			continue
		}
		err := l.add(r.Context(), ref.ID, transactionMemory(ref.Parts), func() (any, error) {
			info, known := a.b.Transaction(ref.ID)
			if !known {
				return nil, nil
			}
			return by.transactionOf(&info), nil
		})
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

func transactionMemory(parts int) int64 { return transactionBytes + int64(parts)*transactionPartBytes }

// writeTransaction answers with a transactional ID.
func (a *API) writeTransaction(w http.ResponseWriter, by *caller, id string) error {
	info, known := a.b.Transaction(id)
	if !known {
		return unknownTransaction(id)
	}
	memory, err := a.small(transactionMemory(len(info.Parts)))
	if err != nil {
		return err
	}
	defer memory.Release()
	return a.writeState(w, http.StatusOK, by.transactionOf(&info))
}

func unknownTransaction(id string) error {
	return problem.New(api.UnknownTransaction, "no producer has the transactional ID %s", problem.Quote(id))
}

// transactionOf returns a transactional ID as in answers, with the partitions that the client may see.
func (by *caller) transactionOf(i *broker.TransactionInfo) *api.Transaction {
	t := &api.Transaction{
		ID: i.ID, ProducerID: i.Producer.ID, ProducerEpoch: int32(i.Producer.Epoch), State: stateOf(i), TimeoutSeconds: i.Timeout.Seconds(),
		Changed: i.Changed.UTC(), AgeSeconds: i.Age.Seconds(), Partitions: []api.TransactionPartition{}, StagedOffsets: i.Offsets,
	}
	if !i.Started.IsZero() {
		t.Started = i.Started.UTC()
	}
	for _, p := range i.Parts {
		if by.Allow(access.Describe, access.Topic, p.Topic) {
			t.Partitions = append(t.Partitions, api.TransactionPartition{Topic: p.Topic, Partition: p.Partition, First: p.First, Stable: p.Stable})
		}
	}
	return t
}

func stateOf(i *broker.TransactionInfo) string {
	switch {
	case !i.Started.IsZero():
		return api.TransactionOpen
	case i.Ended == state.EndedCommitted:
		return api.TransactionCommitted
	case i.Ended == state.EndedAborted:
		return api.TransactionAborted
	case i.Ended == state.EndedForced:
		return api.TransactionAbortedByBroker
	}
	return api.TransactionNone
}

// postTransactionAbort aborts the open transaction of a transactional ID, and answers with the ID.
func (a *API) postTransactionAbort(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	id := q.TransactionalID()
	if q.Fault != nil {
		return q.Fault
	}
	ctx, cancel, err := a.changingCluster(r, by, access.Alter)
	if err != nil {
		return err
	}
	defer cancel()
	switch err := a.b.AbortTransaction(ctx, id); {
	case errors.Is(err, state.ErrUnknownTransaction):
		return unknownTransaction(id)
	case errors.Is(err, state.ErrTransactionState):
		return problem.New(api.TransactionState, "the transactional ID %s has no open transaction", problem.Quote(id))
	case err != nil:
		return err
	}
	return a.writeTransaction(w, by, id)
}

// openTransactions describes the open transactions; nil without one. It warns of one that is open for long, because
// readers, triggers, webhooks and ordered queues wait for it.
func (a *API) openTransactions(by *caller, warn func(format string, args ...any)) *api.TransactionsStatus {
	n, oldest := a.b.OpenTransactions(func(id string) bool { return by.Allow(access.Describe, access.TransactionalID, id) })
	if n == 0 {
		return nil
	}
	if oldest.Age > transactionWarning {
		partitions := "partitions"
		if len(oldest.Parts) == 1 {
			partitions = "partition"
		}
		warn("the transaction of %s has been open for %v: readers, triggers, webhooks and ordered queues wait for it in %d %s; see it with seb transaction describe, "+
			"end it with seb transaction abort, or wait until its timeout of %v", problem.Quote(oldest.ID), oldest.Age.Round(time.Second), len(oldest.Parts), partitions, oldest.Timeout)
	}
	return &api.TransactionsStatus{Open: n, OldestID: oldest.ID, OldestSeconds: oldest.Age.Seconds(), Partitions: len(oldest.Parts)}
}
