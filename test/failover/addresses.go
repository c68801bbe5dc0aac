package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
)

// addresses is a transport that sends each request to one of several brokers. It stays with a broker
// until a request fails there, or the broker names the leader.
type addresses struct {
	hosts   []string
	timeout time.Duration // without a byte
	next    *http.Transport
	failed  func(kind string)
	follow  bool // go to the leader that an answer names

	at atomic.Int64 // index of the broker, modulo their number
}

func newAddresses(hosts []string, timeout time.Duration, failed func(kind string)) *addresses {
	return &addresses{hosts: hosts, timeout: timeout, failed: failed, next: &http.Transport{
		MaxIdleConnsPerHost: 256, DisableCompression: true, IdleConnTimeout: 30 * time.Second,
		DialContext: (&net.Dialer{Timeout: timeout}).DialContext,
	}}
}

// errSilent is no context error, so that the client repeats the request.
var errSilent = errors.New("no answer in time")

// RoundTrip implements http.RoundTripper.
func (a *addresses) RoundTrip(req *http.Request) (*http.Response, error) {
	at := a.at.Load()
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(a.timeout, func() { cancel(errSilent) })
	out := req.Clone(ctx)
	out.URL.Host, out.Host = a.hosts[int(at)%len(a.hosts)], ""
	resp, err := a.next.RoundTrip(out)
	if err != nil {
		timer.Stop()
		cancel(nil)
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		if req.Context().Err() == nil {
			a.failed(kindOf(err))
			a.at.CompareAndSwap(at, at+1)
		}
		return nil, err
	}
	resp.Body = &timedBody{ReadCloser: resp.Body, cause: func() error { return context.Cause(ctx) }, end: cancel, timer: timer, timeout: a.timeout}
	return resp, a.answered(at, resp)
}

// answered decides about the broker of the next request after an answer.
func (a *addresses) answered(at int64, resp *http.Response) error {
	if resp.StatusCode == http.StatusMisdirectedRequest || resp.StatusCode == http.StatusServiceUnavailable {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		resp.Body = io.NopCloser(bytes.NewReader(text))
		var p api.Problem
		_ = json.Unmarshal(text, &p) // without a code the kind is the status
		a.failed(fmt.Sprintf("%d %s", resp.StatusCode, p.Code))
		a.at.CompareAndSwap(at, at+1)
		return nil
	}
	if leader := resp.Header.Get("Seb-Leader"); a.follow && leader != "" {
		if i := slices.IndexFunc(a.hosts, func(host string) bool { return "http://"+host == leader }); i >= 0 {
			a.at.CompareAndSwap(at, int64(i))
		}
	}
	return nil
}

// timedBody ends its request if no byte arrives in time.
type timedBody struct {
	io.ReadCloser
	cause   func() error // why the request has ended
	end     context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(b.timeout)
	}
	if err != nil && err != io.EOF && b.cause() == errSilent {
		err = errSilent
	}
	return n, err
}

// Close implements io.Closer.
func (b *timedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.end(nil)
	return err
}

// kindOf classifies an error for the tables.
func kindOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code != "" {
		return e.Code
	}
	var late net.Error
	switch {
	case errors.Is(err, errSilent), errors.As(err, &late) && late.Timeout():
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return err.Error()
}

// port returns the port of host:port.
func port(address string) string {
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // of an address of this package
	}
	return p
}
