package kafka

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/framed"
)

// The protocol has two versions of transactions (KIP-890). In version 2 each transaction has an epoch of
// its own, so a request of an earlier one is fenced. In version 1, which most clients speak, all
// transactions of a producer have one epoch: an EndTxn that a network has held while its client timed
// out, asked again and began the next transaction would end that one. Kafka executes it.
//
//	old connection   EndTxn ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈▶ ends the second transaction
//	new connection            EndTxn ▶  AddPartitions ▶  Produce ▶
//
// The connections are numbered as they are accepted, and the leader remembers for each transactional ID the
// newest connection on which a request to the coordinator came. A request of version 1 on an older
// connection is not executed; its connection ends, with an answer after which a live client finds the
// coordinator and asks again. That is sound because a client has one connection to its coordinator at a
// time: it gives up the old one, with what it has sent there, before it opens the next, which is accepted
// later. Clients that do have two take turns, with a connection for each turn.
//
// All of that is memory of one leadership. What was accepted before it began may be older than what
// another leader has seen, so an EndTxn of version 1 on such a connection is refused, too.

// Versions from which on requests are of transaction version 2.
const (
	endsWithEpoch  = 5  // EndTxn
	addsPartitions = 12 // Produce
	addsGroup      = 5  // TxnOffsetCommit
)

// Versions from which on clients know codes.
const (
	knowsAbortable      = 11 // Produce: TRANSACTION_ABORTABLE
	stageKnowsAbortable = 4  // TxnOffsetCommit: the same
	knowsFenced         = 2  // AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: PRODUCER_FENCED
	initKnowsFenced     = 4  // InitProducerId: the same
)

// deniedTransaction is denied for a request about a transaction. A standby, which may not know topics yet, answers
// NOT_COORDINATOR before they are looked at.
func (c *call) deniedTransaction(id string) int16 {
	code := c.denied(access.Write, access.TransactionalID, id)
	if code == none && !c.b.Leads() {
		return kerr.NotCoordinator.Code
	}
	return code
}

// lateCode makes a live client find the coordinator and ask again.
var lateCode = kerr.CoordinatorNotAvailable.Code

// addedMax bounds the partitions of one transaction that are remembered. A transaction with more is not
// checked.
const addedMax = 10_000

// groupsMax is the same for groups.
const groupsMax = 100

// transactions is what this broker remembers of transactional producers while it leads.
type transactions struct {
	mu    sync.Mutex // guards the fields below, and those of the transactions
	epoch uint32     // of the leadership
	floor uint64     // the newest connection when it began
	known map[string]*transaction
}

// transaction is the memory of one transactional ID.
type transaction struct {
	turn chan struct{} // full while a request ends the transaction or adds offsets to it

	producer state.ProducerEpoch
	newest   uint64 // connection to the transaction coordinator
	offsets  uint64 // newest connection to the group coordinator with a TxnOffsetCommit
	shared   bool   // the client asks both coordinators on one connection
	// The transaction of version 1 that is open as far as its client knows. It may have no records.
	whole  bool                   // this leadership has seen where it began
	begun  bool                   // partitions or a group were added
	groups map[string]struct{}    // that were added; nil: too many
	added  map[partition]struct{} // likewise
	// empty is how the newest transaction ended, if it had no records: the log knows nothing of it.
	empty state.Ending
}

// leads notes that this broker leads in an epoch.
func (t *transactions) leads(epoch uint32, opened *atomic.Uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.atLocked(epoch, opened)
}

func (t *transactions) atLocked(epoch uint32, opened *atomic.Uint64) {
	if t.epoch != epoch || t.known == nil {
		t.epoch, t.floor, t.known = epoch, opened.Load(), map[string]*transaction{}
	}
}

// ofLocked returns the memory of the present producer of a transactional ID.
func (c *call) ofLocked(id string, now state.ProducerEpoch) *transaction {
	t := &c.txns
	x := t.known[id]
	if x == nil {
		if len(t.known) >= 2*state.TransactionsMax {
			// IDs that the log has forgotten: if one of them is used again, it has another producer.
			maps.DeleteFunc(t.known, func(id string, x *transaction) bool {
				_, known := c.b.ProducerOf(id)
				return !known && len(x.turn) == 0
			})
		}
		x = &transaction{turn: make(chan struct{}, 1), producer: now}
		t.known[id] = x
	}
	if x.producer != now { // the broker has ended its transaction
		x.reset(now, false)
	}
	return x
}

// reset notes that no transaction of version 1 is open. whole is false if one may be.
func (x *transaction) reset(producer state.ProducerEpoch, whole bool) {
	x.producer, x.whole, x.begun, x.empty = producer, whole, false, state.EndedNot
	x.groups, x.added = map[string]struct{}{}, map[partition]struct{}{}
}

// enter begins a request of a producer about its transaction, after those that came before. With a code it
// must not be executed. current reports whether the transactional ID has this producer. Without a code
// the caller calls leave.
func (c *call) enter(ctx context.Context, id string, p state.ProducerEpoch) (x *transaction, current bool, code int16) {
	for {
		epoch := c.b.LeadingEpoch()
		now, known := c.b.ProducerOf(id)
		var next *transaction
		switch {
		case epoch == 0:
			code = kerr.NotCoordinator.Code
		case !known:
			code = kerr.InvalidProducerIDMapping.Code
		default:
			next = c.of(epoch, id, now)
		}
		if x != nil && x == next {
			return x, now == p, none // it has the turn, so the producer is the present one
		}
		if x != nil {
			x.leave()
		}
		if x = next; x == nil {
			return nil, false, code
		}
		select {
		case x.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, false, kerr.CoordinatorNotAvailable.Code
		}
	}
}

// of returns the memory of the present producer of a transactional ID.
func (c *call) of(epoch uint32, id string, now state.ProducerEpoch) *transaction {
	t := &c.txns
	t.mu.Lock()
	defer t.mu.Unlock()
	t.atLocked(epoch, &c.opened)
	return c.ofLocked(id, now)
}

func (x *transaction) leave() { <-x.turn }

// isLate notes the connection of a request to the coordinator, and reports whether its client has left it. Requests
// of version 2 are never late: epochs order them.
func (c *call) isLate(x *transaction, first, ends bool) bool {
	t := &c.txns
	t.mu.Lock()
	defer t.mu.Unlock()
	if first && (c.number < x.newest || ends && c.number <= t.floor) {
		return true
	}
	x.newest = max(x.newest, c.number)
	return false
}

// isLateCommit is isLate for a TxnOffsetCommit, which goes to the coordinator of the group. A late one would bring old
// offsets into the next transaction, which names the same group and member. A client that has a connection to each
// coordinator is only compared with what it has sent to that of the group.
func (c *call) isLateCommit(x *transaction) bool {
	t := &c.txns
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.number < x.offsets || c.number <= t.floor || x.shared && c.number < x.newest {
		return true
	}
	x.offsets, x.shared = c.number, c.number == x.newest
	return false
}

// coordinating is serving for requests about a transaction. After the answer to a late request its connection ends.
func coordinating[T any, R request[T], P kmsg.Response](serve func(c *call, ctx context.Context, r R) (resp P, late bool)) func(*call, context.Context) (framed.Finish, error) {
	return func(c *call, _ context.Context) (framed.Finish, error) {
		return func(ctx context.Context) (framed.Answer, error) {
			r, err := decode[T, R](c)
			if err != nil {
				return framed.Answer{}, err
			}
			ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
			defer cancel()
			resp, late := serve(c, ctx, r)
			answer := c.answer(resp, resp.AppendTo)
			if answer.Last = late; late {
				c.warn("kafka: late request of a transaction refused, connection closed", "api", c.api.key.Name())
			}
			return answer, nil
		}, nil
	}
}

// begin notes that a client of version 1 has added partitions or a group to its transaction, and returns the
// code of the request.
func (c *call) begin(ctx context.Context, id string, p state.ProducerEpoch, add func(x *transaction)) (code int16, late bool) {
	if id == "" {
		return kerr.InvalidRequest.Code, false
	}
	x, current, code := c.enter(ctx, id, p)
	if code != none {
		return code, false
	}
	defer x.leave()
	switch {
	case !current:
		return c.txnCode(c.b.Owns(id, p), knowsFenced), false
	case c.isLate(x, true, false):
		return lateCode, true
	}
	c.txns.mu.Lock()
	defer c.txns.mu.Unlock()
	x.begun, x.empty = true, state.EndedNot
	add(x)
	return none, false
}

// inTransaction reports whether a batch of version 1 may be part of its producer's transaction: its partition was
// added, or this leadership does not know.
func (t *transactions) inTransaction(id string, p state.ProducerEpoch, to partition) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.known[id]
	if x == nil || x.producer != p || !x.whole || x.added == nil {
		return true
	}
	_, ok := x.added[to]
	return ok
}

// inited notes that a client has got a transactional ID.
func (c *call) inited(id string, p state.ProducerEpoch) {
	epoch := c.b.LeadingEpoch()
	if epoch == 0 {
		return
	}
	c.txns.mu.Lock()
	defer c.txns.mu.Unlock()
	c.txns.atLocked(epoch, &c.opened)
	x := c.ofLocked(id, p)
	x.reset(p, true)
	x.newest = max(x.newest, c.number)
}

// isBegun reports whether partitions or a group were added to the transaction.
func (c *call) isBegun(x *transaction) bool {
	c.txns.mu.Lock()
	defer c.txns.mu.Unlock()
	return x.begun
}

// errUnseenBegin means that a client may have begun a transaction at an earlier leader, or not know that its last one
// is committed.
var errUnseenBegin = errors.New("unknown whether a transaction had begun before the takeover")

// ended notes how an EndTxn of the present producer has ended, and returns its error. A transaction of version 1 to
// which partitions were added, but no records, is unknown to the log, and to the next leader, where it ends, too. But if
// the last transaction on the log is committed, an abort may be about that one.
func (c *call) ended(x *transaction, r *kmsg.EndTxnRequest, next state.ProducerEpoch, err error) error {
	c.txns.mu.Lock()
	defer c.txns.mu.Unlock()
	ending := state.EndedAborted
	if r.Commit {
		ending = state.EndedCommitted
	}
	undecided := errors.Is(err, state.ErrTransactionState)
	unseen := undecided && c.version < endsWithEpoch && !x.whole && !x.begun
	var last broker.TransactionInfo
	if unseen {
		last, _ = c.b.Transaction(r.TransactionalID)
	}
	switch {
	case x.empty != state.EndedNot && (err == nil || undecided): // a repetition
		if err = nil; x.empty != ending {
			err = state.ErrTransactionState
		}
	case err == nil:
		x.reset(next, true)
	case unseen && !r.Commit && last.Ended == state.EndedCommitted:
		err = errUnseenBegin
	case unseen, undecided && x.begun:
		x.reset(x.producer, true)
		x.empty, err = ending, nil
	}
	return err
}
