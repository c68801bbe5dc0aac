package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options say how a Client works. The zero Options are usable against a broker that wants no key.
type Options struct {
	APIKey string
	// TLS is how a broker at https:// is spoken to, such as with RootCAs for an authority of one's own; nil: as the system trusts. A
	// client with an HTTPClient does not look at it.
	TLS *tls.Config
	// HTTPClient is used instead of the client's own. Its Timeout would cut long polls off; use contexts instead.
	HTTPClient *http.Client
	// RetryTime is how long one call goes on repeating what can be repeated safely, from its first failure on; 0 means 30
	// seconds, negative never.
	RetryTime time.Duration
	// NotIdempotent leaves out what lets the broker recognise a repeated produce. Then an unknown outcome is returned at
	// once instead of being cleared up by repeating the request, which otherwise goes on for RetryTime.
	NotIdempotent bool
}

const (
	retryTimeDefault = 30 * time.Second
	retryDelayMin    = 50 * time.Millisecond
	retryDelayMax    = 5 * time.Second
	// connectionsIdleMax is per broker: enough for a busy program's goroutines to find their connection again.
	connectionsIdleMax = 256
)

// Client is a connection pool to one broker. It may be used concurrently.
type Client struct {
	base      string // without a slash at the end
	key       string
	http      *http.Client
	own       bool
	retryTime time.Duration
	lanes     *lanes // nil: not idempotent
	counts    partitionCounts
}

// New returns a client of the broker at baseURL, such as "http://127.0.0.1:51313". It sends nothing.
func New(baseURL string, o Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the address: there may be a password in it
		}
		return nil, fmt.Errorf("broker address: want http://host:port: %w", err)
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, errors.New("broker address: want http://host:port, without user, password and parameters")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("broker address %q: want http://host:port", baseURL)
	}
	if i := strings.IndexFunc(o.APIKey, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return nil, fmt.Errorf("API key: a control character at position %d", i)
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), key: o.APIKey, http: o.HTTPClient, retryTime: o.RetryTime}
	if !o.NotIdempotent {
		c.lanes = &lanes{}
	}
	if c.retryTime == 0 {
		c.retryTime = retryTimeDefault
	}
	if c.http == nil {
		c.own = true
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns = 0
		t.MaxIdleConnsPerHost = connectionsIdleMax
		t.DisableCompression = true
		if o.TLS != nil {
			t.TLSClientConfig = o.TLS.Clone()
		}
		t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
		c.http = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirected POST would come back as a GET
		}}
	}
	return c, nil
}

// Close gives idle connections back. Calls under way go on; the client stays usable.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// request is one call, which may be sent several times.
type request struct {
	method string
	path   string
	query  url.Values
	header map[string]string
	body   []byte
	write  bool // changes something: errors have an outcome, and only the rejected may be repeated
	// harmless: a write that may be repeated whatever became of it.
	harmless bool
	// settled says of a refusal that no earlier attempt can appear any more; nil: never.
	settled func(*Error) bool
}

// do sends r until read has read an answer, it may not be repeated, or time is up. Every error is an *Error. read takes
// the body of an answer whose status is 2xx, and closes it; an error of it is as none at all.
func (c *Client) do(ctx context.Context, r *request, read func(*http.Response) error) error {
	b := backoff{time: c.retryTime}
	unknown := false
	for {
		resp, err := c.once(ctx, r)
		if err == nil {
			fault := read(resp)
			if fault == nil {
				return nil
			}
			err = &Error{Outcome: r.outcome(true), Status: resp.StatusCode, NextOffset: -1, Start: -1, Committed: -1, Err: fault}
		}
		if unknown && err.Outcome == OutcomeRejected && (r.settled == nil || !r.settled(err)) {
			err.Outcome = OutcomeUnknown // this attempt was refused, an earlier one may still appear
		}
		unknown = err.Outcome == OutcomeUnknown
		if !err.repeatable(r) || !b.wait(ctx, err.RetryAfter) {
			return err
		}
	}
}

// once sends r a single time.
func (c *Client) once(ctx context.Context, r *request) (*http.Response, *Error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path+"?"+r.query.Encode(), nil)
	if err != nil {
		return nil, &Error{Outcome: r.outcome(false), NextOffset: -1, Start: -1, Committed: -1, Err: err}
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	req.Header.Set("User-Agent", "seb-client")
	sent := &sentBody{data: r.body}
	sent.attach(req)
	resp, err := c.http.Do(req)
	whole := sent.detach()
	if err != nil {
		return nil, &Error{Outcome: r.outcome(whole), NextOffset: -1, Start: -1, Committed: -1, Err: unwrapURL(err)}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, errorOf(resp, r.write)
}

func (r *request) outcome(sent bool) Outcome {
	switch {
	case !r.write:
		return OutcomeNone
	case sent:
		return OutcomeUnknown
	}
	return OutcomeRejected
}

// unwrapURL takes the "Post http://..." off an error of net/http: the address is known, and a line is to be readable.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// drain reads what is left of a body, so that its connection can be used again, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// backoff waits between attempts: doubling, jittered, for no longer than time since the first of them failed.
type backoff struct {
	time  time.Duration
	until time.Time
	delay time.Duration
}

// wait sleeps at least atLeast and reports whether another attempt is allowed.
func (b *backoff) wait(ctx context.Context, atLeast time.Duration) bool {
	if b.until.IsZero() {
		b.until = time.Now().Add(b.time)
	}
	b.delay = min(max(2*b.delay, retryDelayMin), retryDelayMax)
	d := max(atLeast, b.delay/2+rand.N(b.delay/2))
	if time.Now().Add(d).After(b.until) {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
