package failover

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
)

// silence is the time without a record after which a client of server-sent events leaves its broker.
const silence = 5 * time.Second

// consumeSSE reads with server-sent events until ctx ends. After an error it goes to the next broker.
func (c *consumer) consumeSSE(ctx context.Context, urls []string) {
	for n := 0; ctx.Err() == nil; n++ {
		if err := c.follow(ctx, urls[n%len(urls)]); err != nil && ctx.Err() == nil {
			c.failed(kindOf(err))
			sleep(ctx, poll)
		}
	}
}

// follow reads one stream to its end.
func (c *consumer) follow(ctx context.Context, broker string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	q := url.Values{"topic-name": {c.topic}, "partition": {"0"}, "offset": {fmt.Sprint(c.next)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, broker+"/records?"+q.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Accept", api.EventStream)
	resp, err := http.DefaultClient.Do(req)
	if ctx.Err() != nil {
		return errors.New("silence")
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		quiet.Reset(silence)
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var r api.Record
		var p api.Problem
		if err := errors.Join(json.Unmarshal([]byte(data), &r), json.Unmarshal([]byte(data), &p)); err != nil {
			return err
		}
		if r.Value == nil {
			return errors.New("event: " + string(p.Code))
		}
		c.got(r.Offset, []byte(*r.Value), c.now())
	}
	if ctx.Err() != nil {
		return errors.New("silence")
	}
	return cmp.Or(lines.Err(), io.EOF)
}
