package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/config"
	"github.com/spf13/cobra"
)

// benchParams are the flags that both benchmarks have, as they are printed with the results.
type benchParams struct {
	Runs             int           `json:"runs"`
	Workers          int           `json:"workers"`
	LocalBroker      bool          `json:"local_broker"`
	RemoteAddress    string        `json:"remote_broker_address,omitempty"`
	RemoteKey        config.Secret `json:"-"`
	Bucket           string        `json:"bucket"`
	Batches          int           `json:"batches"`
	RecordSize       int           `json:"record_size"`
	RecordsPerBatch  int           `json:"records_per_batch"`
	BatcherMaxBytes  config.Bytes  `json:"batcher_max_bytes"`
	BatcherBlockTime time.Duration `json:"batcher_block_time_ns"`
	MemoryLimit      config.Bytes  `json:"memory_limit"`
	Format           string        `json:"format"`
	Topic            string        `json:"topic_name,omitempty"`
	Read             *readParams   `json:"read,omitempty"`
	JSON             bool          `json:"-"`
}

// readParams are what benchmark-read has besides.
type readParams struct {
	Requests          int    `json:"requests"`
	RecordsPerRequest int    `json:"records_per_request"`
	Skew              string `json:"skew"`
}

// The ways to send and to ask for records.
const (
	formatMultipart   = "multipart"
	formatRecordBatch = "recordbatch"
)

const (
	skewUniform = "uniform"
	skewRecent  = "recent"
)

func (p *benchParams) register(cmd *cobra.Command, batcherMaxBytes config.Bytes) {
	f := cmd.Flags()
	f.IntVarP(&p.Runs, "runs", "r", 1, "how often to run")
	f.IntVarP(&p.Workers, "workers", "w", 2*runtime.NumCPU(), "requests in flight at once")
	f.BoolVarP(&p.LocalBroker, "local-broker", "l", true, "start a broker in this process, on a bucket of its own")
	f.StringVar(&p.RemoteAddress, "remote-broker-address", "", "use the broker at this address instead, such as http://host:51313")
	f.Var(&p.RemoteKey, "remote-broker-api-key", "that broker's API key; better in $SEB_API_KEY")
	f.StringVar(&p.Bucket, "bucket", "", "bucket of the local broker: ./folder, mem: or s3://... (default: a temporary folder)")
	f.IntVar(&p.Batches, "batches", 4096, "batches to write, one a request")
	f.IntVar(&p.RecordSize, "record-size", 1024, "bytes of a record")
	p.BatcherMaxBytes = batcherMaxBytes
	f.Var(&p.BatcherMaxBytes, "batcher-max-bytes", "an object of so many bytes is stored at once")
	f.DurationVar(&p.BatcherBlockTime, "batcher-block-time", 5*time.Millisecond, "how long records are collected for one object")
	p.MemoryLimit = config.Default().MemoryLimit
	f.Var(&p.MemoryLimit, "memory-limit", "memory limit of the local broker")
	f.StringVar(&p.Format, "format", formatMultipart, "how records travel: multipart (as the original) or recordbatch (Seb's fast way)")
	f.BoolVar(&p.JSON, "json", false, "print one JSON document")
}

// validate reports every fault at once.
func (p *benchParams) validate() error {
	var faults []string
	atLeastOne := func(v int, flag string) {
		if v < 1 {
			faults = append(faults, fmt.Sprintf("--%s: %d, must be at least 1", flag, v))
		}
	}
	atLeastOne(p.Runs, "runs")
	atLeastOne(p.Workers, "workers")
	atLeastOne(p.Batches, "batches")
	atLeastOne(p.RecordSize, "record-size")
	atLeastOne(p.RecordsPerBatch, "records-per-batch")
	if p.Format != formatMultipart && p.Format != formatRecordBatch {
		faults = append(faults, fmt.Sprintf("--format: %q, want %s or %s", p.Format, formatMultipart, formatRecordBatch))
	}
	if p.RemoteAddress != "" {
		p.LocalBroker = false
	}
	if !p.LocalBroker && p.RemoteAddress == "" {
		faults = append(faults, "--remote-broker-address: must be given with --local-broker=false")
	}
	if r := p.Read; r != nil {
		atLeastOne(r.Requests, "requests")
		atLeastOne(r.RecordsPerRequest, "records-per-request")
		if r.Skew != skewUniform && r.Skew != skewRecent {
			faults = append(faults, fmt.Sprintf("--skew: %q, want %s or %s", r.Skew, skewUniform, skewRecent))
		}
		if r.RecordsPerRequest > p.Batches*p.RecordsPerBatch {
			faults = append(faults, "--records-per-request: more than --batches times --records-per-batch")
		}
	}
	if len(faults) > 0 {
		return usageError{errors.New(strings.Join(faults, "; "))}
	}
	return nil
}
