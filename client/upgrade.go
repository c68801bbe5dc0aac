package client

import (
	"context"
	"net/http"
)

// Upgrade returns the format level of the broker's bucket.
func (c *Client) Upgrade(ctx context.Context) (Upgrade, error) {
	var u Upgrade
	err := c.call(ctx, &request{method: http.MethodGet, path: "/upgrade"}, &u)
	return u, err
}

// FinalizeUpgrade raises the bucket to the highest format level that the broker knows, and returns
// the level once that is durable. Programs that do not know the level refuse the bucket from then
// on. A bucket at that level stays unchanged.
func (c *Client) FinalizeUpgrade(ctx context.Context) (Upgrade, error) {
	var u Upgrade
	err := c.call(ctx, &request{method: http.MethodPost, path: "/upgrade", write: true, idempotent: true}, &u)
	return u, err
}
