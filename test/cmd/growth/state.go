package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/api"
)

const million = 1_000_000

// value is that of each record.
var value = strings.Repeat("0123456789", 10)

func (o *options) topicRows(n int, limit string) []row {
	return []row{{section: "topics", size: fmt.Sprint(n), limit: limit, run: func(ctx context.Context, b *broker, to *result) error {
		return o.topics(ctx, b, to, n)
	}}}
}

func (o *options) topics(ctx context.Context, b *broker, to *result, n int) error {
	cpu := b.cpu()
	err := each(n, 256, func(i int) error {
		return b.must(ctx, call{method: http.MethodPut, path: fmt.Sprint("/topic?topic-name=t", i), body: "{}"})
	})
	if err != nil {
		return err
	}
	to.each("create, CPU µs", b.cpu()-cpu, n)
	cpu = b.cpu()
	err = each(n, 256, func(i int) error {
		return b.must(ctx, call{method: http.MethodPost, path: fmt.Sprint("/records?topic-name=t", i), body: value})
	})
	if err != nil {
		return err
	}
	to.each("write, CPU µs/record", b.cpu()-cpu, n)
	to.number("state MB", "%.2f", float64(b.state(ctx))/million)
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	to.number("idle CPU ms/s", "%.1f", b.idle(ctx, o.idle).Seconds()*1000)
	if err := b.list(ctx, to, "/topics"); err != nil {
		return err
	}
	if code := b.process.Stop(); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, b.process.Log())
	}
	if err := b.start(); err != nil {
		return err
	}
	to.number("restart CPU s", "%.2f", b.cpu().Seconds())
	return nil
}

// list adds the size of a list, and of its first page. Programs without pages ignore the limit.
func (b *broker) list(ctx context.Context, to *result, path string) error {
	all, err := b.ask(ctx, call{method: http.MethodGet, path: path})
	page, fault := b.ask(ctx, call{method: http.MethodGet, path: path + "?limit=100"})
	to.text("GET "+path+" / with limit=100, bytes", "%d / %d", len(all), len(page))
	return errors.Join(err, fault)
}

func (o *options) partitionRows(n int, limit string) (rows []row) {
	for section, opts := range map[string][]kgo.Opt{"partitions": nil, "plain": {kgo.DisableIdempotentWrite()}} {
		rows = append(rows, row{section: section, size: fmt.Sprint(n), limit: limit, run: func(ctx context.Context, b *broker, to *result) error {
			return o.partitions(ctx, b, to, n, opts)
		}})
	}
	return rows
}

// partitions writes each partition once a second, evenly distributed over the second.
func (o *options) partitions(ctx context.Context, b *broker, to *result, n int, opts []kgo.Opt) error {
	if err := b.newTopic(ctx, n); err != nil {
		return err
	}
	c, err := b.client(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(10*million))...)
	if err != nil {
		return err
	}
	defer c.Close()
	var mu sync.Mutex // guards times and failed
	var times []time.Duration
	failed := 0
	const steps = 20 // of a second
	write := func(step int) {
		for p := step; p < n; p += steps {
			began := time.Now()
			c.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(p), Value: []byte(value)}, func(_ *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
				} else {
					times = append(times, time.Since(began))
				}
			})
		}
	}
	produced := func() (records int, requests float64, cpu time.Duration) {
		mu.Lock()
		records = len(times)
		mu.Unlock()
		return records, b.metric(ctx, `seb_kafka_requests_total\{api="Produce"\}`), b.cpu()
	}
	var peak int64
	tick := time.NewTicker(time.Second / steps)
	defer tick.Stop()
	warm := 5 * steps
	records, requests, cpu := 0, 0.0, time.Duration(0)
	for i := range warm + int(o.steady.Seconds()*steps) {
		<-tick.C
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if i == warm {
			records, requests, cpu = produced()
		}
		write(i % steps)
		if i%steps == 0 {
			peak = max(peak, b.state(ctx))
		}
	}
	recordsEnd, requestsEnd, cpuEnd := produced()
	waiting := c.BufferedProduceRecords()
	end, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_ = c.Flush(end) // what is not stored counts as failed or waiting
	mu.Lock()
	defer mu.Unlock()
	to.each("CPU µs/record", cpuEnd-cpu, recordsEnd-records)
	to.quantiles("acknowledged p50 / p99 / max s", times[min(records, len(times)):])
	to.number("Produce requests", "%.0f", requestsEnd-requests)
	to.number("peak state MB", "%.1f", float64(peak)/million)
	to.number("waiting at the end", "%.0f", float64(waiting))
	to.number("failed", "%.0f", float64(failed))
	return nil
}

func (o *options) groupRows(n int, limit string) []row {
	return []row{{section: "groups", size: fmt.Sprint(n), limit: limit, run: func(ctx context.Context, b *broker, to *result) error {
		if err := b.newTopic(ctx, 1); err != nil {
			return err
		}
		if err := b.must(ctx, call{method: http.MethodPost, path: "/records?topic-name=t", body: value}); err != nil {
			return err
		}
		cpu := b.cpu()
		err := each(n, 1000, func(i int) error {
			path := fmt.Sprintf("/offsets?group=g%d&topic-name=t&partition=0", i)
			return b.must(ctx, call{method: http.MethodPut, path: path, body: `{"offset":1}`})
		})
		if err != nil {
			return err
		}
		to.each("commit, CPU µs", b.cpu()-cpu, n)
		to.number("state MB", "%.2f", float64(b.state(ctx))/million)
		return b.list(ctx, to, "/groups")
	}}}
}

func (o *options) producerRows(n int, limit string) []row {
	return []row{{section: "producers", size: fmt.Sprint(limit, "/", n), limit: limit, folder: true, run: func(ctx context.Context, b *broker, to *result) error {
		return o.producers(ctx, b, to, n)
	}}}
}

// producers sends a batch of a producer again after the batches of n others, which have one each.
func (o *options) producers(ctx context.Context, b *broker, to *result, n int) error {
	if err := b.newTopic(ctx, 1); err != nil {
		return err
	}
	post := func(id int) (body []byte, err error) {
		return b.ask(ctx, call{
			method: http.MethodPost, path: "/records?topic-name=t&partition=0", body: value,
			header: []string{api.HeaderProducerID, fmt.Sprint(id), api.HeaderSequence, "0"},
		})
	}
	if _, err := post(1); err != nil {
		return err
	}
	to.number("state MB before", "%.2f", float64(b.state(ctx))/million)
	to.number("resident MiB before", "%.0f", float64(b.resident())/(1<<20))
	var mu sync.Mutex // guards the fields below
	refused, first := 0, ""
	cpu, began := b.cpu(), time.Now()
	err := each(n, 64, func(i int) error {
		_, err := post(1000 + i)
		var r *refusal
		if !errors.As(err, &r) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if refused++; first == "" {
			first = fmt.Sprintf("after %d: %v", i, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	later := time.Since(began)
	to.each("CPU µs/producer", b.cpu()-cpu, n)
	to.number("state MB after", "%.2f", float64(b.state(ctx))/million)
	to.number("resident MiB after", "%.0f", float64(b.resident())/(1<<20))
	to.number("others refused", "%.0f", float64(refused))
	to.text("the retry", "%s (%.0f s later)", retried(post(1)), later.Seconds())
	to.text("first refusal", "%s", first)
	return nil
}

// retried says how the answer to a batch that was sent again treats it.
func retried(body []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	var a struct{ Duplicate bool }
	if err := json.Unmarshal(body, &a); err != nil {
		return err.Error()
	}
	if a.Duplicate {
		return "duplicate"
	}
	return "**stored twice**"
}
