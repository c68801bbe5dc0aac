package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/protocols/riemann/query"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// TooManyError: the matching events exceed the limit of an answer.
type TooManyError struct {
	Matches      int
	Bytes, Limit int64
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d events match (%d bytes, the limit is %d), narrow the query", e.Matches, e.Bytes, e.Limit)
}

// checkEvery is the number of events after which a query examines its context.
const checkEvery = 256

// Query calls each for the events that match, in no order, after it has found that all fit into limit
// bytes, and into the limit of an answer. The event is valid during the call; its memory may be kept. A query that demands host and
// service reads one event. Errors: *TooManyError, ErrUnavailable, ErrClosed, ctx's, and each's.
func (x *Index) Query(ctx context.Context, q *query.Query, limit int64, each func(e *Event) error) error {
	if err := x.takeSlot(ctx); err != nil {
		return err
	}
	defer x.freeSlot()
	x.fileLock.RLock()
	defer x.fileLock.RUnlock()
	if x.file == nil {
		_, _, err := x.peek()
		return err // nil: the topic does not exist
	}
	return x.answer(ctx, x.file.Readers, q, min(limit, x.opt.AnswerBytes), each)
}

// takeSlot waits until a connection to the file is free for a query.
func (x *Index) takeSlot(ctx context.Context) error {
	select {
	case x.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (x *Index) freeSlot() { <-x.slots }

// querier is a pool of connections, or a transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// answer is Query on a connection.
func (x *Index) answer(ctx context.Context, db querier, q *query.Query, limit int64, each func(e *Event) error) error {
	found, err := collect(ctx, db, q, limit)
	err = localdb.Classify(err)
	switch {
	case errors.Is(err, localdb.ErrDamaged):
		x.mu.Lock()
		x.broken = err
		x.mu.Unlock()
		x.loop.Wake()
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	for i := range found {
		if err := each(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

// selected returns the rows that can match a query.
func selected(ctx context.Context, db querier, q *query.Query) (*sql.Rows, error) {
	const columns = "SELECT key, part, off, at, coalesce(due, -1), time, data, sum FROM entry"
	if host, service, ok := q.Key(); ok && len(host) < rule.EntityBytesMax && len(service) < rule.NameBytesMax {
		return db.QueryContext(ctx, columns+" WHERE key = ?", keyOf(nil, host, service))
	}
	return db.QueryContext(ctx, columns)
}

// collect returns the events that match. Beyond the limit it only counts.
func collect(ctx context.Context, db querier, q *query.Query, limit int64) (found []Event, err error) {
	rows, err := selected(ctx, db, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var event Event
	over := TooManyError{Limit: limit}
	for n := 1; rows.Next(); n++ {
		var key, data sql.RawBytes
		var e entry
		var sum uint32
		if err := rows.Scan(&key, &e.part, &e.offset, &e.at, &e.due, &e.time, &data, &sum); err != nil {
			return nil, err
		}
		if n%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e.key, e.data = key, data
		if err := e.check(sum); err != nil {
			return nil, err
		}
		if event.set(&e); !q.Match(&event) {
			continue
		}
		over.Matches++
		if over.Bytes += answerBytes(&e); over.Bytes > over.Limit {
			found = nil
			continue
		}
		both := append(append([]byte{}, e.key...), e.data...)
		e.key, e.data = both[:len(key):len(key)], both[len(key):]
		found = append(found, Event{})
		found[len(found)-1].set(&e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if over.Bytes > over.Limit {
		return nil, &over
	}
	return found, nil
}

// matchBytes is the memory of a match without its key and data.
const matchBytes = 160

// answerBytes is what an event counts in an answer.
func answerBytes(e *entry) int64 { return int64(len(e.key) + len(e.data) + matchBytes) }

// ErrSlow: a subscriber took too long to receive events, so its subscription has ended.
var ErrSlow = errors.New("the subscriber is too slow")

// Subscription receives events as they are read from the log.
type Subscription struct {
	x     *Index
	query *query.Query
	event Event // of the worker

	mu    sync.Mutex  // guards the fields below
	queue [][]byte    // events as JSON, in order
	bytes int64       // of queue
	err   error       // why it has ended
	more  wake.Signal // queue or err has changed
}

// Subscribe calls each for the events in the index that match, and returns a subscription to those
// that come after them: no event is missing or repeated between the two. An expired event comes
// when the index has deleted it. Call Close of the subscription. Errors: those of Query.
func (x *Index) Subscribe(ctx context.Context, q *query.Query, each func(e *Event) error) (*Subscription, error) {
	if err := x.takeSlot(ctx); err != nil {
		return nil, err
	}
	defer x.freeSlot()
	s := &Subscription{x: x, query: q, more: wake.New()}
	var tx *sql.Tx
	// Do is not canceled, because its function leaves a lock to this one.
	if err := x.loop.Do(context.WithoutCancel(ctx), func(context.Context) (err error) {
		tx, err = x.worker.subscribe(ctx, s)
		return err
	}); err != nil {
		return nil, err
	}
	err := x.first(ctx, tx, q, each)
	x.fileLock.RUnlock()
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// first is the query of a subscription.
func (x *Index) first(ctx context.Context, tx *sql.Tx, q *query.Query, each func(e *Event) error) error {
	if tx == nil {
		return nil
	}
	defer tx.Rollback() //nolint:errcheck // it only reads
	return x.answer(ctx, tx, q, x.opt.AnswerBytes, each)
}

// subscribe adds a subscription between two turns, and returns a transaction that sees the file as
// it is now; nil if the topic does not exist. Without an error the caller holds the lock of the file
// shared: the loop, which calls subscribe, is the only one that takes it exclusively.
func (w *worker) subscribe(ctx context.Context, s *Subscription) (tx *sql.Tx, err error) {
	if _, _, err := w.peek(); err != nil {
		return nil, err
	}
	if w.f != nil {
		if tx, err = w.f.Readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
			return nil, err
		}
		var id int // a transaction begins with its first read
		if err := tx.QueryRowContext(ctx, "SELECT id FROM meta").Scan(&id); err != nil {
			return nil, errors.Join(localdb.Classify(err), tx.Rollback())
		}
	}
	w.fileLock.RLock()
	w.subscribers[s] = struct{}{}
	w.met.subscribers.Store(int64(len(w.subscribers)))
	return tx, nil
}

// end ends a subscription.
func (w *worker) end(s *Subscription, why error) {
	delete(w.subscribers, s)
	w.met.subscribers.Store(int64(len(w.subscribers)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = why
	}
	s.more.Send()
}

// tell gives events to the subscribers whose query they match.
func (w *worker) tell(list []*entry) {
	for s := range w.subscribers {
		for _, e := range list {
			s.event.set(e)
			if s.query.Match(&s.event) && !s.add(s.event.AppendJSON(nil), w.opt.QueueBytes) {
				w.met.dropped.Inc()
				w.end(s, ErrSlow)
				break
			}
		}
	}
}

// add queues an event; false if the queue is full.
func (s *Subscription) add(event []byte, most int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes += int64(len(event)); s.bytes > most && len(s.queue) > 0 {
		return false
	}
	s.queue = append(s.queue, event)
	s.more.Send()
	return true
}

// Next waits for events and returns them as JSON, in order; none if ctx ends first. After ErrSlow,
// ErrUnavailable or ErrClosed the subscription has ended.
func (s *Subscription) Next(ctx context.Context) (events [][]byte, err error) {
	for {
		s.mu.Lock()
		events, err = s.queue, s.err
		s.queue, s.bytes = nil, 0
		s.mu.Unlock()
		if len(events) > 0 {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return nil, nil
		case <-s.x.loop.Done():
			return nil, ErrClosed
		}
	}
}

// Slow ends the subscription, and counts it as one whose client is too slow.
func (s *Subscription) Slow() {
	s.x.met.dropped.Inc()
	s.Close()
}

// Close ends the subscription. It may be called twice.
func (s *Subscription) Close() {
	_ = s.x.loop.Do(context.Background(), func(context.Context) error { // a closed loop has ended it
		s.x.worker.end(s, ErrClosed)
		return nil
	})
}
