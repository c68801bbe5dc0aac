package compact

import (
	"log/slog"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/record"
)

// Phase is a phase of a pass.
type Phase string

// The phases.
const (
	Sorting  Phase = "sorting"  // all records are read, to find those that a newer one replaces
	Dropping Phase = "dropping" // the ranges that lose records are read again, and the rest is written
)

// Pass describes a running pass. Its zero value is none.
type Pass struct {
	Phase      Phase
	Started    time.Time
	Partitions int
	// the partition that the pass reads
	Topic     record.ID
	Partition uint32
	// Bytes that were read, and those that the pass reads until its end, at most while Sorting.
	Read, Bytes int64
}

// Progress shows the running pass of a Merger. It is safe for concurrent use.
type Progress struct {
	mu   sync.Mutex
	pass Pass
}

// Pass returns the running pass.
func (p *Progress) Pass() Pass {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pass
}

// passed is the progress of a pass, for operators. The merger's goroutine owns it.
type passed struct {
	Pass
	shown  *Progress
	logged time.Time
	total  *metrics.Counter
	left   *metrics.Gauge
}

// progressEvery is the interval of log lines about a pass.
const progressEvery = time.Minute

func newPassed(o *Options) passed {
	return passed{
		shown: o.Progress, total: o.Metrics.GetOrCreateCounter(`seb_compaction_read_bytes_total`),
		left: o.Metrics.GetOrCreateGauge(`seb_compaction_left_bytes`, nil),
	}
}

func (p *passed) begin(c *Compaction) {
	p.Pass = Pass{Phase: Sorting, Started: time.Now(), Partitions: len(c.parts), Bytes: c.Bytes()}
	p.logged = p.Started
	p.show()
}

// drop begins the second phase, which reads the portions of Plans.
func (p *passed) drop(plans [][]Run) {
	p.Phase, p.Bytes = Dropping, p.Read
	for _, runs := range plans {
		for i := range runs {
			p.Bytes += runs[i].Bytes
		}
	}
	p.show()
}

// next begins a portion.
func (p *passed) next(runs []Run) {
	p.Topic, p.Partition = runs[0].Topic, runs[0].Partition
	p.show()
}

// add ends the reading of a portion.
func (p *passed) add(n int64) {
	p.Read += n
	p.total.AddInt64(n)
	p.show()
}

func (p *passed) end() {
	p.Pass = Pass{}
	p.show()
}

func (p *passed) show() {
	p.left.Set(float64(p.Bytes - p.Read))
	if p.shown != nil {
		p.shown.mu.Lock()
		defer p.shown.mu.Unlock()
		p.shown.pass = p.Pass
	}
}

func (p *passed) log(to *slog.Logger) {
	if time.Since(p.logged) >= progressEvery {
		p.logged = time.Now()
		to.Info("compaction in progress", "phase", p.Phase, "partitions", p.Partitions, "read", p.Read, "of_at_most", p.Bytes)
	}
}
