package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/client"
)

const (
	followWait  = 20 * time.Millisecond // the batch wait time
	followMore  = 5 * time.Millisecond  // latency limit beyond batch wait time and PUT
	followTopic = "busy"
	followRate  = 5 * time.Millisecond // interval between records of a producer
	producers   = 4
)

// follow measures the latency from a producer's call to a consumer that follows a busy topic. One
// consumer uses server-sent events, the other long polls. The measurement takes d.
func (p *place) follow(ctx context.Context, d time.Duration) (list []Check, err error) {
	err = p.within(func(_, disk string) error {
		b, err := p.serve("file:"+filepath.Join(disk, "bucket"), filepath.Join(disk, "data"), "--batch-wait-time", followWait.String())
		if err != nil {
			return err
		}
		defer b.Kill()
		if _, err := b.client.PutTopic(ctx, followTopic, client.TopicSpec{Partitions: 1}); err != nil {
			return err
		}
		events, polls := result.NewHistogram(), result.NewHistogram()
		if err := b.follow(ctx, d, events, polls); err != nil {
			return err
		}
		put, err := b.put99(ctx)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			name string
			h    *result.Histogram
		}{{"server-sent events", events}, {"long polls", polls}} {
			p50, _ := c.h.Percentile(50)
			p99, _ := c.h.Percentile(99)
			most := followWait + put + followMore
			list = append(list, Check{
				"from producer to consumer by " + c.name + ", p99",
				fmt.Sprintf("≤ %.1f ms: batch wait %v, PUT p99 %.1f ms, and %v", ms(most), followWait, ms(put), followMore),
				fmt.Sprintf("%.1f ms (p50 %.1f, %d records)", ms(p99), ms(p50), c.h.Count()), p99 <= most,
			})
		}
		return b.stop()
	})
	return list, err
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// follow runs the producers for d while two consumers record latencies.
func (b *broker) follow(ctx context.Context, d time.Duration, events, polls *result.Histogram) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	run := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				cancel()
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	run(func() error { return b.events(ctx, events) })
	run(func() error { return b.polls(ctx, polls) })
	for range producers {
		run(func() error {
			tick := time.NewTicker(followRate)
			defer tick.Stop()
			for ctx.Err() == nil {
				now := strconv.FormatInt(time.Now().UnixMicro(), 10)
				if _, err := b.client.ProduceValues(ctx, followTopic, [][]byte{[]byte(now)}, client.ProduceOptions{}); err != nil {
					return err
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			return nil
		})
	}
	wg.Wait()
	return failed
}

// polls follows the topic with long polls of the Go client.
func (b *broker) polls(ctx context.Context, h *result.Histogram) error {
	for r, err := range b.client.Records(ctx, followTopic, client.ReadOptions{Offset: client.Latest, Follow: true}) {
		if err != nil {
			return err
		}
		if err := note(h, string(r.Value)); err != nil {
			return err
		}
	}
	return nil
}

// events follows the topic with server-sent events.
func (b *broker) events(ctx context.Context, h *result.Histogram) error {
	resp, err := b.get(ctx, "/records?topic-name="+followTopic+"&offset=0", "text/event-stream")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); ; {
		if !in.Scan() {
			return errors.Join(in.Err(), errors.New("the stream of events ended"))
		}
		// {"offset":…,"value":"…"}
		if _, rest, ok := strings.Cut(in.Text(), `"value":"`); ok {
			sent, _, _ := strings.Cut(rest, `"`)
			if err := note(h, sent); err != nil {
				return err
			}
		}
	}
}

// note adds the latency of a record. sent is its Unix time in microseconds.
func note(h *result.Histogram, sent string) error {
	at, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return err
	}
	h.Record(time.Since(time.UnixMicro(at)).Nanoseconds())
	return nil
}

// put99 returns the 99th percentile of PUT durations from the broker's metrics.
func (b *broker) put99(ctx context.Context) (time.Duration, error) {
	resp, err := b.get(ctx, "/metrics", "*/*")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return quantile(string(text), "seb_store_put_seconds", 0.99)
}

// quantile returns a quantile of a histogram in Prometheus's text format. It interpolates linearly
// within a bucket.
func quantile(text, name string, q float64) (time.Duration, error) {
	type bucket struct{ most, count float64 }
	var all []bucket
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name+`_bucket{le="`)
		if !ok {
			continue
		}
		var b bucket
		if le, count, ok := strings.Cut(strings.TrimSpace(rest), `"} `); ok && le != "+Inf" {
			var err1, err2 error
			b.most, err1 = strconv.ParseFloat(le, 64)
			b.count, err2 = strconv.ParseFloat(count, 64)
			if err := errors.Join(err1, err2); err != nil {
				return 0, fmt.Errorf("%q: %w", line, err)
			}
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("no histogram %s", name)
	}
	want := q * all[len(all)-1].count
	last := bucket{}
	for _, b := range all {
		if b.count >= want && b.count > last.count {
			s := last.most + (b.most-last.most)*(want-last.count)/(b.count-last.count)
			return time.Duration(s * float64(time.Second)), nil
		}
		last = b
	}
	return time.Duration(last.most * float64(time.Second)), nil
}
