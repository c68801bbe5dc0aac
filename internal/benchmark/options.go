package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/config"
)

// Params say what is measured. They are printed with the results.
type Params struct {
	Runs             int           `json:"runs"`
	Workers          int           `json:"workers"` // requests in flight at once
	LocalBroker      bool          `json:"local_broker"`
	RemoteAddress    string        `json:"remote_broker_address,omitempty"` // used instead of a local broker
	RemoteKey        config.Secret `json:"-"`
	Bucket           string        `json:"bucket"`         // of the local broker; "": a temporary folder
	Bare             string        `json:"bare,omitempty"` // measures a bare HTTP server in this process instead of a broker
	BareDir          string        `json:"bare_dir,omitempty"`
	Batches          int           `json:"batches"`
	RecordSize       int           `json:"record_size"` // bytes
	RecordsPerBatch  int           `json:"records_per_batch"`
	BatcherMaxBytes  config.Bytes  `json:"batcher_max_bytes"`
	BatcherBlockTime time.Duration `json:"batcher_block_time_ns"`
	MemoryLimit      config.Bytes  `json:"memory_limit"` // of the local broker
	Format           string        `json:"format"`
	Topic            string        `json:"topic_name,omitempty"` // of the local broker's temporary bucket; elsewhere a new one is made
	Read             *ReadParams   `json:"read,omitempty"`       // nil measures writes
}

// ReadParams are what a measurement of reads has besides.
type ReadParams struct {
	Requests          int    `json:"requests"`
	RecordsPerRequest int    `json:"records_per_request"`
	Skew              string `json:"skew"`
}

// The ways to send and to ask for records: Params.Format.
const (
	Multipart   = "multipart"   // as the original
	RecordBatch = "recordbatch" // Seb's fast way
)

// Where reads begin: ReadParams.Skew.
const (
	Uniform = "uniform" // evenly spread
	Recent  = "recent"  // as consumers that mostly keep up: near the end
)

// Broker is a broker to measure.
type Broker struct {
	URL, Key string
	// Close ends it; nil if it is not ours.
	Close func() error
}

// Options are what Run needs besides the parameters.
type Options struct {
	// Start starts the local broker of a run; it is not called for a remote one.
	Start func(context.Context, *Params) (Broker, error)
	// Version is what is measured: printed as its String, and as its JSON.
	Version fmt.Stringer
	// Out gets the report, as one JSON document if JSON is set, else line by line.
	Out  io.Writer
	JSON bool
	// Bars is a terminal that shows how far a run is; nil: nothing is shown.
	Bars io.Writer
}

// Validate reports every fault at once, by the names of the flags. With a remote address no local broker is used.
func (p *Params) Validate() error {
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
	if p.Format != Multipart && p.Format != RecordBatch {
		faults = append(faults, fmt.Sprintf("--format: %q, want %s or %s", p.Format, Multipart, RecordBatch))
	}
	if p.RemoteAddress != "" {
		p.LocalBroker = false
	}
	if !p.LocalBroker && p.RemoteAddress == "" {
		faults = append(faults, "--remote-broker-address: must be given with --local-broker=false")
	}
	faults = append(faults, p.bareFaults()...)
	if r := p.Read; r != nil {
		atLeastOne(r.Requests, "requests")
		atLeastOne(r.RecordsPerRequest, "records-per-request")
		if r.Skew != Uniform && r.Skew != Recent {
			faults = append(faults, fmt.Sprintf("--skew: %q, want %s or %s", r.Skew, Uniform, Recent))
		}
		if r.RecordsPerRequest > p.Batches*p.RecordsPerBatch {
			faults = append(faults, "--records-per-request: more than --batches times --records-per-batch")
		}
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

func (p *Params) bareFaults() (faults []string) {
	kinds := []string{BareNone, BareFile, BareSync}
	if p.Read != nil {
		kinds = []string{BareFile}
	}
	switch {
	case p.Bare == "":
		return nil
	case !slices.Contains(kinds, p.Bare):
		faults = append(faults, fmt.Sprintf("--bare: %q, want %s", p.Bare, strings.Join(kinds, ", ")))
	}
	if p.Bucket != "" || p.RemoteAddress != "" {
		faults = append(faults, "--bare: measures no broker, so no --bucket and no --remote-broker-address")
	}
	return faults
}
