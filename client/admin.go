package client

import (
	"context"
	"net/http"
	"net/url"
)

// Ready reports whether requests would succeed: the broker leads or follows, and the last request
// to its store succeeded. It needs no key. The text of an error has the reason; ErrStoreUnavailable
// is one.
func (c *Client) Ready(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/readyz", nil)
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

// Fsck returns the check of the broker's bucket that runs, or the last one since the broker's
// start. With estimate the broker lists the bucket, to count its objects.
func (c *Client) Fsck(ctx context.Context, estimate bool) (Fsck, error) {
	var q url.Values
	if estimate {
		q = url.Values{"estimate": {"true"}}
	}
	return get[Fsck](ctx, c, "/fsck", q)
}

// StartFsck starts a check of the broker's bucket. It reads every object that records need, and
// changes nothing. Errors: ErrFsckRunning, and ErrTooLarge if the broker has too little memory.
func (c *Client) StartFsck(ctx context.Context) (Fsck, error) {
	return post[Fsck](ctx, c, "/fsck", nil, false)
}

// CancelFsck ends the check of the broker's bucket that runs, if there is one.
func (c *Client) CancelFsck(ctx context.Context) (v Fsck, err error) {
	err = c.call(ctx, &request{method: http.MethodDelete, path: "/fsck", write: true, idempotent: true}, &v)
	return v, err
}
