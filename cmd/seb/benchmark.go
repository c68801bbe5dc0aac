package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/benchmark"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/internal/server"
	"github.com/spf13/cobra"
)

func newBenchmark() *cobra.Command {
	var p benchmark.Params
	cmd := &cobra.Command{
		Use:   "benchmark",
		Short: "Measure how fast records are stored",
		Long: `Writes batches of records over real HTTP, to a broker in this process (on a temporary folder, or on --bucket) or to a
remote one, and prints rate, latency and CPU time. A request that fails fails the run.`,
		Example: "  seb benchmark -r 10 -w 16\n  seb benchmark --format recordbatch --json",
		Args:    cobra.NoArgs,
	}
	benchFlags(cmd, &p, 10<<20)
	cmd.Flags().IntVarP(&p.RecordsPerBatch, "records-per-batch", "b", 1024, "records of a batch")
	return cmd
}

func newBenchmarkRead() *cobra.Command {
	p := benchmark.Params{Read: new(benchmark.ReadParams)}
	cmd := &cobra.Command{
		Use:   "benchmark-read",
		Short: "Measure how fast records are read",
		Long: `Writes --batches batches, then reads at random offsets over real HTTP. Offsets are spread evenly, or, with --skew
recent, as consumers that mostly keep up have them: the distance from the end is exponential with a mean of 2 % of the
topic. With --format recordbatch reads begin where a written batch does, as consumers do that go on where one ended. A request
that fails, or gives fewer records than asked for, fails the run.`,
		Example: "  seb benchmark-read -r 5 -w 16 --records-per-batch=256 --requests 20000",
		Args:    cobra.NoArgs,
	}
	benchFlags(cmd, &p, 50<<20)
	f := cmd.Flags()
	f.IntVar(&p.RecordsPerBatch, "records-per-batch", 1024, "records of a batch")
	f.StringVar(&p.Topic, "topic-name", "some-topic", "topic of the local broker's temporary bucket; elsewhere a new one is made")
	f.IntVar(&p.Read.Requests, "requests", 10000, "reads")
	f.IntVar(&p.Read.RecordsPerRequest, "records-per-request", 1024, "records of a read")
	f.StringVar(&p.Read.Skew, "skew", benchmark.Uniform, "where reads begin: uniform or recent")
	f.String("log-level", "3", "")
	_ = f.MarkDeprecated("log-level", "warnings are always shown")
	return cmd
}

// benchFlags gives cmd the flags that both benchmarks have, and what it does.
func benchFlags(cmd *cobra.Command, p *benchmark.Params, batcherMaxBytes config.Bytes) {
	var asJSON bool
	var prof profiles
	f := cmd.Flags()
	f.IntVarP(&p.Runs, "runs", "r", 1, "how often to run")
	f.IntVarP(&p.Workers, "workers", "w", 2*runtime.NumCPU(), "requests in flight at once")
	f.BoolVarP(&p.LocalBroker, "local-broker", "l", true, "start a broker in this process, on a bucket of its own")
	f.StringVar(&p.RemoteAddress, "remote-broker-address", "", "use the broker at this address instead, such as http://host:51313")
	f.Var(&p.RemoteKey, "remote-broker-api-key", "that broker's API key; better in $SEB_API_KEY")
	f.StringVar(&p.Bucket, "bucket", "", "bucket of the local broker: ./folder, mem: or s3://... (default: a temporary folder)")
	f.StringVar(&p.Bare, "bare", "", "measure a bare HTTP server in this process instead of a broker, as a yardstick: it reads bodies and does none, "+
		"file or sync with them; for reads: file, ranges of one")
	f.StringVar(&p.BareDir, "bare-dir", "", "folder for that server's files (default: where temporary files go)")
	f.IntVar(&p.Batches, "batches", 4096, "batches to write, one a request")
	f.IntVar(&p.RecordSize, "record-size", 1024, "bytes of a record")
	p.BatcherMaxBytes = batcherMaxBytes
	f.Var(&p.BatcherMaxBytes, "batcher-max-bytes", "an object of so many bytes is stored at once")
	f.DurationVar(&p.BatcherBlockTime, "batcher-block-time", 5*time.Millisecond, "how long records are collected for one object")
	p.MemoryLimit = config.Default().MemoryLimit
	f.Var(&p.MemoryLimit, "memory-limit", "memory limit of the local broker (more by default if --workers need it)")
	f.StringVar(&p.Format, "format", benchmark.Multipart, "how records travel: multipart (as the original) or recordbatch (Seb's fast way)")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	f.StringVar(&prof.cpu, "cpuprofile", "", "write a CPU profile of this process to a file, for go tool pprof")
	f.StringVar(&prof.memory, "memprofile", "", "write what this process has allocated to a file, for go tool pprof")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return prof.around(func() error { return runBenchmark(cmd, p, asJSON) })
	}
}

func runBenchmark(cmd *cobra.Command, p *benchmark.Params, asJSON bool) error {
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("remote-broker-api-key") {
		p.RemoteKey = config.Secret(os.Getenv(config.EnvName("api-key")))
	}
	if !cmd.Flags().Changed("memory-limit") {
		p.MemoryLimit = max(p.MemoryLimit, config.Bytes(server.MemoryFor(connectionsOf(p))))
	}
	if err := p.Validate(); err != nil {
		return usageError{err}
	}
	if err := placeOf(p); err != nil { // before it is printed: one that is right has no password in it
		return usageError{err}
	}
	o := benchmark.Options{Start: startLocal, Version: build(), Out: cmd.OutOrStdout(), JSON: asJSON}
	if w := cmd.ErrOrStderr(); isTerminal(w) {
		o.Bars = w
	}
	return benchmark.Run(cmd.Context(), *p, o)
}

// placeOf says what is wrong with the address or the bucket of a run, or nil.
func placeOf(p *benchmark.Params) (err error) {
	switch {
	case !p.LocalBroker:
		_, err = client.New(p.RemoteAddress, client.Options{})
	case p.Bucket != "":
		_, err = objstore.ParseSpec(p.Bucket)
	}
	return err
}

// connectionsOf is how many connections a run has at once: one for each worker, and those of the client beside them.
func connectionsOf(p *benchmark.Params) int { return p.Workers + 8 }

// startLocal starts the broker of a run in this process. Without --bucket it has a folder of its own, which goes with it.
func startLocal(ctx context.Context, p *benchmark.Params) (benchmark.Broker, error) {
	dir, err := os.MkdirTemp("", "seb_bench*")
	if err != nil {
		return benchmark.Broker{}, err
	}
	cfg := config.Default()
	cfg.DataDir = dir
	cfg.Bucket = p.Bucket
	if cfg.Bucket == "" {
		cfg.Bucket = "file:" + filepath.Join(dir, "bucket")
	}
	cfg.HTTP.Port = 0
	cfg.HTTP.Connections = max(cfg.HTTP.Connections, connectionsOf(p))
	cfg.MemoryLimit = p.MemoryLimit
	cfg.Batch = config.Batch{WaitTime: p.BatcherBlockTime, BytesSoftMax: p.BatcherMaxBytes}
	if err := cfg.Validate(); err != nil {
		return benchmark.Broker{}, errors.Join(usageError{err}, os.RemoveAll(dir))
	}
	srv, err := server.Start(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return benchmark.Broker{}, errors.Join(err, os.RemoveAll(dir))
	}
	return benchmark.Broker{URL: srv.URL(), Key: srv.APIKey(), Close: func() error {
		return errors.Join(srv.Close(context.WithoutCancel(ctx)), os.RemoveAll(dir))
	}}, nil
}
