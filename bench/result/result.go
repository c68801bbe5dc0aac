// Package result defines the result of a run: one JSON file with a schema version. It holds all
// data for reports, comparisons and other programs.
package result

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/bench/workload"
)

// Schema is the version of the schema. It increases when a reader of the previous version would
// misread a file.
const Schema = 1

// File is one or more runs: repeats, targets, and the steps of a sweep or search.
type File struct {
	Schema   int       `json:"schema"`
	Tool     Tool      `json:"tool"`
	Runs     []Run     `json:"runs"`
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a run that could not be completed, and the reason.
type Failure struct {
	Label    string            `json:"label"`
	Workload workload.Workload `json:"workload"`
	Error    string            `json:"error"`
}

// Run is one execution of one workload against one target.
type Run struct {
	ID       string            `json:"id"`     // 16 hexadecimal digits; messages carry it
	Label    string            `json:"label"`  // of the target
	Repeat   int               `json:"repeat"` // from 1
	Started  time.Time         `json:"started"`
	Target   workload.Target   `json:"target"` // without secrets
	Workload workload.Workload `json:"workload"`
	System   sut.Info          `json:"system"`
	Machine  machine.Detail    `json:"machine"` // of the generator, before the run
	// Colocated means that broker and generator share this machine's cores. Such results do not
	// apply to separate machines.
	Colocated  bool   `json:"colocated"`
	Filesystem string `json:"filesystem,omitempty"` // of the target's data directory

	Counts    Counts    `json:"counts"`
	Errors    []Problem `json:"errors,omitempty"`
	Curves    Curves    `json:"curves"`
	Generator Generator `json:"generator"`
	Floor     *Floor    `json:"floor,omitempty"`
	Validity  Validity  `json:"validity"`
	Seconds   []Second  `json:"seconds"`
	Faults    []Fault   `json:"faults,omitempty"`

	// Agents are the load machines that shared the run; empty for a single machine. With agents,
	// Machine is that of the first agent, and Workload is the total of all.
	Agents     []Agent           `json:"agents,omitempty"`
	StartApart workload.Duration `json:"start_apart,omitempty"` // upper bound of the time between the starts of the agents
}

// Agent is one of several load machines.
type Agent struct {
	Address  string         `json:"address"`
	Commit   string         `json:"commit"` // of its build
	Machine  machine.Detail `json:"machine"`
	Counts   Counts         `json:"counts"`
	Measured int64          `json:"measured"` // samples of its headline curve
}

// Counts are the outcomes of all messages, including warm-up and cool-down.
type Counts struct {
	Sent       int64 `json:"sent"`
	Acked      int64 `json:"acked"`
	Failed     int64 `json:"failed"`     // publishes that ended with an error
	Unanswered int64 `json:"unanswered"` // publishes without an answer at the end
	Unsent     int64 `json:"unsent"`     // messages that were due and not sent before the end
	Measured   int64 `json:"measured"`   // of Sent, those due in the workload's duration
	Waited     int64 `json:"waited"`     // sends that waited because too many messages were in flight
	DoneTwice  int64 `json:"done_twice"` // publishes that the driver answered more than once, a bug of the driver

	Expected   int64 `json:"expected"`   // deliveries of acknowledged messages, one for each subscriber that receives all
	Received   int64 `json:"received"`   // deliveries, the first of each message to each such subscriber
	Lost       int64 `json:"lost"`       // of Expected, those that never arrived
	Unexpected int64 `json:"unexpected"` // of Received, those of messages that were not acknowledged
	Duplicates int64 `json:"duplicates"` // deliveries after the first
	Reordered  int64 `json:"reordered"`  // deliveries after that of a later message of the same publisher
	Corrupt    int64 `json:"corrupt"`    // deliveries whose payload differs from the sent one
	Foreign    int64 `json:"foreign"`    // deliveries of another run or topic
	Others     int64 `json:"others"`     // of Received, those of messages that another machine sent: counted, not measured

	SentRate     float64 `json:"sent_rate"`     // of messages due in the duration, per second, by time of sending
	ReceivedRate float64 `json:"received_rate"` // of their first deliveries, per second, by time of arrival
}

// Clean reports whether every message arrived unchanged and exactly once. It ignores the order,
// because partitions and shared subscriptions guarantee none.
func (c *Counts) Clean() bool {
	return c.Failed+c.Unanswered+c.Unsent+c.DoneTwice+c.Lost+c.Duplicates+c.Corrupt+c.Foreign == 0
}

// Problem is an error and the number of its occurrences.
type Problem struct {
	Text  string `json:"text"`
	Count int64  `json:"count"`
}

// Curves are the four distributions of a run: time to the acknowledgement and to the delivery, each
// from the scheduled time and from the call of the driver. Failed, unanswered, unsent and lost
// messages count with the time until the failure was known, at least the workload's timeout.
type Curves struct {
	AckIntended Curve  `json:"ack_intended"`
	AckSent     Curve  `json:"ack_sent"`
	E2EIntended *Curve `json:"e2e_intended,omitempty"` // nil without subscribers
	E2ESent     *Curve `json:"e2e_sent,omitempty"`
}

// Headline returns the curve that a run is judged by, and its name. It is end to end if there are
// subscribers, else to the acknowledgement. Both are from the intended time.
func (c *Curves) Headline() (name string, curve *Curve) {
	if c.E2EIntended != nil {
		return E2EIntended, c.E2EIntended
	}
	return AckIntended, &c.AckIntended
}

// The names of the curves.
const (
	AckIntended = "ack_intended"
	AckSent     = "ack_sent"
	E2EIntended = "e2e_intended"
	E2ESent     = "e2e_sent"
)

// Names are the names of the curves, in display order.
func Names() []string { return []string{E2EIntended, E2ESent, AckIntended, AckSent} }

// Named returns a curve by its name; nil if the run does not have it.
func (c *Curves) Named(name string) *Curve {
	switch name {
	case AckIntended:
		return &c.AckIntended
	case AckSent:
		return &c.AckSent
	case E2EIntended:
		return c.E2EIntended
	case E2ESent:
		return c.E2ESent
	}
	return nil
}

// Generator is the timing and resource use of the load generator in the measured time.
type Generator struct {
	Lag    Curve `json:"lag"`     // from the intended time to the send, whatever the cause
	OwnLag Curve `json:"own_lag"` // the part that the generator itself causes
	Inside Curve `json:"inside"`  // time inside the driver's Publish
	Jitter Curve `json:"jitter"`  // excess time of sleeps of 5 ms, throughout the run

	Spin       workload.Duration `json:"spin"`       // time before a send that the generator polls the clock instead of sleeping
	Scheduling string            `json:"scheduling"` // as in "nice 0" or "fifo 1"
	GOMAXPROCS int               `json:"gomaxprocs"`
	GC         GC                `json:"gc"`
	CPUSeconds float64           `json:"cpu_seconds"`
}

// GC is the activity of the generator's garbage collector.
type GC struct {
	Count      uint32 `json:"count"`
	PauseNs    int64  `json:"pause_ns"`
	PauseMaxNs int64  `json:"pause_max_ns"` // of the last 256 pauses
	AllocBytes uint64 `json:"alloc_bytes"`
	Allocs     uint64 `json:"allocs"`
	HeapBytes  uint64 `json:"heap_bytes"` // at the end
}

// Floor is the same load without a system, measured directly before the run: the overhead of the
// generator. It is not subtracted.
type Floor struct {
	Duration workload.Duration `json:"duration"`
	Curves   Curves            `json:"curves"`
	OwnLag   Curve             `json:"own_lag"`
	SentRate float64           `json:"sent_rate"`
}

// Validity reports whether the figures measure the system and not the generator.
type Validity struct {
	Valid   bool     `json:"valid"`
	Reasons []string `json:"reasons,omitempty"` // why it is invalid
	Notes   []string `json:"notes,omitempty"`   // further remarks
	Curve   string   `json:"curve"`             // the curve that the lag was compared with
	LagNs   int64    `json:"lag_p99_ns"`        // of OwnLag
	P99Ns   int64    `json:"p99_ns"`            // of Curve
	Limit   float64  `json:"limit_percent"`
}

// Second is a second of a run, by the time of each event. Its curves include warm-up and cool-down.
type Second struct {
	At       float64 `json:"at"`    // seconds from the first message due to the end of this one
	Phase    string  `json:"phase"` // at its end
	Sent     int64   `json:"sent"`
	Acked    int64   `json:"acked"`
	Failed   int64   `json:"failed,omitempty"`
	Received int64   `json:"received"`
	InFlight int64   `json:"in_flight"` // at its end
	LagMaxNs int64   `json:"lag_max_ns"`
	Ack      Curve   `json:"ack"` // from the intended time
	E2E      *Curve  `json:"e2e,omitempty"`

	BrokerCPU    float64 `json:"broker_cpu"` // cores
	BrokerRSS    int64   `json:"broker_rss"` // bytes
	GeneratorCPU float64 `json:"generator_cpu"`
	GeneratorRSS int64   `json:"generator_rss"`
}

// The phases of a run.
const (
	Warmup   = "warmup"
	Measure  = "measure"
	Cooldown = "cooldown"
	Drain    = "drain"
)

// Fault is an injected fault, with times in seconds from the first message due.
type Fault struct {
	Fault workload.Fault `json:"fault"`
	From  float64        `json:"from"`
	To    float64        `json:"to"`
	Error string         `json:"error,omitempty"`
}

// Time formats nanoseconds for display, to three digits.
func Time(ns float64) string {
	d := time.Duration(ns)
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(max(unit/1000, 1) * pow10(d/unit)).String()
		}
	}
	return d.String()
}

// pow10 returns the factor 1, 10 or 100 for rounding to three digits, given n digits before the
// decimal point.
func pow10(n time.Duration) time.Duration {
	switch {
	case n >= 100:
		return 100
	case n >= 10:
		return 10
	}
	return 1
}

// Tool is the program that made the measurement.
type Tool struct {
	Version string            `json:"version"`
	Commit  string            `json:"commit"`
	Dirty   bool              `json:"dirty"` // built from a tree with uncommitted changes
	Go      string            `json:"go"`
	Modules map[string]string `json:"modules,omitempty"` // path and version of every module in the build
}

// ThisTool describes the running program; version is the version set at build time, or "".
func ThisTool(version string) Tool {
	t := Tool{Version: version, Commit: "unknown", Go: runtime.Version(), Modules: map[string]string{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			t.Commit = s.Value
		case "vcs.modified":
			t.Dirty = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		t.Modules[m.Path] = m.Version
		if m.Replace != nil {
			t.Modules[m.Path] = m.Replace.Version
		}
	}
	t.Version = cmp.Or(t.Version, info.Main.Version)
	return t
}

// Packed is a compact histogram that is cheap to make. Encoding a histogram takes milliseconds,
// which is too slow for every second of a run.
type Packed struct {
	counts   []packedCount
	overflow int64
	negative int64
}

// packedCount is n samples in the bucket at an index.
type packedCount struct {
	index int32
	n     int64
}

// Pack copies the histogram.
func (l *Histogram) Pack() Packed {
	p := Packed{overflow: l.overflow, negative: l.negative}
	left := l.Count()
	for i, n := range l.h.Export().Counts {
		if n == 0 {
			continue
		}
		p.counts = append(p.counts, packedCount{int32(i), n})
		if left -= n; left == 0 {
			break
		}
	}
	return p
}

// Histogram returns the packed histogram.
func (p *Packed) Histogram() *Histogram {
	l := NewHistogram()
	s := l.h.Export()
	for _, c := range p.counts {
		s.Counts[c.index] = c.n
	}
	l.h = hdrhistogram.Import(s)
	l.overflow, l.negative = p.overflow, p.negative
	return l
}

// fileMax is the largest file that is read.
const fileMax = 1 << 30

// ErrSchema means that a file has a schema that this program does not read.
var ErrSchema = errors.New("unknown form of a result")

// Write writes a file atomically.
func (f *File) Write(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	defer os.Remove(tmp.Name()) // already renamed on success
	err = f.encode(tmp)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (f *File) encode(w io.Writer) error {
	f.Schema = Schema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(f)
}

// Read reads a file that Write wrote. The error is ErrSchema if its schema differs.
func Read(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, fileMax+1))
	if err == nil && len(text) > fileMax {
		err = fmt.Errorf("it is larger than %d bytes", fileMax)
	}
	var f *File
	if err == nil {
		f, err = Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	return f, nil
}

// Parse decodes the text of a file.
func Parse(text []byte) (*File, error) {
	var form struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, err
	}
	if form.Schema != Schema {
		return nil, fmt.Errorf("%w: schema %d, this program reads %d", ErrSchema, form.Schema, Schema)
	}
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	return &f, nil
}
