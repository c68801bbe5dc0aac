// Package fsck walks a bucket without a broker: every object is read whole and every checksum verified, the log is
// folded from its beginning or its oldest snapshot to its end, and what the fold says is compared with what the bucket
// holds. It writes nothing unless asked to remove garbage, and may run beside a broker: a log that grows is no fault.
package fsck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// Severity says what a finding means.
type Severity string

// The severities.
const (
	Damage Severity = "damage" // the log, or records that can still be read, are not what was written (rule R9)
	Orphan Severity = "orphan" // an object that nothing refers to: no harm
	Note   Severity = "note"   // worth knowing, no harm
)

// Finding is one thing found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Kind is a short stable name of what is wrong, such as "corrupt object" or "beyond the seal".
	Kind string `json:"kind"`
	// Key is the object's name; empty if it is about no single object.
	Key string `json:"key,omitempty"`
	// Text says more, for people.
	Text string `json:"text,omitempty"`
	// Lost are the records that cannot be read because of it.
	Lost []Records `json:"lost,omitempty"`
}

// Records are the offsets [From, To) of a partition.
type Records struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

func (r Records) String() string {
	return fmt.Sprintf("%s/%d offsets %d to %d", r.Topic, r.Partition, r.From, r.To-1)
}

// Count is a number of objects and their size.
type Count struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (c *Count) add(bytes int64) { c.Objects++; c.Bytes += bytes }

// Report sums up a run.
type Report struct {
	Cluster    string `json:"cluster"`
	Epoch      uint32 `json:"epoch"` // the end of the log: the next slot to be written
	Slot       uint64 `json:"slot"`
	Listed     Count  `json:"listed"`     // everything below the bucket's prefix
	Verified   Count  `json:"verified"`   // objects read whole, all checksums right
	Superseded Count  `json:"superseded"` // below the newest snapshot, not needed: a broker collects them (rule R7)
	Orphans    Count  `json:"orphans"`
	Deleted    Count  `json:"deleted"`
	Packs      int    `json:"packs"`     // that the state refers to
	Snapshots  int    `json:"snapshots"` // read and right
	Compared   int    `json:"compared"`  // of these, equal to the fold of the log
	Views      int    `json:"views"`     // copies of views that are whole and right
	Seals      int    `json:"seals"`
	Topics     int    `json:"topics"`
	Partitions int    `json:"partitions"`
	Ranges     int    `json:"ranges"`
	Records    int64  `json:"records"` // that can be read, by the index
	Damages    int    `json:"damages"`
	Grew       bool   `json:"grew"` // a broker wrote meanwhile
}

// Options say how to run. Store must be set.
type Options struct {
	Store objstore.Store
	Shard uint32
	// Found is told of each finding as it comes, from one goroutine at a time.
	Found func(Finding)
	// Progress is told of the size of each object that was checked, from one goroutine at a time.
	Progress func(bytes int64)
	// Readers is how many objects are read at a time; 8.
	Readers int
	// MemoryBytes bounds the objects that are held at a time; one larger than it is held alone. 256 MiB. The state itself
	// comes on top: some 100 bytes for each range.
	MemoryBytes int64
	// Repair removes orphans that are permanent garbage. See Run.
	Repair bool
	// Discard removes what lost branches hold that a recovery has cut off the log: see Recover.
	Discard bool
	// Quiet is how long the log has to stand still before anything is removed; 10 seconds.
	Quiet time.Duration
}

// ErrNoLog says that there is no log in the bucket.
var ErrNoLog = errors.New("the bucket holds no Seb log")

// ErrActive says that nothing was removed because a broker is at work.
var ErrActive = errors.New("nothing was removed: a broker is writing to the bucket; stop it first")

// ErrDamaged says that nothing was removed because there is damage: whatever is left may be needed (rule R9).
var ErrDamaged = errors.New("nothing was removed: the bucket is damaged")

// Run checks a bucket. The report is filled in as far as the run came. An error says that the check itself could not be
// done (objstore's errors, ErrNoLog, state.ErrNewer); damage is no error but counted in the report.
//
// With Repair it then removes permanent garbage by rule R7, as seen from the two newest snapshots, both of which
// it has found to be on the log; and leftovers of store checks that were there all the time. It refuses with ErrActive
// or ErrDamaged. A SEAL and a name of a newer epoch are never removed. A leader that is idle makes no request, so it cannot
// be seen. It need not be: no leader can still use permanent garbage.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := newChecker(o)
	err := c.run(ctx)
	c.readers.Wait()
	if c.st != nil {
		c.sumUp()
	}
	return &c.report, err
}

func newChecker(o Options) *checker {
	if o.Readers <= 0 {
		o.Readers = 8
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 256 << 20
	}
	if o.Quiet <= 0 {
		o.Quiet = 10 * time.Second
	}
	return &checker{
		o: o, memory: newGate(o.MemoryBytes), walked: map[record.ID][]span{}, sealed: map[record.ID]bool{},
		seen: map[string]bool{}, branches: map[record.ID]bool{},
	}
}

// checker is one run. Its fields belong to the goroutine of Run but for those that mu guards.
type checker struct {
	o      Options
	memory *gate
	// readers are the reads of the walk under way.
	readers sync.WaitGroup

	mu     sync.Mutex // guards report, and calls of Found and Progress
	report Report

	cluster record.ID
	noMeta  bool         // the cluster's object is missing
	badMeta error        // or cannot be read
	st      *state.State // the fold, from wherever it could begin
	// chain are the epochs of the log that are known, ascending: those the walk came by, and those snapshots told of.
	chain   []state.Epoch
	stopped bool // the walk could not go on to the end of the log
	// floor is the second newest snapshot: nothing at or above it can have been collected (rule R7).
	floor    state.Position
	newest   string               // snapshot of the last listing
	snaps    []snapshotObject     // not yet reached, ascending
	seen     map[string]bool      // snapshots that were read
	gone     bool                 // a snapshot of the last listing is not there any more
	proven   []snapshotObject     // found to be on the log, ascending
	walked   map[record.ID][]span // slots that the walk has verified, by the epoch's nonce
	sealed   map[record.ID]bool   // epochs whose SEAL was seen
	suspects []suspect
	probes   map[string]bool    // names below probe/ that the first listing showed
	accepted []objstore.Entry   // of lost branches that were accepted
	branches map[record.ID]bool // epochs that are reported as lost branches
	strays   []string           // what lies there
}

// span is the slots [from, to) of an epoch.
type span struct{ from, to uint64 }

// suspect is an object of the log that is not right. Whether that is damage is known at the end: what is garbage may
// be anything.
type suspect struct {
	key  string
	at   ref
	kind string
	err  error
	body bool // only its batches are wrong
}

func (c *checker) run(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	if err := c.follow(ctx); err != nil {
		return err
	}
	l := newListing(c)
	if err := l.run(ctx); err != nil {
		return err
	}
	if err := l.views(ctx); err != nil {
		return err
	}
	end := c.st.Pos
	if !c.stopped {
		// What was written and collected meanwhile explains what seems to be missing.
		if err := c.follow(ctx); err != nil {
			return err
		}
		c.report.Grew = c.st.Pos != end
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	if err := c.branched(ctx); err != nil {
		return err
	}
	c.settle()
	if err := c.checkSeals(ctx); err != nil {
		return err
	}
	c.checkOffsets()
	switch {
	case c.o.Discard:
		return c.discard(ctx)
	case c.o.Repair:
		return c.repair(ctx)
	}
	return nil
}

// found counts and hands on a finding.
func (c *checker) found(f Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Severity == Damage {
		c.report.Damages++
	}
	if c.o.Found != nil {
		c.o.Found(f)
	}
}

func (c *checker) damage(kind, key, format string, args ...any) {
	c.found(Finding{Severity: Damage, Kind: kind, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) note(kind, key, format string, args ...any) {
	c.found(Finding{Severity: Note, Kind: kind, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) orphan(kind, key string, bytes int64, format string, args ...any) {
	c.mu.Lock()
	c.report.Orphans.add(bytes)
	c.mu.Unlock()
	c.found(Finding{Severity: Orphan, Kind: kind, Key: key, Text: fmt.Sprintf(format, args...)})
}

// verified counts an object that is right in all its parts, or read at least.
func (c *checker) verified(bytes int64, right bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if right {
		c.report.Verified.add(bytes)
	}
	if c.o.Progress != nil {
		c.o.Progress(bytes)
	}
}

func (c *checker) sumUp() {
	r := &c.report
	r.Cluster, r.Epoch, r.Slot = c.st.Cluster.String(), c.st.Pos.Epoch, c.st.Pos.Slot
	packs := map[ref]bool{}
	for _, t := range c.st.Topics() {
		r.Topics++
		for _, p := range t.Partitions.All() {
			r.Partitions++
			r.Ranges += len(p.Ranges)
			for i := range p.Ranges {
				r.Records += int64(p.Ranges[i].Records)
				if p.Ranges[i].Pack {
					packs[refOf(&p.Ranges[i])] = true
				}
			}
		}
	}
	r.Packs = len(packs)
}
