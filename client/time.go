package client

import (
	"context"
	"net/http"
)

// LogTime returns the time of the broker's log.
func (c *Client) LogTime(ctx context.Context) (LogTime, error) {
	var t LogTime
	err := c.call(ctx, &request{method: http.MethodGet, path: "/time"}, &t)
	return t, err
}

// ResetTime sets the log's time back to the clock of the broker's machine, and returns it once that is durable. Commits from then on have
// earlier times than those before. A log whose time is not later than the clock stays as it is. ErrClockWrong: the store's clock
// contradicts the machine's.
func (c *Client) ResetTime(ctx context.Context) (LogTime, error) {
	var t LogTime
	err := c.call(ctx, &request{method: http.MethodPost, path: "/time/reset", write: true, harmless: true}, &t)
	return t, err
}
