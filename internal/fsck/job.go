package fsck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

// Status is the state of a check.
type Status string

// The states. Idle: no check was started.
const (
	Idle      Status = "none"
	Running   Status = "running"
	Done      Status = "done"
	Cancelled Status = "cancelled"
	Failed    Status = "failed"
)

const (
	// A check beside a broker has jobReaders, and jobObjects as MemoryBytes. jobMemory is that and
	// the memory of pages of listings and of findings.
	jobReaders = 2
	jobObjects = 512 << 10
	jobMemory  = 1 << 20

	// FindingsMax bounds the kept findings. Damage comes first, and of the others the first kindMax
	// of each kind are kept.
	FindingsMax = 100
	kindMax     = 10
	// LostMax bounds the kept Lost of a finding, and textMax its text.
	LostMax = 10
	textMax = 1000
)

// JobOptions configure NewJob. All fields are required, except Shard.
type JobOptions struct {
	Store  objstore.Store
	Shard  uint32
	Memory *budget.Class // a check may take half of it
	Logger *slog.Logger
}

// Job runs checks beside a broker, one at a time, and never a repair. It has a goroutine only while
// one runs. Its methods may be called concurrently.
type Job struct {
	o JobOptions

	mu     sync.Mutex // guards the fields below
	at     Progress
	cancel context.CancelFunc // nil: no check runs
	ended  chan struct{}      // of the check that runs
	closed bool
}

// Progress describes the check that runs, or the last one.
type Progress struct {
	Status         Status
	Started, Ended time.Time
	Listed         Count // all objects of the bucket when the check began; not all of them are read
	Checked        Count // objects read so far
	Damages        int
	Kinds          map[string]int // findings by severity and kind, such as "orphan: pack"
	Findings       []Finding      // at most FindingsMax
	Report         Report         // at the end
	Err            error          // of a failed check
}

// Errors of Job.
var (
	ErrRunning = errors.New("a check of the bucket is running")
	ErrClosed  = errors.New("the broker is stopping")
)

// MemoryError reports that a check needs more memory than it may take.
type MemoryError struct{ Wanted, Max int64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("a check of this bucket needs %s of memory, the limit is %s, half of the memory for readers: raise --memory-limit, or run seb fsck on another machine",
		budget.Text(e.Wanted), budget.Text(e.Max))
}

// NewJob returns a Job. The caller must call Close.
func NewJob(o JobOptions) *Job { return &Job{o: o, at: Progress{Status: Idle}} }

// Start starts a check of the bucket, whose state has the given size. Errors: ErrRunning,
// ErrClosed, *MemoryError, *budget.OverError.
func (j *Job) Start(st state.Memory) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return ErrClosed
	case j.cancel != nil:
		return fmt.Errorf("%w since %s: %d of %d objects are checked", ErrRunning, j.at.Started.Format(time.RFC3339), j.at.Checked.Objects, j.at.Listed.Objects)
	}
	m := &jobReservation{class: j.o.Memory}
	if err := m.hold(memoryOf(st)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	j.cancel, j.ended = cancel, make(chan struct{})
	j.at = Progress{Status: Running, Started: time.Now().UTC(), Kinds: map[string]int{}}
	j.o.Logger.Info("check of the bucket started")
	go j.run(ctx, m)
	return nil
}

// Progress returns the check that runs, or the last one.
func (j *Job) Progress() Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.at
	p.Kinds, p.Findings = maps.Clone(p.Kinds), slices.Clone(p.Findings)
	return p
}

// Cancel ends the check that runs, and waits for its end.
func (j *Job) Cancel(ctx context.Context) error {
	j.mu.Lock()
	cancel, ended := j.cancel, j.ended
	j.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the check that runs, and refuses others. It may be called twice.
func (j *Job) Close() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	_ = j.Cancel(context.Background())
}

// run is the goroutine of a check.
func (j *Job) run(ctx context.Context, m *jobReservation) {
	listed, err := j.Inventory(ctx)
	j.update(func(p *Progress) { p.Listed = listed })
	report := &Report{}
	if err == nil {
		report, err = Run(ctx, Options{
			Store: j.o.Store, Shard: j.o.Shard, Readers: jobReaders, MemoryBytes: jobObjects, Hold: m.hold,
			Found:    func(f Finding) { j.update(func(p *Progress) { p.add(f) }) },
			Progress: func(n int64) { j.update(func(p *Progress) { p.Checked.add(n) }) },
		})
	}
	m.release()
	j.mu.Lock()
	defer j.mu.Unlock()
	p := &j.at
	switch {
	case err == nil:
		p.Status = Done
	case ctx.Err() != nil:
		p.Status = Cancelled
	default:
		p.Status, p.Err = Failed, err
	}
	p.Ended, p.Report = time.Now().UTC(), *report
	j.cancel()
	close(j.ended)
	j.cancel, j.ended = nil, nil
	log := j.o.Logger.With("state", string(p.Status), "objects", p.Checked.Objects, "bytes", p.Checked.Bytes, "damages", p.Damages, "took", p.Ended.Sub(p.Started))
	switch {
	case p.Err != nil:
		log.Warn("check of the bucket failed", "err", p.Err)
	case p.Damages > 0:
		log.Error("check of the bucket found damage")
	default:
		log.Info("check of the bucket ended")
	}
}

func (j *Job) update(f func(p *Progress)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.at)
}

// add counts a finding, and keeps it if there is room. Damage replaces other findings.
func (p *Progress) add(f Finding) {
	kind := string(f.Severity) + ": " + f.Kind
	p.Kinds[kind]++
	damage := f.Severity == Damage
	if damage {
		p.Damages++
	} else if p.Kinds[kind] > kindMax {
		return
	}
	if len(p.Findings) == FindingsMax {
		i := slices.IndexFunc(p.Findings, func(f Finding) bool { return f.Severity != Damage })
		if !damage || i < 0 {
			return
		}
		p.Findings = slices.Delete(p.Findings, i, i+1)
	}
	f.Lost = slices.Clone(f.Lost[:min(len(f.Lost), LostMax)])
	if len(f.Text) > textMax {
		f.Text = strings.ToValidUTF8(f.Text[:textMax], "") + "..."
	}
	p.Findings = append(p.Findings, f)
}

// jobReservation is the memory of a check.
type jobReservation struct {
	class    *budget.Class
	reserved *budget.Reservation
	bytes    int64
}

// hold reserves the memory of a check that holds n bytes for the state.
func (m *jobReservation) hold(n int64) (err error) {
	n += jobMemory
	switch most := m.class.Limit() / 2; {
	case n > most:
		return &MemoryError{Wanted: n, Max: most}
	case m.reserved == nil:
		if m.reserved, err = m.class.Reserve(n); err == nil {
			m.bytes = n
		}
	case n > m.bytes:
		if err = m.reserved.Grow(n - m.bytes); err == nil {
			m.bytes = n
		}
	}
	return err
}

func (m *jobReservation) release() { m.reserved.Release() }

// Inventory counts the objects of the bucket, with a request for each page of its listing.
func (j *Job) Inventory(ctx context.Context) (n Count, err error) {
	err = newChecker(Options{Store: j.o.Store}).list(ctx, "", "", func(e objstore.Entry) bool {
		n.add(e.Size)
		return true
	})
	return n, err
}

// placeMemory is the memory of a range in one of the two tables that a check makes of the state:
// the objects that it has to read, and the packs.
const placeMemory = 192

// memoryOf estimates the memory of a check for a state.
func memoryOf(m state.Memory) int64 { return m.Sum() + 2*m.Ranges/state.RangeMemory*placeMemory }

// snapshotMemory estimates the memory of reading a snapshot of size bytes beside the state st: its
// bytes, its state, and the encodings that are compared.
func snapshotMemory(st *state.State, size int64) int64 {
	return 3*size + max(st.Memory().Sum(), 4*size)
}

// hold calls Options.Hold before the check holds extra bytes beside those of the state.
func (c *checker) hold(extra int64) error {
	return c.holdTotal(func() { c.heldState = max(c.heldState, memoryOf(c.st.Memory())+extra) })
}

// holdObject calls Options.Hold before the start of an object is read that exceeds MemoryBytes. It
// may be called concurrently.
func (c *checker) holdObject(bytes int64) error {
	if bytes <= c.o.MemoryBytes {
		return nil
	}
	return c.holdTotal(func() { c.heldObject = max(c.heldObject, bytes) })
}

func (c *checker) holdTotal(change func()) error {
	if c.o.Hold == nil {
		return nil
	}
	c.holding.Lock()
	defer c.holding.Unlock()
	before := c.heldState + c.heldObject
	change()
	if now := c.heldState + c.heldObject; now > before {
		return c.o.Hold(now)
	}
	return nil
}
