package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
)

// DryRunOptions describe one DryRunWith. The zero value asks for all that a DryRun has.
type DryRunOptions struct {
	// Since and Until bound the log times of the firings that count, Until exclusively. Earlier
	// events are history of the expression. Zero: no bound.
	Since, Until time.Time
	// Sample evaluates one of so many entities; the answer has an Estimate. 0 and 1: all.
	Sample int
	// Progress is called about twice a second until the call returns. The numbers grow, except that
	// a repeated request begins again. nil: none.
	Progress func(DryRunProgress)
}

// DryRun evaluates a trigger on all events that the log still has. It changes nothing, and may take
// minutes. The end of ctx ends it in the broker too.
func (c *Client) DryRun(ctx context.Context, s TriggerSpec) (DryRun, error) {
	return c.DryRunWith(ctx, s, DryRunOptions{})
}

// DryRunWith is DryRun of a range or a sample, or with progress.
func (c *Client) DryRunWith(ctx context.Context, s TriggerSpec, o DryRunOptions) (DryRun, error) {
	var out DryRun
	body, err := s.body()
	if err != nil {
		return out, rejected(err)
	}
	query := url.Values{}
	for name, at := range map[string]time.Time{"since": o.Since, "until": o.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if o.Sample > 1 {
		query.Set("sample", strconv.Itoa(o.Sample))
	}
	r := &request{method: http.MethodPost, path: "/triggers/dry-run", query: query, body: body, header: map[string]string{"Content-Type": api.JSON}}
	if o.Progress == nil {
		err = c.call(ctx, r, &out)
		return out, err
	}
	r.header["Accept"] = api.EventStream + ", " + api.ProblemJSON
	err = c.do(ctx, r, func(resp *http.Response) error {
		defer drain(resp.Body)
		return readDryRun(resp.Body, &out, o.Progress)
	})
	return out, err
}

// readDryRun reads an event stream up to its result.
func readDryRun(stream io.Reader, out *DryRun, progress func(DryRunProgress)) error {
	event := ""
	for in := bufio.NewReader(stream); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch {
		case string(name) == "event":
			event = string(value)
		case string(name) != "data":
		case event == "progress":
			var p DryRunProgress
			if err := json.Unmarshal(value, &p); err != nil {
				return err
			}
			progress(p)
		case event == "result":
			return json.Unmarshal(value, out)
		case event == "error":
			return streamError(value)
		default:
			return fmt.Errorf("%w: event %s", errNotBroker, strconv.Quote(event))
		}
	}
}

// streamError returns the error of an event with a problem.
func streamError(problem []byte) error {
	var p api.Problem
	if err := json.Unmarshal(problem, &p); err != nil {
		return err
	}
	return errorOf(&http.Response{
		StatusCode: p.Status, Header: http.Header{"Content-Type": {api.ProblemJSON}}, Body: io.NopCloser(bytes.NewReader(problem)),
	}, false)
}
