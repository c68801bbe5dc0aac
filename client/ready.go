package client

import (
	"context"
	"net/http"
)

// Ready asks whether requests would succeed: the broker leads, or follows if it is read-only, and the
// last answer of its store was good. It needs no key. Errors: ErrStoreUnavailable and the like, with
// what is missing in their text.
func (c *Client) Ready(ctx context.Context) (Health, error) {
	var h Health
	err := c.call(ctx, &request{method: http.MethodGet, path: "/readyz"}, &h)
	return h, err
}
