package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/benchmark"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

func newBenchmark() *cobra.Command {
	var p benchmark.Params
	cmd := &cobra.Command{
		Use:   "benchmark",
		Short: "Measure how fast records are stored",
		Long: `Writes batches of records over HTTP and prints rate, latency and CPU time. The broker runs in this process (on a
temporary folder, or on --bucket) or is a remote one. A failed request fails the run.`,
		Example: "  seb benchmark -r 10 -w 16\n  seb benchmark --format recordbatch --json",
		Args:    cobra.NoArgs,
	}
	benchFlags(cmd, &p, 10<<20)
	cmd.Flags().IntVarP(&p.RecordsPerBatch, "records-per-batch", "b", 1024, "records per batch")
	return cmd
}

func newBenchmarkRead() *cobra.Command {
	p := benchmark.Params{Read: new(benchmark.ReadParams)}
	cmd := &cobra.Command{
		Use:   "benchmark-read",
		Short: "Measure how fast records are read",
		Long: `Writes --batches batches, then reads at random offsets over HTTP. Offsets are distributed evenly. With --skew recent
they are those of consumers that mostly keep up: the distance from the end is exponential with a mean of 2 % of the topic.
With --format recordbatch a read begins at the start of a written batch, like a consumer that continues. A request that fails,
or returns fewer records than requested, fails the run.`,
		Example: "  seb benchmark-read -r 5 -w 16 --records-per-batch=256 --requests 20000",
		Args:    cobra.NoArgs,
	}
	benchFlags(cmd, &p, 50<<20)
	f := cmd.Flags()
	f.IntVar(&p.RecordsPerBatch, "records-per-batch", 1024, "records per batch")
	f.StringVar(&p.Topic, "topic-name", "some-topic", "topic in the local broker's temporary bucket; other brokers get a new topic")
	f.IntVar(&p.Read.Requests, "requests", 10000, "reads")
	f.IntVar(&p.Read.RecordsPerRequest, "records-per-request", 1024, "records per read")
	f.StringVar(&p.Read.Skew, "skew", benchmark.Uniform, "distribution of the offsets: uniform or recent")
	f.String("log-level", "3", "")
	_ = f.MarkDeprecated("log-level", "warnings are always printed")
	return cmd
}

// benchFlags adds the flags that both benchmarks share, and the action.
func benchFlags(cmd *cobra.Command, p *benchmark.Params, batcherMaxBytes config.Bytes) {
	var asJSON bool
	var prof profiles
	f := cmd.Flags()
	f.IntVarP(&p.Runs, "runs", "r", 1, "number of runs")
	f.IntVarP(&p.Workers, "workers", "w", 2*runtime.NumCPU(), "number of concurrent requests")
	f.BoolVarP(&p.LocalBroker, "local-broker", "l", true, "start a broker in this process, on its own bucket")
	f.StringVar(&p.RemoteAddress, "remote-broker-address", "", "address of a remote broker, such as http://host:51313")
	f.Var(&p.RemoteKey, "remote-broker-api-key", "API key of the remote broker; prefer $SEB_API_KEY")
	f.StringVar(&p.Bucket, "bucket", "", "bucket of the local broker: ./folder, mem: or s3://... (default: a temporary folder)")
	f.StringVar(&p.Bare, "bare", "", "measure a bare HTTP server in this process instead of a broker, for comparison; writes: none, "+
		"file or sync for a body; reads: file returns ranges of a file")
	f.StringVar(&p.BareDir, "bare-dir", "", "folder for the files of the bare server (default: the folder of temporary files)")
	f.IntVar(&p.Batches, "batches", 4096, "number of batches to write, one per request")
	f.IntVar(&p.RecordSize, "record-size", 1024, "size of a record in bytes")
	p.BatcherMaxBytes = batcherMaxBytes
	f.Var(&p.BatcherMaxBytes, "batcher-max-bytes", "object size that ends collecting early")
	f.DurationVar(&p.BatcherBlockTime, "batcher-block-time", 5*time.Millisecond, "time to collect records for one object")
	p.MemoryLimit = config.Default().MemoryLimit
	f.Var(&p.MemoryLimit, "memory-limit", "memory limit of the local broker (the default grows with --workers)")
	f.StringVar(&p.Format, "format", benchmark.Multipart, "format of records: multipart (as the original program) or recordbatch (the fastest)")
	f.BoolVar(&asJSON, "json", false, "print one JSON document")
	excludes(cmd, []string{"bucket", "batcher-max-bytes", "batcher-block-time", "memory-limit"}, "remote-broker-address", "bare")
	needs(cmd, []string{"remote-broker-api-key"}, "remote-broker-address")
	needs(cmd, []string{"bare-dir"}, "bare")
	f.StringVar(&prof.cpu, "cpuprofile", "", "file for a CPU profile of this process, for go tool pprof")
	f.StringVar(&prof.memory, "memprofile", "", "file for an allocation profile of this process, for go tool pprof")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return prof.around(func() error { return runBenchmark(cmd, p, asJSON) })
	}
}

func runBenchmark(cmd *cobra.Command, p *benchmark.Params, asJSON bool) error {
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("remote-broker-api-key") {
		p.RemoteKey = secrets.Text(os.Getenv(config.EnvName("api-key")))
	}
	if !cmd.Flags().Changed("memory-limit") {
		p.MemoryLimit = max(p.MemoryLimit, config.Bytes(server.MemoryFor(connectionsOf(p))))
	}
	if err := p.Validate(); err != nil {
		return usageError{err}
	}
	// checked before it is printed, because an invalid one may contain a password
	if err := checkTarget(p); err != nil {
		return usageError{err}
	}
	o := benchmark.Options{Start: startLocal, Version: build(), Out: cmd.OutOrStdout(), JSON: asJSON}
	if w := cmd.ErrOrStderr(); isTerminal(w) {
		o.Bars = w
	}
	return benchmark.Run(cmd.Context(), *p, o)
}

// checkTarget returns an error if the address or the bucket of a run is invalid.
func checkTarget(p *benchmark.Params) (err error) {
	switch {
	case !p.LocalBroker:
		_, err = client.New(p.RemoteAddress, client.Options{})
	case p.Bucket != "":
		_, err = objstore.ParseSpec(p.Bucket)
	}
	return err
}

// connectionsOf returns the number of connections of a run: one per worker, and some for the
// client.
func connectionsOf(p *benchmark.Params) int { return p.Workers + 8 }

// startLocal starts the broker of a run in this process. Without --bucket it uses a temporary
// folder, which it removes at the end.
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

// profiles are the profile files of this process; "": none.
type profiles struct{ cpu, memory string }

// around runs f with profiling. It writes the profiles even if f fails.
func (p *profiles) around(f func() error) (err error) {
	if p.cpu != "" {
		out, e := os.Create(p.cpu)
		if e != nil {
			return usageError{fmt.Errorf("--cpuprofile: %w", e)}
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		if e := pprof.StartCPUProfile(out); e != nil {
			return e
		}
		defer pprof.StopCPUProfile()
	}
	if p.memory == "" {
		return f()
	}
	out, err := os.Create(p.memory)
	if err != nil {
		return usageError{fmt.Errorf("--memprofile: %w", err)}
	}
	err = f()
	runtime.GC() // an allocation profile covers the time up to the last collection
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(out, 0), out.Close())
}
