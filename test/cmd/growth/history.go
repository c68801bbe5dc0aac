package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/testenv"
)

// historyRows are the rows of what was written, and of its requests to S3.
func (o *options) historyRows() []row {
	rows := []row{}
	add := func(r row, run func(ctx context.Context, b *broker, to *result) error) {
		r.limit, r.run = "256MiB", run
		rows = append(rows, r)
	}
	fast := []string{"--put-budget", "off", "--batch-wait-time", "1ms"}
	for _, objects := range []int{1000, 10_000} {
		add(row{section: "history", size: fmt.Sprint(objects), counted: true, args: fast}, func(ctx context.Context, b *broker, to *result) error {
			return o.history(ctx, b, to, objects, 100, 256)
		})
	}
	for _, objects := range []int{500, 3950} {
		add(row{section: "slots", size: fmt.Sprint(objects), counted: true, args: fast}, func(ctx context.Context, b *broker, to *result) error {
			return o.history(ctx, b, to, objects, 1000, 500)
		})
	}
	for _, keys := range []int{100_000, 1_000_000, 5_000_000} {
		r := row{section: "compaction", size: fmt.Sprint(keys), folder: true, args: []string{"--merge-interval", "5s", "--pack-age", "15s"}}
		add(r, func(ctx context.Context, b *broker, to *result) error { return o.compaction(ctx, b, to, keys) })
	}
	for _, rate := range []int{0, 1, 100} {
		add(row{section: "requests", size: fmt.Sprint(rate), counted: true}, func(ctx context.Context, b *broker, to *result) error {
			return o.requests(ctx, b, to, rate)
		})
	}
	return rows
}

// history writes objects of one size, and measures starts and the commands that read all of them.
func (o *options) history(ctx context.Context, b *broker, to *result, objects, records, size int) error {
	if err := b.newTopic(ctx, 1); err != nil {
		return err
	}
	body := strings.Repeat(strings.Repeat("x", size-1)+"\n", records)
	cpu := b.cpu()
	for range objects {
		if err := b.must(ctx, call{method: http.MethodPost, path: "/records?topic-name=t", body: body}); err != nil {
			return err
		}
	}
	to.number("write, CPU µs/record", "%.1f", float64((b.cpu()-cpu).Microseconds())/float64(objects*records))
	to.number("state MB", "%.2f", float64(b.state(ctx))/million)
	for _, start := range []struct {
		name      string
		kill, old bool // the broker before is killed; its data folder stays
	}{{"start", false, true}, {"cold", false, false}, {"takeover", true, false}} {
		if err := b.again(start.kill, start.old); err != nil {
			return err
		}
		gets, read := b.wals()
		to.text(start.name+": CPU s; GET wal; MB", "%.2f; %d; %.1f", b.cpu().Seconds(), gets, float64(read)/million)
	}
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	if code := b.process.Stop(); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, b.process.Log())
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"fsck", []string{"fsck", "--bucket", b.bucket}},
		{"backup", []string{"backup", "--bucket", b.bucket, "--to", filepath.Join(b.dir, "copy")}},
		{"backup again", []string{"backup", "--bucket", b.bucket, "--to", filepath.Join(b.dir, "copy")}},
	} {
		if err := b.command(ctx, to, c.name, c.args); err != nil {
			return err
		}
	}
	return nil
}

// again ends the broker and starts another one, with its data folder or without.
func (b *broker) again(kill, old bool) error {
	if kill {
		b.process.Kill()
	} else if code := b.process.Stop(); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, b.process.Log())
	}
	if !old {
		if err := os.RemoveAll(filepath.Join(b.dir, "data")); err != nil {
			return err
		}
	}
	b.counts, b.read = b.proxy.Counts(), b.proxy.Read("wal")
	return b.start()
}

// wals returns the GETs of slots since the last call of again, and their bytes.
func (b *broker) wals() (gets int, read int64) {
	return b.proxy.Counts().Sub(b.counts).Of(testenv.Get, "wal"), b.proxy.Read("wal") - b.read
}

// command runs a command on the bucket.
func (b *broker) command(ctx context.Context, to *result, name string, args []string) error {
	before := b.proxy.Counts()
	cmd := exec.CommandContext(ctx, b.path, args...)
	cmd.Env = append(os.Environ(), testenv.S3Keys...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	s := cmd.ProcessState
	to.text(name+": CPU s, user + system; GET; MiB", "%.2f + %.2f; %d; %d", s.UserTime().Seconds(), s.SystemTime().Seconds(),
		b.proxy.Counts().Sub(before).Of(testenv.Get), s.SysUsage().(*syscall.Rusage).Maxrss>>10)
	return nil
}

// compaction loads keys into a compacted topic, and then writes half as many records with random keys.
// The broker merges and compacts meanwhile; each phase ends when it is idle.
func (o *options) compaction(ctx context.Context, b *broker, to *result, keys int) error {
	if err := b.must(ctx, call{method: http.MethodPut, path: "/topic?topic-name=t", body: `{"settings":{"cleanup-policy":"compact","key-index":false}}`}); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, phase := range []struct {
		name string
		n    int
		key  func(i int) int
	}{{"load", keys, func(i int) int { return i }}, {"overwrite", keys / 2, func(int) int { return r.IntN(keys) }}} {
		passes, dropped := b.metric(ctx, "seb_compactions_total"), b.metric(ctx, "seb_compaction_records_dropped_total")
		for i := 0; i < phase.n; i += 1000 {
			recs := make([]record.Record, 1000)
			for j := range recs {
				recs[j] = record.Record{Key: keyAt(phase.key(i + j)), Value: []byte(value), Timestamp: time.Now().UnixMilli()}
			}
			data, _, err := record.Append(nil, recs, record.EncodeOptions{})
			if err != nil {
				return err
			}
			if err := b.must(ctx, call{method: http.MethodPost, path: "/records?topic-name=t&partition=0", body: string(data), header: []string{"Content-Type", api.RecordBatch}}); err != nil {
				return err
			}
		}
		cpu := b.cpu()
		pause(ctx, 20*time.Second) // the age of a pack
		o.until(ctx, func() bool { return b.idle(ctx, 6*time.Second) < 10*time.Millisecond })
		to.text(phase.name+": passes; dropped; CPU s after the last record", "%.0f; %.0f; %.1f", b.metric(ctx, "seb_compactions_total")-passes,
			b.metric(ctx, "seb_compaction_records_dropped_total")-dropped, (b.cpu() - cpu).Seconds())
	}
	to.number("CPU s in all", "%.1f", b.cpu().Seconds())
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	return nil
}

// requests counts the requests of a load with the default budget, on a store that takes 60 ms.
func (o *options) requests(ctx context.Context, b *broker, to *result, rate int) error {
	if err := b.newTopic(ctx, 1); err != nil {
		return err
	}
	b.proxy.SetDelay(60 * time.Millisecond)
	defer b.proxy.SetDelay(0)
	pause(ctx, 20*time.Second) // the work of the start
	before, began := b.proxy.Counts(), time.Now()
	count := 0
	for time.Since(began) < o.count && ctx.Err() == nil {
		if rate == 0 {
			pause(ctx, time.Second)
			continue
		}
		next := began.Add(time.Duration(count) * time.Second / time.Duration(rate))
		pause(ctx, time.Until(next))
		count++
		go func() { _ = b.must(ctx, call{method: http.MethodPost, path: "/records?topic-name=t", body: value}) }()
	}
	made := b.proxy.Counts().Sub(before)
	const aMonth, perPut, perGet = 730 * time.Hour, 5.0 / million, 0.4 / million // us-east-1
	puts, gets := made.Of(testenv.Put)+made.Of(testenv.List), made.Of(testenv.Get)
	to.text("PUT and LIST; GET; DELETE", "%d; %d; %d", puts, gets, made.Of(testenv.Delete))
	to.number("dollars a month", "%.2f", (float64(puts)*perPut+float64(gets)*perGet)*float64(aMonth)/float64(time.Since(began)))
	return nil
}
