package httpapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// transactor is a transactional producer of the broker of a test.
type transactor struct {
	*server
	id  string
	now state.ProducerEpoch
}

func (s *server) transactor(id string) *transactor {
	s.t.Helper()
	now := must.Get(s.b.InitTransactions(s.t.Context(), broker.InitTransactions{ID: id, Timeout: time.Hour, Was: state.ProducerEpoch{ID: -1}}))(s.t)
	return &transactor{s, id, now}
}

// send adds a record to the transaction.
func (x *transactor) send(topic string, sequence int32, value string) int64 {
	x.t.Helper()
	r := brokertest.Try(x.t.Context(), x.b, brokertest.AppendWith(topic, 0, record.EncodeOptions{
		Transactional: true, Producer: &record.Producer{ID: x.now.ID, Epoch: x.now.Epoch, Sequence: sequence},
	}, record.Record{Value: []byte(value)}))
	must.NoError(x.t, r.Err)
	return r.Base
}

func (x *transactor) end(commit bool) error {
	ctx, cancel := context.WithTimeout(x.t.Context(), sebtest.Limit)
	defer cancel()
	now, err := x.b.EndTransaction(ctx, broker.EndTransaction{ID: x.id, Producer: x.now, Commit: commit, Next: true})
	if err == nil {
		x.now = now
	}
	return err
}

// ownTransaction opens a transaction with an offset of a group.
func ownTransaction(s *server, n int) {
	s.t.Helper()
	x := s.transactor(fmt.Sprintf("payments%d", n))
	err := s.b.StageOffsets(s.t.Context(), broker.StageOffsets{ID: x.id, Producer: x.now, Group: "g", Commits: []broker.OffsetCommit{{Topic: "t", Offset: 1}}})[0]
	must.NoError(s.t, err)
}

func (s *server) transaction(id string) (t api.Transaction) {
	s.t.Helper()
	s.must(200, s.get("/transactions?transactional-id="+url.QueryEscape(id)), &t)
	return t
}

// TestTransactions: an operator sees the open transaction for which readers wait, and ends it.
func TestTransactions(t *testing.T) {
	s := start(t)
	newTopic(s, "a", 1)
	newTopic(s, "b", 1)
	s.mustPost("topic-name=a", api.TextPlain, "before")
	x := s.transactor("pay ments/1")
	if got := s.transaction(x.id); got.State != api.TransactionNone || !got.Started.IsZero() || got.AgeSeconds != 0 || got.TimeoutSeconds != 3600 {
		t.Errorf("before the first transaction: %+v", got)
	}
	first := x.send("a", 0, "one")
	x.send("b", 0, "two")
	x.send("a", 1, "three")
	s.mustPost("topic-name=a", api.TextPlain, "after")
	got := s.transaction(x.id)
	if got.Started.IsZero() || got.AgeSeconds < 0 {
		t.Errorf("began at %v, %v s ago", got.Started, got.AgeSeconds)
	}
	want := []api.TransactionPartition{{Topic: "a", First: first, Stable: first}, {Topic: "b"}}
	check.EqualSlicesf(t, got.Partitions, want, "partitions")
	got.Started, got.Changed, got.AgeSeconds, got.Partitions = time.Time{}, time.Time{}, 0, nil
	check.Equalf(t, fmt.Sprint(got), fmt.Sprint(api.Transaction{ID: x.id, ProducerID: x.now.ID, State: api.TransactionOpen, TimeoutSeconds: 3600}), "open")

	narrow := s.token("narrow", time.Time{}, permit(access.Describe, access.TransactionalID, access.Any), permit(access.Describe, access.Topic, "b"))
	var list api.Transactions
	s.must(200, s.as(narrow, "GET", "/transactions", ""), &list)
	if len(list.Transactions) != 1 || len(list.Transactions[0].Partitions) != 1 || list.Transactions[0].Partitions[0].Topic != "b" {
		t.Errorf("a client that may describe topic b sees %+v", list)
	}

	s.transactor("idle")
	s.must(200, s.get("/transactions?open=true"), &list)
	if len(list.Transactions) != 1 || list.Transactions[0].ID != x.id {
		t.Errorf("open transactions: %+v", list)
	}

	read := func() string { return string(s.get("/records?topic-name=a&offset=0&timeout=0s", api.NDJSON).body) }
	if body := read(); !strings.Contains(body, "before") || strings.Contains(body, "after") {
		t.Errorf("committed reads beside an open transaction: %s", body)
	}
	var aborted api.Transaction
	s.must(200, s.send("POST", "/transactions/abort?transactional-id="+url.QueryEscape(x.id), ""), &aborted)
	if aborted.ID != x.id || aborted.State != api.TransactionAbortedByBroker || !aborted.Started.IsZero() || len(aborted.Partitions) > 0 || aborted.ProducerEpoch != int32(x.now.Epoch)+1 {
		t.Errorf("after the abort: %+v", aborted)
	}
	if body := read(); !strings.Contains(body, "after") || strings.Contains(body, "one") || strings.Contains(body, "three") {
		t.Errorf("committed reads after the abort: %s", body)
	}
	must.ErrorIs(t, x.end(true), state.ErrTransactionEnded)
	for _, commit := range []bool{true, false} {
		y := s.transactor("other")
		y.send("a", 0, "v")
		must.NoError(t, y.end(commit))
		if got, want := s.transaction("other").State, map[bool]string{true: api.TransactionCommitted, false: api.TransactionAborted}[commit]; got != want {
			t.Errorf("state after its end is %s, want %s", got, want)
		}
	}
}

func TestTransactionFaults(t *testing.T) {
	s := start(t)
	s.transactor("idle")
	for path, want := range map[string]api.Code{
		"/transactions/abort?transactional-id=idle": api.TransactionState, "/transactions/abort?transactional-id=none": api.UnknownTransaction,
		"/transactions/abort": api.BadRequest, "/transactions/abort?transactional-id=": api.BadRequest, "/transactions/abort?transactional-id=%00": api.BadRequest,
		"/transactions/abort?id=idle": api.BadRequest,
	} {
		if p := s.send("POST", path, "").problem(t); p.Code != want || p.Status != api.Statuses[want] {
			t.Errorf("POST %s: %+v, want %s", path, p, want)
		}
	}
	for path, want := range map[string]api.Code{
		"/transactions?transactional-id=none": api.UnknownTransaction, "/transactions?transactional-id=": api.BadRequest, "/transactions?limit=x": api.BadRequest,
	} {
		if p := s.get(path).problem(t); p.Code != want {
			t.Errorf("GET %s: %+v, want %s", path, p, want)
		}
	}
	for err, want := range map[error]api.Code{
		state.ErrTransactionsFull: api.OverBudget, state.ErrAbortedFull: api.OverBudget, state.ErrTransactionEnded: api.TransactionState,
		state.ErrTransactionFenced: api.ProducerFenced, state.ErrUnknownTransaction: api.UnknownTransaction,
	} {
		if p := problemOf(err); p.Code != want || p.Detail != err.Error() {
			t.Errorf("%v: %+v, want %s", err, p, want)
		}
	}
}

// TestStatusShowsTransactions: GET /status shows the oldest open transaction to a client that may describe it, and
// warns once readers have waited for a minute.
func TestStatusShowsTransactions(t *testing.T) {
	clock := &movable{}
	s := start(t, func(c *setup) { c.broker.Now = clock.now })
	newTopic(s, "t", 1)
	status := func(key string) api.Status {
		t.Helper()
		var got api.Status
		s.must(200, s.as(key, "GET", "/status", ""), &got)
		return got
	}
	if got := status(canary); got.Transactions != nil {
		t.Errorf("without a transaction: %+v", got.Transactions)
	}
	old := s.transactor("old")
	old.send("t", 0, "v")
	young := s.transactor("young")
	young.send("t", 0, "v")
	clock.move(40 * time.Second) // the clock of ages, which is not that of the log
	got := status(canary)
	if x := got.Transactions; x == nil || x.Open != 2 || x.OldestID != "old" || x.OldestSeconds < 40 || x.OldestSeconds > 60 || x.Partitions != 1 || len(got.Warnings) > 0 {
		t.Errorf("two young transactions: %+v, %q", got.Transactions, got.Warnings)
	}
	clock.move(30 * time.Second)
	const want = `the transaction of "old" has been open for 1m`
	if got := status(canary); len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], want) || !strings.Contains(got.Warnings[0], "in 1 partition;") {
		t.Errorf("warnings after a minute: %q", got.Warnings)
	}
	metrics := permit(access.Describe, access.Metrics, access.MetricsName)
	key := s.token("blind", time.Time{}, metrics, permit(access.Describe, access.TransactionalID, "young"))
	if got := status(key); got.Transactions.Open != 2 || got.Transactions.OldestID != "young" || len(got.Warnings) != 1 || strings.Contains(got.Warnings[0], "old\"") {
		t.Errorf("a client that may describe one: %+v, %q", got.Transactions, got.Warnings)
	}
	if got := status(s.token("blinder", time.Time{}, metrics)); got.Transactions.Open != 2 || got.Transactions.OldestID != "" || len(got.Warnings) > 0 {
		t.Errorf("a client that may describe none: %+v, %q", got.Transactions, got.Warnings)
	}
	must.NoError(t, old.end(true))
	must.NoError(t, young.end(true))
	if got := status(canary); got.Transactions != nil || len(got.Warnings) > 0 {
		t.Errorf("after the ends: %+v, %q", got.Transactions, got.Warnings)
	}
}
