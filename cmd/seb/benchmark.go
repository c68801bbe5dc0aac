package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/machine"
	"github.com/spf13/cobra"
)

func newBenchmark() *cobra.Command {
	var p benchParams
	cmd := &cobra.Command{
		Use:   "benchmark",
		Short: "Measure how fast records are stored",
		Long: `Writes batches of records over real HTTP, to a broker in this process (on a temporary folder, or on --bucket) or to a
remote one, and prints rate, latency and CPU time. A request that fails fails the run.`,
		Example: "  seb benchmark -r 10 -w 16\n  seb benchmark --format recordbatch --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchmark(cmd, &p, writeRun)
		},
	}
	p.register(cmd, 10<<20)
	cmd.Flags().IntVarP(&p.RecordsPerBatch, "records-per-batch", "b", 1024, "records of a batch")
	return cmd
}

func newBenchmarkRead() *cobra.Command {
	p := benchParams{Read: new(readParams)}
	cmd := &cobra.Command{
		Use:   "benchmark-read",
		Short: "Measure how fast records are read",
		Long: `Writes --batches batches, then reads at random offsets over real HTTP. Offsets are spread evenly, or, with --skew
recent, as consumers that mostly keep up have them: the distance from the end is exponential with a mean of 2 % of the
topic. A request that fails, or gives fewer records than asked for, fails the run.`,
		Example: "  seb benchmark-read -r 5 -w 16 --records-per-batch=256 --requests 20000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchmark(cmd, &p, readRun)
		},
	}
	p.register(cmd, 50<<20)
	f := cmd.Flags()
	f.IntVar(&p.RecordsPerBatch, "records-per-batch", 1024, "records of a batch")
	f.StringVar(&p.Topic, "topic-name", "some-topic", "topic of the local broker's temporary bucket; elsewhere a new one is made")
	f.IntVar(&p.Read.Requests, "requests", 10000, "reads")
	f.IntVar(&p.Read.RecordsPerRequest, "records-per-request", 1024, "records of a read")
	f.StringVar(&p.Read.Skew, "skew", skewUniform, "where reads begin: uniform or recent")
	f.String("log-level", "3", "")
	_ = f.MarkDeprecated("log-level", "warnings are always shown")
	return cmd
}

// benchJob is one run against a target; what it prints meanwhile goes to bars.
type benchJob struct {
	params  *benchParams
	target  *benchTarget
	payload *payload
	bars    io.Writer
}

func runBenchmark(cmd *cobra.Command, p *benchParams, one func(context.Context, *benchJob) (benchRun, error)) error {
	if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
		return usageError{err}
	}
	if !cmd.Flags().Changed("remote-broker-api-key") {
		p.RemoteKey = config.Secret(os.Getenv(config.EnvName("api-key")))
	}
	if err := p.validate(); err != nil {
		return err
	}
	report := benchReport{Benchmark: "write", Started: time.Now(), Version: build(), Machine: machine.Here(), Parameters: *p}
	if p.Read != nil {
		report.Benchmark = "read"
	}
	if report.Parameters.Bucket == "" && p.LocalBroker {
		report.Parameters.Bucket = "temporary folder"
	}
	out := cmd.OutOrStdout()
	if !p.JSON {
		report.writeHead(out)
	}
	pay, err := newPayload(p)
	if err != nil {
		return err
	}
	for n := range p.Runs {
		r, err := p.runOnce(cmd, one, pay)
		if err != nil {
			return fmt.Errorf("run %d failed: %w", n+1, err)
		}
		report.Runs = append(report.Runs, r)
		if !p.JSON {
			r.writeLine(out, n+1)
		}
	}
	report.finish()
	if p.JSON {
		return report.writeJSON(out)
	}
	report.writeTotal(out)
	return nil
}

func (p *benchParams) runOnce(cmd *cobra.Command, one func(context.Context, *benchJob) (benchRun, error), pay *payload) (r benchRun, err error) {
	ctx := cmd.Context()
	t, err := p.openTarget(ctx)
	if err != nil {
		return benchRun{}, err
	}
	defer func() {
		if stopErr := t.stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("stop: %w", stopErr)
		}
	}()
	return one(ctx, &benchJob{params: p, target: t, payload: pay, bars: cmd.ErrOrStderr()})
}

func writeRun(ctx context.Context, j *benchJob) (benchRun, error) {
	bar := progress(j.bars, j.params.Batches, "writing")
	defer bar.Close()
	l := load{workers: j.params.Workers, n: j.params.Batches, worker: func() request { return j.target.writeRequest(j.payload) }, bar: bar}
	return l.run(ctx)
}

func readRun(ctx context.Context, j *benchJob) (benchRun, error) {
	if _, err := writeRun(ctx, j); err != nil {
		return benchRun{}, fmt.Errorf("write the records to read: %w", err)
	}
	p := j.params
	starts := int64(p.Batches*p.RecordsPerBatch - p.Read.RecordsPerRequest + 1)
	worker := func() request {
		r := &benchRead{target: j.target, count: p.Read.RecordsPerRequest, size: p.RecordSize, perBatch: p.RecordsPerBatch}
		return func(ctx context.Context, i int) (int64, int64, error) {
			offset := p.Read.offset(i, starts)
			if p.Format == formatRecordBatch {
				return r.batches(ctx, offset)
			}
			return r.multipart(ctx, offset)
		}
	}
	bar := progress(j.bars, p.Read.Requests, "reading")
	defer bar.Close()
	l := load{workers: p.Workers, n: p.Read.Requests, worker: worker, bar: bar}
	return l.run(ctx)
}

// recentMean is the mean distance from the end, as a part of the topic, with --skew recent.
const recentMean = 0.02

// offset is where read number i begins: the same for every run of the same parameters.
func (r *readParams) offset(i int, starts int64) int64 {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	if r.Skew == skewUniform {
		return rng.Int64N(starts)
	}
	back := int64(rng.ExpFloat64() * recentMean * float64(starts))
	return max(0, starts-1-back)
}
