package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// mergeRows are the rows of merging.
func (o *options) mergeRows() []row {
	const objects = 10_000
	plain := row{
		section: "merging", size: fmt.Sprint(objects), limit: "256MiB", args: []string{"--merge-interval", "24h", "--batch-wait-time", "1ms"},
		run: func(ctx context.Context, b *broker, to *result) error { return o.merge(ctx, b, to, objects) },
	}
	secured := plain
	secured.size, secured.tls = "tls/"+plain.size, true
	return []row{plain, secured}
}

// merge measures what it costs to merge objects of 100 records of 256 B.
func (o *options) merge(ctx context.Context, b *broker, to *result, objects int) error {
	if err := b.newTopic(ctx, 1); err != nil {
		return err
	}
	body := strings.Repeat(strings.Repeat("0123456789abcdef", 16)+"\n", 100)
	cpu := b.cpu()
	for range objects {
		if err := b.must(ctx, call{method: http.MethodPost, path: "/records?topic-name=t", body: body}); err != nil {
			return err
		}
	}
	to.each("write, CPU µs/record", b.cpu()-cpu, 100*objects)
	if code := b.process.Stop(); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, b.process.Log())
	}
	b.args = []string{"--merge-interval", "20s", "--pack-age", "1s"}
	if err := b.start(); err != nil {
		return err
	}
	pause(ctx, 9*time.Second) // the work of the start, such as the check of the store
	idle := b.idle(ctx, 6*time.Second)
	cpu = b.cpu()
	began, merged := time.Now(), 0.0
	for int(merged) < objects*26_000 && ctx.Err() == nil && time.Since(began) < o.bound {
		pause(ctx, 3*time.Second) // /metrics has a cost of its own
		merged = b.metric(ctx, "seb_merge_bytes_total")
	}
	took := time.Since(began)
	used := b.cpu() - cpu
	to.number("merge, CPU µs/record", "%.2f", float64(used.Microseconds())/(merged/269))
	to.number("without that of an idle broker", "%.2f", (float64(used.Microseconds())-idle.Seconds()*float64(took.Microseconds()))/(merged/269))
	to.number("merged MB", "%.0f", merged/million)
	to.number("of the time, %", "%.0f", 100*used.Seconds()/took.Seconds())
	return nil
}
