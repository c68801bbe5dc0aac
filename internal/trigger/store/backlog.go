package store

import "context"

// Backlog is the number of pending firings, and the time (ms) of the first delivery; 0 if there is
// none.
func (q Queries) Backlog(ctx context.Context) (n, first int64, err error) {
	err = q.query(ctx, func(scan func(...any) error) error { return scan(&n, &first) },
		"SELECT count(*), coalesce(min(due), 0) FROM fire WHERE due IS NOT NULL")
	return n, first, err
}
