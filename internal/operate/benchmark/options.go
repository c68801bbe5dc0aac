package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/triggers/secrets"
)

// Params are the parameters of a measurement. The report includes them.
type Params struct {
	Runs        int  `json:"runs"`
	Workers     int  `json:"workers"` // concurrent requests
	LocalBroker bool `json:"local_broker"`
	// replaces the local broker
	RemoteAddress string       `json:"remote_broker_address,omitempty"`
	RemoteKey     secrets.Text `json:"-"`
	// of the local broker; "": a temporary folder
	Bucket string `json:"bucket"`
	// measures a bare HTTP server instead of a broker
	Bare             string        `json:"bare,omitempty"`
	BareDir          string        `json:"bare_dir,omitempty"`
	Batches          int           `json:"batches"`
	RecordSize       int           `json:"record_size"` // bytes
	RecordsPerBatch  int           `json:"records_per_batch"`
	BatcherMaxBytes  config.Bytes  `json:"batcher_max_bytes"`
	BatcherBlockTime time.Duration `json:"batcher_block_time_ns"`
	MemoryLimit      config.Bytes  `json:"memory_limit"` // of the local broker
	Format           string        `json:"format"`
	// in the local broker's temporary bucket; other brokers get a new topic
	Topic string      `json:"topic_name,omitempty"`
	Read  *ReadParams `json:"read,omitempty"` // nil measures writes
}

// ReadParams are the additional parameters of reads.
type ReadParams struct {
	Requests          int    `json:"requests"`
	RecordsPerRequest int    `json:"records_per_request"`
	Skew              string `json:"skew"`
}

// Values of Params.Format.
const (
	Multipart   = "multipart"   // as the original program
	RecordBatch = "recordbatch" // the fastest format
)

// Values of ReadParams.Skew.
const (
	Uniform = "uniform" // evenly distributed
	Recent  = "recent"  // near the end, as consumers that mostly keep up
)

// Broker is a broker to measure.
type Broker struct {
	URL, Key string
	// Close ends the broker; nil for a remote one.
	Close func() error
}

// Options are the options of Run in addition to the parameters.
type Options struct {
	// Start starts the local broker of a run. It is not called for a remote one.
	Start func(context.Context, *Params) (Broker, error)
	// Version is the measured version, printed as text and as JSON.
	Version fmt.Stringer
	// Out gets the report, as one JSON document if JSON is set, otherwise line by line.
	Out  io.Writer
	JSON bool
	// Bars is a terminal for progress bars; nil: none.
	Bars io.Writer
}

// Validate reports all errors at once, by the names of the flags. A remote address disables the
// local broker.
func (p *Params) Validate() error {
	var faults []string
	atLeastOne := func(v int, flag string) {
		if v < 1 {
			faults = append(faults, fmt.Sprintf("--%s: %d, want at least 1", flag, v))
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
		faults = append(faults, "--remote-broker-address: required with --local-broker=false")
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
		faults = append(faults, "--bare: cannot be combined with --bucket or --remote-broker-address")
	}
	return faults
}
