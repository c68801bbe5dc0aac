package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/report"
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

const (
	// forwardMost is the CPU time of a write through a standby, relative to one at the leader.
	forwardMost = 1.3
	// forwardLater is the latency that a standby adds, in microseconds.
	forwardLater = 1000
)

// forwardConnections are the numbers of connections, and of requests of a turn.
var forwardConnections = []struct{ connections, requests int }{{1, 10_000}, {16, 40_000}}

// forward compares writes of one record through a standby, through a bare reverse proxy of net/http,
// and at the leader. The CPU time is that of both brokers and the proxy, because a standby follows the
// log in any case. It calls done after each turn.
func (p *place) forward(ctx context.Context, connections, requests, n int, done func()) (list []Check, err error) {
	err = p.within(func(tmpfs, _ string) error {
		leader, err := p.peer(tmpfs, "leader", "")
		if err != nil {
			return err
		}
		defer leader.Kill()
		standby, err := p.peer(tmpfs, "standby", leader.key)
		if err != nil {
			return err
		}
		defer standby.Kill()
		if _, err := standby.client.PutTopic(ctx, singleTopic, client.TopicSpec{Partitions: 1}); err != nil {
			return err
		}
		list, err = compareForwards(leader, standby, connections, max(connections, requests), n, done)
		return err
	})
	return list, err
}

// peer starts a broker that others reach, with their key if it is not the first.
func (p *place) peer(dir, name, key string) (*broker, error) {
	data := filepath.Join(dir, name)
	if key != "" {
		if err := os.Mkdir(data, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(data, "api-key"), []byte(key+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	return p.serve("file:"+filepath.Join(dir, "bucket"), data, "--advertise", "127.0.0.1", "--kafka-listen", "", "--batch-wait-time", "0")
}

func compareForwards(leader, standby *broker, connections, requests, n int, done func()) ([]Check, error) {
	at := func(b *broker) string {
		u, err := url.Parse(b.url)
		if err != nil {
			panic(err) // it was read by the client
		}
		return u.Host
	}
	proxy, address, err := startBare(at(leader))
	if err != nil {
		return nil, err
	}
	defer proxy.Kill()
	pids := []int{leader.Pid(), standby.Pid(), proxy.Pid()}
	var cpus, latencies [3][]float64
	var ratios, later, bare []float64
	for range n {
		for i, to := range []string{at(leader), at(standby), address} {
			cpu, latency, err := (&singleServer{pids, to, leader.key}).load(connections, requests)
			if err != nil {
				return nil, err
			}
			cpus[i], latencies[i] = append(cpus[i], cpu), append(latencies[i], latency)
			done()
		}
		last := len(cpus[0]) - 1
		ratios, bare = append(ratios, cpus[1][last]/cpus[0][last]), append(bare, cpus[2][last]/cpus[0][last])
		later = append(later, latencies[1][last]-latencies[0][last])
	}
	ratio, more := report.SpreadOf(ratios), report.SpreadOf(later)
	checks := []Check{{
		fmt.Sprintf("CPU of a write through a standby, %d connections", connections), fmt.Sprintf("≤ %.2f of one at the leader", forwardMost),
		fmt.Sprintf("%s: %s µs, at the leader %s µs; through a bare reverse proxy %s", ratio.Format("%.2f"), report.SpreadOf(cpus[1]).Format("%.0f"),
			report.SpreadOf(cpus[0]).Format("%.0f"), report.SpreadOf(bare).Format("%.2f")),
		ratio.Middle <= forwardMost,
	}}
	if connections == 1 { // with more the latency is that of the machine's cores
		checks = append(checks, Check{
			"latency that a standby adds to a write", fmt.Sprintf("≤ %d µs", forwardLater), more.Format("%.0f") + " µs", more.Middle <= forwardLater,
		})
	}
	return checks, nil
}
