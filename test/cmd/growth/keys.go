package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

func (o *options) keyRows(n int, limit string) []row {
	return []row{{section: "keys", size: fmt.Sprint(n), limit: limit, folder: true, run: func(ctx context.Context, b *broker, to *result) error {
		return o.keys(ctx, b, to, n)
	}}}
}

// keyAt returns a key of 16 bytes; consecutive ones are not neighbors.
func keyAt(i int) []byte { return fmt.Appendf(nil, "%016x", uint64(i+1)*0x9e3779b97f4a7c15) }

// keys measures lookups of a topic with n keys, and the start of a broker with its key index.
func (o *options) keys(ctx context.Context, b *broker, to *result, n int) error {
	if err := b.must(ctx, call{method: http.MethodPut, path: "/topic?topic-name=t", body: `{"settings":{"key-index":true}}`}); err != nil {
		return err
	}
	cpu := b.cpu()
	if err := b.writeKeys(ctx, n); err != nil {
		return err
	}
	const lag = "seb_view_lag_records"
	o.until(ctx, func() bool { return b.metric(ctx, lag) == 0 && b.idle(ctx, time.Second) < 20*time.Millisecond })
	to.number("write and index, CPU µs/record", "%.1f", float64((b.cpu()-cpu).Microseconds())/float64(n))
	to.number("runs", "%.0f", b.metric(ctx, "seb_view_runs"))
	if code := b.process.Stop(); code != 0 {
		return fmt.Errorf("exit code %d: %s", code, b.process.Log())
	}
	file, err := os.Stat(filepath.Join(b.dir, "data", "view", "keys.db"))
	if err != nil {
		return err
	}
	to.number("index, bytes/key", "%.1f", float64(file.Size())/float64(n))
	began := time.Now()
	if err := b.start(); err != nil {
		return err
	}
	to.number("start, CPU s", "%.2f", b.cpu().Seconds())
	if err := b.lookup(ctx, "GET", 0); err != nil {
		return err
	}
	to.number("start to the first lookup, CPU s", "%.2f", b.cpu().Seconds())
	to.number("start to the first lookup, s", "%.2f", time.Since(began).Seconds())
	if err := b.lookups(ctx, to, n); err != nil {
		return err
	}
	to.number("resident MiB", "%.0f", float64(b.resident())/(1<<20))
	if rebuilds := b.metric(ctx, "seb_view_rebuilds_total"); rebuilds != 0 {
		return fmt.Errorf("the index was rebuilt %.0f times", rebuilds)
	}
	return nil
}

// lookups measures lookups one after the other: with random keys, of which few were asked before,
// and with a hundred keys again and again.
func (b *broker) lookups(ctx context.Context, to *result, n int) error {
	r := rand.New(rand.NewPCG(1, 2))
	all := func() int { return r.IntN(n) }
	some := func() int { return r.IntN(min(n, 100)) * (n / min(n, 100)) }
	for _, l := range []struct {
		name, method string
		times        int
		key          func() int
	}{
		{"cold: the first 500 after the start, CPU µs", http.MethodGet, 500, all},
		{"random, CPU µs", http.MethodGet, 5000, all},
		{"random, without the record (HEAD), CPU µs", http.MethodHead, 5000, all},
		{"warm: 100 keys, CPU µs", http.MethodGet, 5000, some},
		{"warm, without the record (HEAD), CPU µs", http.MethodHead, 5000, some},
		{"none, CPU µs", "", 5000, func() int { return n + all() }},
	} {
		cpu := b.cpu()
		for range l.times {
			if err := b.lookup(ctx, l.method, l.key()); err != nil {
				return err
			}
		}
		to.each(l.name, b.cpu()-cpu, l.times)
	}
	return nil
}

// lookup asks for a key; without a method it is one that no record has.
func (b *broker) lookup(ctx context.Context, method string, i int) error {
	c := call{method: method, path: "/key?topic-name=t&key=" + url.QueryEscape(string(keyAt(i)))}
	var r *refusal
	if _, err := b.ask(ctx, c); method != "" || !errors.As(err, &r) || r.status != http.StatusNotFound {
		return err
	}
	return nil
}

// writeKeys writes a record for each key, 1,000 per request.
func (b *broker) writeKeys(ctx context.Context, n int) error {
	const together = 1000
	return each((n+together-1)/together, 2, func(i int) error {
		recs := make([]record.Record, min(together, n-i*together))
		for j := range recs {
			recs[j] = record.Record{Key: keyAt(i*together + j), Value: []byte(value), Timestamp: time.Now().UnixMilli()}
		}
		data, _, err := record.Append(nil, recs, record.EncodeOptions{})
		if err != nil {
			return err
		}
		return b.must(ctx, call{method: http.MethodPost, path: "/records?topic-name=t&partition=0", body: string(data), header: []string{"Content-Type", api.RecordBatch}})
	})
}
