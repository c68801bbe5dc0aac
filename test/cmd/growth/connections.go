package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// crowd are clients that read the end of topic t. Their counts may be read at any time.
type crowd struct {
	b                        *broker
	client                   *http.Client
	records, refused, failed atomic.Int64
	served                   atomic.Int64 // clients with a record
}

// again is how long a refused client waits before it tries again.
const again = time.Second

// sse follows the topic by event streams. A stream that ends is continued where it ended.
func (c *crowd) sse(ctx context.Context) {
	var last string // ID of the last event
	var got bool
	for ctx.Err() == nil {
		header := []string{"Accept", "text/event-stream"}
		if last != "" {
			header = append(header, "Last-Event-ID", last)
		}
		resp, err := c.b.send(ctx, call{method: http.MethodGet, path: "/records?topic-name=t&partition=0&offset=latest", header: header, client: c.client})
		if c.admitted(resp, err) {
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if id, ok := strings.CutPrefix(lines.Text(), "id:"); ok {
					last = strings.TrimSpace(id)
					c.got(&got, 1)
				}
			}
			_ = resp.Body.Close()
		}
		pause(ctx, again)
	}
}

// poll follows the topic by reads that wait.
func (c *crowd) poll(ctx context.Context) {
	next := "latest"
	var got bool
	for ctx.Err() == nil {
		resp, err := c.b.send(ctx, call{method: http.MethodGet, path: "/records?topic-name=t&partition=0&timeout=30s&offset=" + next, client: c.client})
		if !c.admitted(resp, err) {
			pause(ctx, again)
			continue
		}
		var records []struct{ Offset int64 }
		err = json.NewDecoder(resp.Body).Decode(&records)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if n := len(records); err == nil && n > 0 {
			next = fmt.Sprint(records[n-1].Offset + 1)
			c.got(&got, n)
		}
	}
}

// admitted counts an answer that is no success, and closes it.
func (c *crowd) admitted(resp *http.Response, err error) bool {
	if err != nil {
		c.failed.Add(1)
		return false
	}
	if resp.StatusCode == http.StatusOK {
		return true
	}
	_ = resp.Body.Close()
	c.refused.Add(1)
	return false
}

func (c *crowd) got(before *bool, n int) {
	c.records.Add(int64(n))
	if !*before {
		*before = true
		c.served.Add(1)
	}
}

// wait returns the number of records that the clients have, at the latest after ten seconds.
func (c *crowd) wait(ctx context.Context, want int) int {
	for end := time.Now().Add(10 * time.Second); c.records.Load() < int64(want) && time.Now().Before(end) && ctx.Err() == nil; {
		pause(ctx, 50*time.Millisecond)
	}
	return int(c.records.Load())
}

// consume follows the topic with franz-go.
func (c *crowd) consume(ctx context.Context) {
	k, err := c.b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtEnd()}}))
	if err != nil {
		c.failed.Add(1)
		return
	}
	defer k.Close()
	var got bool
	for ctx.Err() == nil {
		fetched := k.PollFetches(ctx)
		if n := fetched.NumRecords(); n > 0 {
			c.got(&got, n)
		}
		if fetched.Err() != nil && ctx.Err() == nil {
			c.failed.Add(1)
		}
	}
}

// gather starts n clients and waits until they have settled. stop ends them.
func gather(ctx context.Context, b *broker, o *options, n int, client func(*crowd, context.Context)) (c *crowd, stop func()) {
	c = &crowd{b: b, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range n {
		if i%100 == 99 {
			pause(ctx, 50*time.Millisecond) // they do not arrive within one backlog of the listener
		}
		wg.Go(func() { client(c, ctx) })
	}
	pause(ctx, o.settle)
	return c, func() {
		cancel()
		wg.Wait()
	}
}

func (o *options) readerRows(n int, limit string) (rows []row) {
	for section, client := range map[string]func(*crowd, context.Context){"sse": (*crowd).sse, "poll": (*crowd).poll} {
		rows = append(rows, row{section: section, size: fmt.Sprint(limit, "/", n), limit: limit, run: func(ctx context.Context, b *broker, to *result) error {
			return o.connections(ctx, b, to, n, client)
		}})
	}
	return append(rows, row{section: "readers", size: fmt.Sprint(limit, "/", n), limit: limit, run: func(ctx context.Context, b *broker, to *result) error {
		return o.readers(ctx, b, to, n)
	}})
}

func (o *options) consumerRows(n int, limit string) []row {
	return []row{{section: "kafka", size: fmt.Sprint(limit, "/", n), limit: limit, run: func(ctx context.Context, b *broker, to *result) error {
		return o.connections(ctx, b, to, n, (*crowd).consume)
	}}}
}

// sent is the number of records that readers wait for.
const sent = 5

// connections measures n clients that wait, and what they get of records that new producers send,
// each on a new connection and once only.
func (o *options) connections(ctx context.Context, b *broker, to *result, n int, client func(*crowd, context.Context)) error {
	if err := b.newTopic(ctx, 1); err != nil {
		return err
	}
	pause(ctx, 3*time.Second) // the memory of the start is returned
	before := b.resident()
	c, stop := gather(ctx, b, o, n, client)
	defer stop()
	open := b.metric(ctx, openMetric)
	to.number("open", "%.0f", open)
	to.number("KiB per connection", "%.0f", float64(b.resident()-before)/1024/max(open, 1))
	to.each("idle CPU µs per client and s", b.idle(ctx, o.idle), n)
	cpu, stored := b.cpu(), 0
	faults := map[string]int{}
	for range sent {
		err := b.fresh(ctx, call{method: http.MethodPost, path: "/records?topic-name=t&partition=0", body: value})
		if err == nil {
			stored++
		} else {
			faults[fault(err)]++
		}
		pause(ctx, 500*time.Millisecond)
	}
	delivered := c.wait(ctx, n*stored)
	if delivered > 0 {
		to.each("CPU µs per delivery", b.cpu()-cpu, delivered)
	}
	to.text("delivered", "%d of %d, to %d clients", delivered, n*sent, c.served.Load())
	to.text("producers", "%d of %d%s", stored, sent, list(faults))
	if to.Section == "kafka" {
		to.text("Kafka producer", "%s", b.produceKafka(ctx))
	}
	to.text("operator: status, list", "%s", b.operator(ctx))
	to.number("refused connections", "%.0f", b.metric(ctx, refusedMetric))
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	return ctx.Err()
}

// produceKafka says how a new Kafka producer fares.
func (b *broker) produceKafka(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	began := time.Now()
	k, err := b.client()
	if err == nil {
		defer k.Close()
		err = k.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr()
	}
	return took(err, began)
}

// fault is the kind of an error of a request.
func fault(err error) string {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return fmt.Sprint(r.status)
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "connection"
}

// list formats counts of faults.
func list(faults map[string]int) string {
	var s strings.Builder
	for name, n := range faults {
		fmt.Fprintf(&s, ", %s: %d", name, n)
	}
	return s.String()
}

// readers measures a producer, which sends one record after the other, at most ten a second, and new
// connections of an operator, beside n event streams.
func (o *options) readers(ctx context.Context, b *broker, to *result, n int) error {
	if err := b.newTopic(ctx, 1); err != nil {
		return err
	}
	c, stop := gather(ctx, b, o, n, (*crowd).sse)
	defer stop()
	to.number("open", "%.0f", b.metric(ctx, openMetric))
	faults, times, visits, denied, i := map[string]int{}, []time.Duration(nil), 0, 0, 0
	producer := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(o.life); time.Now().Before(end); i++ {
		<-tick.C
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		_, err := b.ask(ctx, call{method: http.MethodPost, path: "/records?topic-name=t&partition=0", body: value, client: producer})
		if err == nil {
			times = append(times, time.Since(began))
		} else {
			faults[fault(err)]++
		}
		if i%100 == 0 {
			if visits++; b.fresh(ctx, call{method: http.MethodGet, path: "/status"}) != nil {
				denied++
			}
		}
	}
	to.text("producer", "%d of %d stored%s", len(times), i, list(faults))
	to.text("delivered", "%d of %d", c.wait(ctx, n*len(times)), n*len(times))
	to.quantiles("acknowledged p50 / p99 / max s", times)
	to.text("operator", "%d of %d refused", denied, visits)
	to.number("refused connections", "%.0f", b.metric(ctx, refusedMetric))
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	return nil
}
