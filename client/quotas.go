package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/sebbroker/seb/api"
)

// Quotas returns all quotas, sorted by principal.
func (c *Client) Quotas(ctx context.Context) ([]Quota, error) {
	out, err := get[api.Quotas](ctx, c, "/quotas", nil)
	return out.Quotas, err
}

// SetQuota sets the quota of a principal, which need not exist, or of "*": each principal without a
// quota of its own. It replaces all limits. Once it returns, requests count against the new limits.
func (c *Client) SetQuota(ctx context.Context, q Quota) error {
	body, err := json.Marshal(&q)
	if err != nil {
		return rejected(err)
	}
	r := &request{method: http.MethodPut, path: quotaPath(q.Principal), body: body, write: true, idempotent: true, header: map[string]string{"Content-Type": api.JSON}}
	return c.call(ctx, r, &api.Quota{})
}

// RemoveQuota removes the quota of a principal. Error: ErrUnknownQuota.
func (c *Client) RemoveQuota(ctx context.Context, principal string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: quotaPath(principal), write: true}, nil)
}

func quotaPath(principal string) string { return "/quotas/" + url.PathEscape(principal) }
