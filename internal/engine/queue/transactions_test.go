package queue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// worked leases and finishes all messages that a queue gives, and returns their values.
func (f *fixture) worked(name string) string {
	f.t.Helper()
	var values []string
	for {
		l := must.Get(f.q.Lease(f.t.Context(), queue.LeaseRequest{Queue: name, Max: 100, By: "w"}))(f.t)
		l.Release()
		if len(l.List) == 0 {
			return strings.Join(values, " ")
		}
		for _, m := range l.List {
			values = append(values, string(m.Value))
			must.NoError(f.t, f.settle(name, queue.Finish, m))
		}
	}
}

// done returns the values of the messages that are done.
func (f *fixture) done(name string) string {
	f.t.Helper()
	done, _, err := f.q.Peek(f.t.Context(), queue.PeekRequest{Queue: name, State: queue.Done, Max: 100})
	must.NoError(f.t, err)
	var values []string
	for _, m := range done {
		values = append(values, string(m.Value))
	}
	slices.Reverse(values)
	return strings.Join(values, " ")
}

func keyed(key, value string) record.Record {
	return record.Record{Key: []byte(key), Value: []byte(value)}
}

// TestTransactions: workers get the messages of a transaction once it is committed, and never those of one that was
// aborted. Others do not wait for it, unless the queue keeps the order of keys.
func TestTransactions(t *testing.T) {
	for _, mode := range []string{state.KeyNone, state.KeyFair, state.KeyOrder} {
		t.Run("key-mode "+mode, func(t *testing.T) {
			s := objstore.NewMemory()
			f := open(t, s)
			f.create("q", "key-mode", mode)
			x, y := brokertest.NewTransactor(t, f.b, "x"), brokertest.NewTransactor(t, f.b, "y")
			f.send("q", queue.Message{Value: []byte("before"), Key: []byte("k")})
			x.Send(t, "q", 0, keyed("k", "x1"), keyed("l", "x2"))
			f.send("q", queue.Message{Value: []byte("between"), Key: []byte("k")})
			y.Send(t, "q", 0, keyed("k", "y1"))
			x.Send(t, "q", 0, keyed("k", "x3"))
			f.send("q", queue.Message{Value: []byte("after"), Key: []byte("k")})

			early, late, delayed := "before between after", "", int64(4)
			if mode == state.KeyOrder {
				early, late, delayed = "before", "between after", 6
			}
			check.Equal(t, f.worked("q"), early)
			i := f.info("q")
			check.Equal(t, i.Delayed, delayed)
			check.Equal(t, i.Ready, 0)
			check.Equal(t, i.OldestReady.IsZero(), true)
			check.Equal(t, i.Left(), int64(4+len(strings.Fields(late))))

			y.End(t, false)
			check.Equalf(t, f.worked("q"), "", "after an abort within another transaction")
			check.Equal(t, f.info("q").Delayed, delayed-1)
			y.Send(t, "q", 0, keyed("m", "y2"))
			check.Equal(t, f.worked("q"), "")
			y.End(t, true)
			if mode != state.KeyOrder {
				check.Equalf(t, f.worked("q"), "y2", "after a commit within another transaction")
			}
			f.close()
			f = open(t, s) // a takeover in the middle
			check.Equal(t, f.worked("q"), "")
			x.Through(f.b)
			x.End(t, true)
			want := "x1 x2 x3"
			if mode == state.KeyOrder {
				want = "x1 x2 y2 between x3 after"
			}
			check.Equal(t, f.worked("q"), want)
			i = f.info("q")
			check.Equal(t, i.Left(), 0)
			check.Equal(t, i.Delayed, 0)
			ref, _ := f.b.TopicNamed("q")
			f.b.ReadQueue(ref.ID, 0, func(q *state.Queue, p *state.Partition) {
				check.Equal(t, q.Done, p.Next)
				check.Equal(t, q.Runs.Len(), 0)
			})
			check.Equal(t, f.done("q"), "before x1 x2 between x3 after y2")
		})
	}
}

// TestTransactionsSeeNoPurge: a purge leaves the messages of open transactions, which are there from the commit on. It
// is not offered to change a message that is not committed.
func TestTransactionsSeeNoPurge(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	x := brokertest.NewTransactor(t, f.b, "x")
	f.send("q", text("a"))
	at := x.Send(t, "q", 0, keyed("k", "x1"))
	f.send("q", text("b"))
	x.Send(t, "q", 0, keyed("k", "x2"))
	check.Equal(t, must.Get(f.q.Purge(t.Context(), "q"))(t), 2)
	list, _, err := f.q.Peek(t.Context(), queue.PeekRequest{Queue: "q", Max: 10})
	must.NoError(t, err)
	check.Equal(t, len(list), 0)
	check.ErrorIs(t, f.q.Cancel(t.Context(), "q", queue.ID{Offset: at}), queue.ErrUnknownMessage)
	f.create("other")
	moved := must.Get(f.q.Redrive(t.Context(), queue.RedriveRequest{Queue: "q", To: "other", Max: 10}))(t)
	check.Equal(t, moved.Moved, 0)
	x.End(t, true)
	check.Equal(t, f.worked("q"), "x1 x2")
	check.Equal(t, f.worked("other"), "")
}

// TestATransactionThatIsAborted: the broker aborts it, and the queue forgets its messages.
func TestATransactionThatIsAborted(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q", "dead-letter", "none")
	x := brokertest.NewTransactor(t, f.b, "x")
	for range 3 {
		x.Send(t, "q", 0, keyed("k", "v"))
	}
	must.NoError(t, f.b.AbortTransaction(t.Context(), "x"))
	check.Equal(t, f.worked("q"), "")
	i := f.info("q")
	check.Equal(t, i.Left(), 0)
	x = brokertest.NewTransactor(t, f.b, "x")
	x.Send(t, "q", 0, keyed("k", "open"))
	must.NoError(t, f.b.DeleteTopic(t.Context(), "q"))
	x.End(t, true)
}

// TestDoneBehindATransaction: messages that are done are listed also behind an open transaction, without those of
// aborted ones.
func TestDoneBehindATransaction(t *testing.T) {
	f := open(t, objstore.NewMemory())
	f.create("q")
	x, y := brokertest.NewTransactor(t, f.b, "x"), brokertest.NewTransactor(t, f.b, "y")
	y.Send(t, "q", 0, keyed("k", "y1")) // the first message of the queue
	y.End(t, false)
	x.Send(t, "q", 0, keyed("k", "x1"))
	f.send("q", text("a"))
	y.Send(t, "q", 0, keyed("k", "y2"))
	y.End(t, false)
	y.Send(t, "q", 0, keyed("k", "y3"))
	y.End(t, true)
	check.Equal(t, f.worked("q"), "a y3")
	check.Equal(t, f.done("q"), "a y3")
}
