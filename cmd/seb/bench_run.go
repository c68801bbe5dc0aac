package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/schollz/progressbar/v3"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/internal/server"
	"github.com/sebbroker/seb/record"
)

// benchTarget is the broker that a run is sent to.
type benchTarget struct {
	url, key string
	topic    string
	client   *client.Client
	http     *http.Client // for what client does not speak
	stop     func() error
}

// openTarget starts the local broker, or connects to the remote one. Every run gets a topic of its own, deleted by stop,
// and a local broker without --bucket a folder of its own, removed by stop.
func (p *benchParams) openTarget(ctx context.Context) (*benchTarget, error) {
	t := &benchTarget{topic: p.Topic}
	if t.topic == "" || p.Bucket != "" || !p.LocalBroker {
		// What is not ours alone may hold a topic of this name.
		t.topic = "bench-" + record.NewID().String()[:12]
	}
	var closers []func() error
	if p.LocalBroker {
		srv, remove, err := p.startLocal(ctx)
		if err != nil {
			return nil, err
		}
		t.url, t.key = srv.URL(), srv.APIKey()
		closers = append(closers, remove, func() error { return srv.Close(context.WithoutCancel(ctx)) })
	} else {
		t.url, t.key = p.RemoteAddress, p.RemoteKey.Reveal()
	}
	// It repeats what the broker puts off for want of memory, as every program with it does; latencies tell.
	c, err := client.New(t.url, client.Options{APIKey: t.key})
	if err != nil {
		return nil, err
	}
	t.client = c
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = p.Workers
	transport.DisableCompression = true
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

func (p *benchParams) startLocal(ctx context.Context) (*server.Server, func() error, error) {
	dir, err := os.MkdirTemp("", "seb_bench*")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Bucket = p.Bucket
	if cfg.Bucket == "" {
		cfg.Bucket = "file:" + filepath.Join(dir, "bucket")
	}
	cfg.HTTP.Port = 0
	cfg.HTTP.Connections = max(cfg.HTTP.Connections, 2*p.Workers+8)
	cfg.MemoryLimit = p.MemoryLimit
	cfg.Batch = config.Batch{WaitTime: p.BatcherBlockTime, BytesSoftMax: p.BatcherMaxBytes}
	if err := cfg.Validate(); err != nil {
		_ = remove()
		return nil, nil, usageError{err}
	}
	srv, err := server.Start(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		_ = remove()
		return nil, nil, err
	}
	return srv, remove, nil
}

// request sends request number i and says how many records, and bytes of their values, it moved. A worker calls its own
// from one goroutine.
type request func(ctx context.Context, i int) (records, bytes int64, err error)

// load is n requests by so many workers.
type load struct {
	workers, n int
	worker     func() request // makes what one worker sends
	bar        *progressbar.ProgressBar
}

// run sends all requests; the first that fails ends it.
func (l *load) run(ctx context.Context) (benchRun, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		r    benchRun
		next atomic.Int64
		mu   sync.Mutex // guards r and hist
		hist = newHistogram()
		wg   sync.WaitGroup
	)
	cpu, start := machine.CPUTime(), time.Now()
	for range l.workers {
		wg.Go(func() {
			mine, own, err := l.loop(ctx, &next)
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			r.Requests += mine.Requests
			r.Records += mine.Records
			r.Bytes += mine.Bytes
			hist.Merge(own)
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return benchRun{}, err
	}
	r.finish(time.Since(start), machine.CPUTime()-cpu)
	r.Latency = latencyOf(hist)
	return r, nil
}

// loop is one worker.
func (l *load) loop(ctx context.Context, next *atomic.Int64) (benchRun, *hdrhistogram.Histogram, error) {
	var r benchRun
	hist := newHistogram()
	send := l.worker()
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if i >= l.n {
			break
		}
		start := time.Now()
		records, bytes, err := send(ctx, i)
		if err != nil {
			return r, hist, fmt.Errorf("request %d: %w", i, err)
		}
		_ = hist.RecordValue(time.Since(start).Microseconds())
		r.Requests++
		r.Records += records
		r.Bytes += bytes
		_ = l.bar.Add(1)
	}
	return r, hist, nil
}

// progress is a bar on w if that is a terminal, and silent otherwise.
func progress(w io.Writer, n int, what string) *progressbar.ProgressBar {
	if !isTerminal(w) {
		return progressbar.DefaultSilent(int64(n))
	}
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}
