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

// Ready reports whether requests would succeed: the broker leads or follows, and the last request
// to its store succeeded. It needs no key. The text of an error has the reason; ErrStoreUnavailable
// is one.
func (c *Client) Ready(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/readyz", nil)
}

// Live returns the state of a broker that answers, ready or not. It needs no key. Run identifies the
// process.
func (c *Client) Live(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/healthz", nil)
}

// Status returns what an operator looks at first. The broker makes no request to the store for it.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/status", nil)
}

// Stats returns figures of the last hours. Window is 1h, 6h or 24h. The broker makes no request to
// the store for it.
func (c *Client) Stats(ctx context.Context, window string) (Stats, error) {
	return get[Stats](ctx, c, "/stats", url.Values{"window": {window}})
}

// Latency returns how long acknowledgements and PUTs took, as distributions. window is 1h or start.
func (c *Client) Latency(ctx context.Context, window string) (Latency, error) {
	return get[Latency](ctx, c, "/latency", url.Values{"window": {window}})
}

// Cost returns what the bucket costs in this calendar month.
func (c *Client) Cost(ctx context.Context) (Cost, error) {
	return get[Cost](ctx, c, "/cost", nil)
}

// Cluster returns the brokers of the bucket, as the broker that answers sees them.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	return get[Cluster](ctx, c, "/cluster", nil)
}

// HandOver lets a standby lead instead of the leader, and returns the brokers once that leads.
// ErrNoStandby: there is none that can, and the leader continues to lead.
func (c *Client) HandOver(ctx context.Context) (Cluster, error) {
	return post[Cluster](ctx, c, "/cluster/hand-over", nil, false)
}

// Forget removes a broker that will not return, by the Run of its ClusterMember. Errors:
// ErrUnknownBroker, ErrBrokerUp.
func (c *Client) Forget(ctx context.Context, run string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/cluster/" + url.PathEscape(run), write: true, idempotent: true}, nil)
}

// Upgrade returns the format level of the broker's bucket.
func (c *Client) Upgrade(ctx context.Context) (Upgrade, error) {
	return get[Upgrade](ctx, c, "/upgrade", nil)
}

// FinalizeUpgrade raises the bucket to the highest format level that the broker knows, and returns
// the level once that is durable. Programs that do not know the level refuse the bucket from then
// on. A bucket at that level stays unchanged.
func (c *Client) FinalizeUpgrade(ctx context.Context) (Upgrade, error) {
	return post[Upgrade](ctx, c, "/upgrade", nil, true)
}

// Secrets returns the state of the secrets of triggers.
func (c *Client) Secrets(ctx context.Context) (Secrets, error) {
	return get[Secrets](ctx, c, "/secrets", nil)
}

// Rewrap encrypts the secrets of some triggers with the active key of the broker. It can be
// repeated until Left is 0.
func (c *Client) Rewrap(ctx context.Context) (Secrets, error) {
	return post[Secrets](ctx, c, "/secrets/rewrap", nil, true)
}

// LogTime returns the log time of the broker.
func (c *Client) LogTime(ctx context.Context) (LogTime, error) {
	return get[LogTime](ctx, c, "/time", nil)
}

// ResetTime sets the log time back to the clock of the broker's machine, and returns it once that
// is durable. Later commits then have earlier times than previous ones. A log time that is not
// ahead of the clock stays unchanged. Error: ErrClockWrong if the store's clock contradicts the
// machine's.
func (c *Client) ResetTime(ctx context.Context) (LogTime, error) {
	return post[LogTime](ctx, c, "/time/reset", nil, true)
}

// Quotas returns all quotas, sorted by principal.
func (c *Client) Quotas(ctx context.Context) ([]Quota, error) {
	return listed(ctx, c, "/quotas", nil, func(p *api.Quotas) ([]Quota, *string) { return p.Quotas, p.Next })
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

// SigningPair returns the access key and the secret with which a token signs requests of the SQS API. They
// are those of its newest secret, and are valid as long as that. Errors: ErrUnknownToken, ErrForbidden.
func (c *Client) SigningPair(ctx context.Context, id string) (SigningPair, error) {
	return post[SigningPair](ctx, c, "/tokens/"+url.PathEscape(id)+"/aws", nil, false)
}

// Token returns a token, without its secret. Error: ErrUnknownToken.
func (c *Client) Token(ctx context.Context, id string) (Token, error) {
	return get[Token](ctx, c, "/tokens/"+url.PathEscape(id), nil)
}

// Tokens returns all tokens, sorted by ID. A caller that may not see others gets its own.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	return listed(ctx, c, "/tokens", nil, func(p *api.Tokens) ([]Token, *string) { return p.Tokens, p.Next })
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
	return listed(ctx, c, "/acls", f.query(), func(p *api.RuleList) ([]Rule, *string) { return p.Rules, p.Next })
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
