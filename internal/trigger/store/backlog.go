package store

import "context"

// Backlog is how many firings are to be delivered, and when the first of them is (ms; 0 if none is).
func (q Queries) Backlog(ctx context.Context) (n, first int64, err error) {
	err = q.query(ctx, func(scan func(...any) error) error { return scan(&n, &first) },
		"SELECT count(*), coalesce(min(due), 0) FROM fire WHERE due IS NOT NULL")
	return n, first, err
}
