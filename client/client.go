package client

import (
	"cmp"
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

// Options configure a Client. The zero value works for a broker without API keys.
type Options struct {
	APIKey string
	// TLS configures connections to https:// addresses, for example RootCAs for a private
	// authority, or Certificates by which the broker knows the client without an APIKey. nil uses
	// the system's authorities. A client with an HTTPClient ignores it.
	TLS *tls.Config
	// HTTPClient replaces the client's own HTTP client. Use contexts instead of its Timeout, which
	// would interrupt long polls.
	HTTPClient *http.Client
	// RetryTime bounds the retries of one call, from its first failure on. 0 means 30 seconds; a
	// negative value disables retries.
	RetryTime time.Duration
	// NotIdempotent sends produces without a producer ID, so that the broker cannot recognize a
	// repeated request. An unknown outcome is then returned at once. Otherwise the client repeats
	// the request for RetryTime to learn the outcome.
	NotIdempotent bool
}

const (
	retryTimeDefault = 30 * time.Second
	retryDelayMin    = 50 * time.Millisecond
	retryDelayMax    = 5 * time.Second
	// idleConnectionsMax bounds the idle connections per broker, with room for many goroutines.
	idleConnectionsMax = 256
)

// Client is a connection pool to one broker. It may be used concurrently.
type Client struct {
	base      string // without a trailing slash
	key       string
	http      *http.Client
	own       bool
	retryTime time.Duration
	producers *producerPool // nil: not idempotent
	counts    partitionCounts
}

// New returns a client of the broker at baseURL, such as "http://127.0.0.1:51313". It sends no
// request.
func New(baseURL string, o Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			// The message omits the address, which may contain a password.
			err = parse.Err
		}
		return nil, fmt.Errorf("broker address: want http://host:port: %w", err)
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, errors.New("broker address: want http://host:port, without user, password or query")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("broker address %q: want http://host:port", baseURL)
	}
	if i := strings.IndexFunc(o.APIKey, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return nil, fmt.Errorf("API key: a control character at position %d", i)
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), key: o.APIKey, http: o.HTTPClient, retryTime: o.RetryTime}
	if !o.NotIdempotent {
		c.producers = &producerPool{}
	}
	c.retryTime = cmp.Or(c.retryTime, retryTimeDefault)
	if c.http == nil {
		c.own = true
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns = 0
		t.MaxIdleConnsPerHost = idleConnectionsMax
		t.DisableCompression = true
		if o.TLS != nil {
			t.TLSClientConfig = o.TLS.Clone()
		}
		t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
		c.http = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // net/http would follow a redirected POST with a GET
		}}
	}
	return c, nil
}

// Close closes idle connections. Calls in progress continue, and the client stays usable.
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
	// write: the call changes data, so its errors have an outcome, and only rejected calls may be
	// repeated.
	write bool
	// idempotent: the write may be repeated whatever its outcome.
	idempotent bool
	// settled reports that a refusal rules out an effect of earlier attempts; nil: never.
	settled func(*Error) bool
}

// do sends r until it has an answer, r may not be repeated, or the retry time is over. Every error
// is an *Error. read gets answers with a 2xx status and closes the body. An error of read counts as
// no answer.
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
			var problem bool
			if err, problem = errors.AsType[*Error](fault); !problem { // else the answer had the broker's error
				err = &Error{Outcome: r.outcome(true), Status: resp.StatusCode, NextOffset: -1, Start: -1, Committed: -1, Err: fault}
			}
		}
		if unknown && err.Outcome == OutcomeRejected && (r.settled == nil || !r.settled(err)) {
			// this attempt was refused, but an earlier one may still take effect
			err.Outcome = OutcomeUnknown
		}
		unknown = err.Outcome == OutcomeUnknown
		if !err.repeatable(r) || !b.wait(ctx, err.RetryAfter) {
			return err
		}
	}
}

// once sends r once.
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
		return nil, &Error{Outcome: r.outcome(whole && !isRefusedCertificate(err)), NextOffset: -1, Start: -1, Committed: -1, Err: unwrapURL(err)}
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

// unwrapURL removes the prefix "Post http://..." from an error of net/http, to keep messages short.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// drain reads the rest of a body, so that its connection can be reused, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// backoff waits between attempts. The delay doubles, with jitter, up to a deadline of time after
// the first failure.
type backoff struct {
	time  time.Duration
	until time.Time
	delay time.Duration
}

// wait sleeps for atLeast or longer, and reports whether another attempt is allowed.
func (b *backoff) wait(ctx context.Context, atLeast time.Duration) bool {
	if b.until.IsZero() {
		b.until = time.Now().Add(b.time)
	}
	b.delay = min(max(2*b.delay, retryDelayMin), retryDelayMax)
	d := max(atLeast, b.delay/2+rand.N(b.delay/2))
	if time.Now().Add(d).After(b.until) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
