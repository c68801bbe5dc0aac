package client

import (
	"context"
	"net/http"
)

// Ready reports whether requests would succeed: the broker leads or follows, and the last request
// to its store succeeded. It needs no key. The text of an error has the reason; ErrStoreUnavailable
// is one.
func (c *Client) Ready(ctx context.Context) (Health, error) {
	var h Health
	err := c.call(ctx, &request{method: http.MethodGet, path: "/readyz"}, &h)
	return h, err
}

// Status returns what an operator looks at first. The broker makes no request to the store for it.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.call(ctx, &request{method: http.MethodGet, path: "/status"}, &s)
	return s, err
}
