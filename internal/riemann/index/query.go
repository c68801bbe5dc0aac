package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/riemann/query"
	"github.com/sebbroker/seb/internal/trigger/rule"
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
