package benchmark

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
)

// target is the broker of a run.
type target struct {
	url, key string
	topic    string
	client   *client.Client
	http     *http.Client // for requests without client
	stop     func() error
}

// openTarget starts the local broker, or connects to the remote one. Every run has its own topic.
// stop deletes it, unless the bucket is temporary.
func (p *Params) openTarget(ctx context.Context, pay *payload, start func(context.Context, *Params) (Broker, error)) (*target, error) {
	if p.Bare != "" {
		return p.openBare(pay)
	}
	t := &target{topic: p.Topic}
	if t.topic == "" || p.Bucket != "" || !p.LocalBroker {
		// A broker that others use may have a topic of this name.
		t.topic = "bench-" + record.NewID().String()[:12]
	}
	var closers []func() error
	b := Broker{URL: p.RemoteAddress, Key: p.RemoteKey.Reveal()}
	if p.LocalBroker {
		var err error
		if b, err = start(ctx, p); err != nil {
			return nil, err
		}
		closers = append(closers, b.Close)
	}
	t.url, t.key = b.URL, b.Key
	// The client retries requests that exceed the memory budget, like other programs; the latencies
	// include that.
	c, err := client.New(t.url, client.Options{APIKey: t.key})
	if err != nil {
		return nil, err
	}
	t.client = c
	transport := p.transport()
	t.http = &http.Client{Transport: transport}
	if p.Bucket != "" || !p.LocalBroker {
		closers = append(closers, func() error { return c.DeleteTopic(context.WithoutCancel(ctx), t.topic) })
	}
	t.stop = func() error {
		c.Close()
		transport.CloseIdleConnections()
		var first error
		for i := len(closers) - 1; i >= 0; i-- {
			if err := closers[i](); err != nil && first == nil {
				first = err
			}
		}
		return first
	}
	if _, err := c.PutTopic(ctx, t.topic, client.TopicSpec{Partitions: 1}); err != nil {
		_ = t.stop()
		return nil, fmt.Errorf("create topic: %w", err)
	}
	return t, nil
}

// transport keeps one connection per worker.
func (p *Params) transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxConnsPerHost = p.Workers
	t.MaxIdleConnsPerHost = p.Workers
	t.DisableCompression = true
	return t
}

// openBare starts a bare server instead of a broker, with the data to read.
func (p *Params) openBare(pay *payload) (*target, error) {
	b, err := p.startBare(pay)
	if err != nil {
		return nil, err
	}
	transport := p.transport()
	return &target{url: b.URL, topic: "bare", http: &http.Client{Transport: transport}, stop: func() error {
		transport.CloseIdleConnections()
		return b.Close()
	}}, nil
}

// do sends req and requires a status.
func (t *target) do(req *http.Request, want int) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+t.key)
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != want {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return nil, fmt.Errorf("status %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return resp, nil
}

// answer reads answers to multipart writes: the offsets of the stored records. It reuses its memory
// and belongs to one worker.
type answer struct{ body bytes.Buffer }

// offsets reads an answer and returns the number of its offsets.
func (a *answer) offsets(r io.Reader) (int, error) {
	a.body.Reset()
	if _, err := a.body.ReadFrom(r); err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	if n, ok := countOffsets(a.body.Bytes()); ok {
		return n, nil
	}
	var other struct{ Offsets []int64 }
	if err := json.Unmarshal(a.body.Bytes(), &other); err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	return len(other.Offsets), nil
}

// countOffsets counts the offsets of {"offsets":[7,8,9]}, in the exact form of brokers; package
// json takes 60 times as long. ok is false for any other text, also with other members or white
// space.
func countOffsets(b []byte) (n int, ok bool) {
	b, opens := bytes.CutPrefix(b, []byte(`{"offsets":[`))
	b, ends := bytes.CutSuffix(b, []byte(`]}`))
	if !opens || !ends {
		return 0, false
	}
	digits := 0
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == ',' && digits > 0:
			n, digits = n+1, 0
		default:
			return 0, false
		}
	}
	return n + 1, digits > 0
}
