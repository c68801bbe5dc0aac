package queues

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// caller sends JSON over HTTP, over one connection for each goroutine.
type caller struct {
	http   *http.Client
	header http.Header
	sign   func(req *http.Request, body []byte) error // nil: requests are not signed
}

func newCaller() *caller {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.DisableCompression = 0, senders+workers, true
	return &caller{http: &http.Client{Transport: t}, header: http.Header{}}
}

// call sends a request and decodes the answer.
func (c *caller) call(ctx context.Context, method, url string, header map[string]string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.header.Clone()
	for k, v := range header {
		req.Header.Set(k, v)
	}
	if c.sign != nil {
		if err := c.sign(req, body); err != nil {
			return err
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (c *caller) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// each runs f for each worker until ctx ends, and returns the first error before that.
func each(ctx context.Context, n int, f func(ctx context.Context, worker int) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, n)
	for i := range n {
		go func() { ended <- f(ctx, i) }()
	}
	var faults []error
	for range n {
		if err := <-ended; err != nil && ctx.Err() == nil {
			faults = append(faults, err)
			stop()
		}
	}
	return errors.Join(faults...)
}

// waitMax is how long a worker waits for messages.
const waitMax = 20 * time.Second
