package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
)

// DefaultOverlap is the usual overlap of a rotation.
const DefaultOverlap = 24 * time.Hour

// CreateToken creates a token. The result is the only place where its secret is shown: pass it as
// Options.APIKey, or as the password of the Kafka user with its ID. Error: ErrTokenExists, and
// ErrForbidden for a right that the caller does not have itself.
func (c *Client) CreateToken(ctx context.Context, spec TokenSpec) (CreatedToken, error) {
	var out CreatedToken
	body, err := json.Marshal(&spec)
	if err != nil {
		return out, rejected(err)
	}
	err = c.call(ctx, &request{method: http.MethodPost, path: "/tokens", body: body, write: true, header: map[string]string{"Content-Type": api.JSON}}, &out)
	return out, err
}

// RotateToken makes a new secret for a token. The previous one stays valid for the time of overlap;
// 0 ends it at once. It cannot rotate again. Errors: ErrUnknownToken, ErrForbidden.
func (c *Client) RotateToken(ctx context.Context, id string, overlap time.Duration) (CreatedToken, error) {
	return post[CreatedToken](ctx, c, "/tokens/"+url.PathEscape(id)+"/rotate", url.Values{"overlap": {overlap.String()}}, false)
}

// Token returns a token, without its secret. Error: ErrUnknownToken.
func (c *Client) Token(ctx context.Context, id string) (Token, error) {
	return get[Token](ctx, c, "/tokens/"+url.PathEscape(id), nil)
}

// Tokens returns all tokens, sorted by ID. A caller that may not see others gets its own.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	out, err := get[api.Tokens](ctx, c, "/tokens", nil)
	return out.Tokens, err
}

// RevokeToken deletes a token with its rules. Once it returns nil, no data is sent to clients with
// the token, and no record of theirs is stored. Error: ErrUnknownToken.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/tokens/" + url.PathEscape(id), write: true}, nil)
}

// RuleFilter selects rules: "" and nil select any value.
type RuleFilter struct {
	Principal string
	Resource  string
	Pattern   string
	Operation string
	Deny      *bool
	Host      string // "*": rules for every address
}

func (f *RuleFilter) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{
		"principal": f.Principal, "resource": f.Resource, "pattern": f.Pattern, "operation": f.Operation, "host": f.Host,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if f.Deny != nil {
		q.Set("deny", strconv.FormatBool(*f.Deny))
	}
	return q
}

// Rules returns the rules that match a filter, sorted.
func (c *Client) Rules(ctx context.Context, f RuleFilter) ([]Rule, error) {
	out, err := get[api.Rules](ctx, c, "/acls", f.query())
	return out.Rules, err
}

// AddRules adds rules: all of them, or none. Rules that exist stay as they are. Error: ErrForbidden
// for a permission that the caller does not have itself.
func (c *Client) AddRules(ctx context.Context, rules []Rule) error {
	body, err := json.Marshal(&api.Rules{Rules: rules})
	if err != nil {
		return rejected(err)
	}
	r := &request{method: http.MethodPost, path: "/acls", body: body, write: true, idempotent: true, header: map[string]string{"Content-Type": api.JSON}}
	return c.call(ctx, r, &api.Rules{})
}

// RemoveRules removes the rules that match a filter, which must have a field, and returns them.
func (c *Client) RemoveRules(ctx context.Context, f RuleFilter) ([]Rule, error) {
	var out api.Rules
	err := c.call(ctx, &request{method: http.MethodDelete, path: "/acls", query: f.query(), write: true}, &out)
	return out.Rules, err
}
