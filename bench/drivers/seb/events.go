package seb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sebbroker/seb/record"
)

// events follows by server-sent events, which the Go client does not support.
func (s *httpSystem) events(c *connection, address string) records {
	return func(ctx context.Context, p part) iter.Seq2[*record.Record, error] {
		return func(yield func(*record.Record, error) bool) {
			if err := s.stream(ctx, c, address, p, yield); err != nil {
				yield(nil, err)
			}
		}
	}
}

func (s *httpSystem) stream(ctx context.Context, c *connection, address string, p part, yield func(*record.Record, error) bool) error {
	q := url.Values{"topic-name": {s.c.Name}, "partition": {strconv.Itoa(int(p.partition))}, "offset": {strconv.FormatInt(p.from, 10)}}
	resp, err := s.get(ctx, c, address+"/records?"+q.Encode(), "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// Best effort: the status is sufficient.
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("follow by events: %s: %s", resp.Status, why)
	}
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return errors.Join(errEnded, err)
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		r, err := parseEvent(data)
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return nil
		}
	}
}

// get sends a request that the Go client does not support. The caller closes the body.
func (s *httpSystem) get(ctx context.Context, c *connection, address, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	return c.http.Do(req)
}

// look makes a broker check its bucket for new objects.
func (s *httpSystem) look(ctx context.Context, c *connection, address string) error {
	q := url.Values{"topic-name": {s.c.Name}, "partition": {"0"}, "offset": {"0"}, "read": {"latest"}, "timeout": {"1ms"}}
	resp, err := s.get(ctx, c, address+"/records?"+q.Encode(), "application/json")
	if err != nil {
		return err
	}
	return resp.Body.Close() // any status: the topic may not exist yet
}

// parseEvent parses the record in an event's data.
func parseEvent(data []byte) (*record.Record, error) {
	var e struct {
		Offset *int64  `json:"offset"`
		Value  *string `json:"value"`
		Base64 []byte  `json:"value_base64"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if e.Offset == nil {
		return nil, fmt.Errorf("event without an offset: %.100s", data)
	}
	r := &record.Record{Offset: *e.Offset, Value: e.Base64}
	if e.Value != nil {
		r.Value = []byte(*e.Value)
	}
	return r, nil
}
