package client

import (
	"context"
	"net/http"
)

// LogTime returns the log time of the broker.
func (c *Client) LogTime(ctx context.Context) (LogTime, error) {
	var t LogTime
	err := c.call(ctx, &request{method: http.MethodGet, path: "/time"}, &t)
	return t, err
}

// ResetTime sets the log time back to the clock of the broker's machine, and returns it once that
// is durable. Later commits then have earlier times than previous ones. A log time that is not
// ahead of the clock stays unchanged. Error: ErrClockWrong if the store's clock contradicts the
// machine's.
func (c *Client) ResetTime(ctx context.Context) (LogTime, error) {
	var t LogTime
	err := c.call(ctx, &request{method: http.MethodPost, path: "/time/reset", write: true, idempotent: true}, &t)
	return t, err
}
