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

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/base/pause"
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
	// idleConnectionsMax bounds the idle connections per broker, with room for many goroutines.
	idleConnectionsMax = 256
)

var retryDelay = pause.Growth{Min: 50 * time.Millisecond, Max: 5 * time.Second}

// Client is a connection pool to the brokers of one bucket. It may be used concurrently.
type Client struct {
	brokers   *brokers
	key       string
	http      *http.Client
	own       bool
	retryTime time.Duration
	producers *producerPool // nil: not idempotent
	counts    partitionCounts
}

// New returns a client of the broker at baseURL, such as "http://127.0.0.1:51313". It sends no
// request.
//
// Several addresses, separated by commas, are those of brokers of one bucket. The client then also
// learns the others (GET /cluster, if its key may use it), and sends its requests to the leader. It
// repeats a read, and an idempotent write, at the next broker if the connection fails, or if no byte
// arrives for 5 seconds. After 1 second without a byte it asks the other brokers whether one of them
// leads (GET /readyz?role=leader), and repeats the request there as soon as one does.
//
// Reads include what the client has written and read before, at whichever broker.
func New(baseURL string, o Options) (*Client, error) {
	addresses, err := parseAddresses(baseURL)
	if err != nil {
		return nil, err
	}
	if i := strings.IndexFunc(o.APIKey, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return nil, fmt.Errorf("API key: a control character at position %d", i)
	}
	c := &Client{brokers: newBrokers(addresses), key: o.APIKey, http: o.HTTPClient, retryTime: o.RetryTime}
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
	c.brokers.asking.Wait()
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
	// bounded: the answer begins soon, at most after wait. If it does not, and there are several
	// brokers, the next one gets the request.
	bounded bool
	wait    time.Duration
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
		base := c.brokers.pick()
		resp, err := c.once(ctx, r, base)
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
		pause := err.RetryAfter
		if err.elsewhere() && c.brokers.failed(base) {
			pause = 0 // that of another broker
		}
		if !err.repeatable(r) || !b.wait(ctx, pause) {
			if err.after != "" {
				c.brokers.forget(err.after) // the bucket may be another one
			}
			return err
		}
	}
}

// once sends r once, to a broker.
func (c *Client) once(ctx context.Context, r *request, base string) (*http.Response, *Error) {
	quiet := silence{c: c, base: base, on: r.bounded && c.brokers.several(), wait: r.wait}
	parent := ctx
	ctx = quiet.watch(ctx)
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path+"?"+r.query.Encode(), nil)
	if err != nil {
		quiet.end()
		return nil, &Error{Outcome: r.outcome(false), NextOffset: -1, Start: -1, Committed: -1, Err: err}
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	req.Header.Set("User-Agent", "seb-client")
	after := ""
	if r.method == http.MethodGet {
		if after = c.brokers.after(); after != "" {
			req.Header.Set(api.HeaderAfter, after)
		}
	}
	sent := &sentBody{data: r.body}
	req = sent.attach(req)
	resp, err := c.http.Do(req)
	whole := sent.detach()
	if err != nil {
		if parent.Err() == nil && errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		quiet.end()
		return nil, &Error{Outcome: r.outcome(whole && !isRefusedCertificate(err)), NextOffset: -1, Start: -1, Committed: -1, Err: unwrapURL(err)}
	}
	c.brokers.answered(resp.Header)
	c.refresh()
	resp.Body = quiet.body(resp.Body)
	if resp.StatusCode/100 == 2 {
		if after != "" && misses(resp.Header, after) {
			c.brokers.forget(after)
		}
		return resp, nil
	}
	defer resp.Body.Close()
	fault := errorOf(resp, r.write)
	if fault.Code == string(api.NotYet) {
		fault.after = after
	}
	return nil, fault
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
	time     time.Duration
	until    time.Time
	failures int
}

// wait sleeps for atLeast or longer, and reports whether another attempt is allowed.
func (b *backoff) wait(ctx context.Context, atLeast time.Duration) bool {
	if b.until.IsZero() {
		b.until = time.Now().Add(b.time)
	}
	b.failures++
	delay := retryDelay.After(b.failures)
	d := max(atLeast, delay/2+rand.N(delay/2))
	if atLeast >= time.Second { // the broker knows better when it has room again
		d = atLeast + rand.N(atLeast/4)
	}
	if time.Now().Add(d).After(b.until) {
		return false
	}
	return pause.Wait(ctx, d) == nil
}
