package failover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
)

// attempts is a transport that counts requests without success, because the Go client repeats them by
// itself.
type attempts struct {
	next   *http.Transport
	failed func(kind string)
}

func newAttempts(failed func(kind string)) *attempts {
	return &attempts{failed: failed, next: &http.Transport{
		MaxIdleConnsPerHost: 256, DisableCompression: true, IdleConnTimeout: 30 * time.Second,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}
}

// RoundTrip implements http.RoundTripper.
func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(req)
	if err != nil {
		a.failed(kindOf(err))
		return nil, err
	}
	if resp.StatusCode < http.StatusBadRequest || req.URL.Path == "/readyz" { // a question whether it leads
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	var p api.Problem
	_ = json.Unmarshal(text, &p) // without a code the kind is the status
	a.failed(fmt.Sprintf("%d %s", resp.StatusCode, p.Code))
	return resp, nil
}

// kindOf classifies an error for the tables.
func kindOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code != "" {
		return e.Code
	}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return err.Error()
}

// split returns the parts of host:port.
func split(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // of an address of this package
	}
	return host, port
}
