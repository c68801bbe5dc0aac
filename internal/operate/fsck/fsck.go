// Package fsck checks a bucket, without a broker. It reads every object that the log needs whole and
// verifies its checksums. It folds the log from its beginning or its oldest snapshot to its end, and
// compares the resulting state with the objects in the bucket. Without Repair and Discard, Run writes
// nothing. It may run alongside a broker, because growth of the log is not damage.
package fsck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// Severity classifies a finding.
type Severity string

// The severities.
const (
	Damage Severity = "damage" // the log or readable records differ from the written data (rule R9)
	Orphan Severity = "orphan" // an object without a reference: harmless
	Note   Severity = "note"   // information only: harmless

	Exposed Severity = "exposed" // an object with readable secrets (FindSecrets)
)

// Finding is one result of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	// Kind is a short stable name of the problem, such as "corrupt object" or "beyond the seal".
	Kind string `json:"kind"`
	// Key is the object's name; empty if the finding is not about a single object.
	Key string `json:"key,omitempty"`
	// Text is a description for people.
	Text string `json:"text,omitempty"`
	// Lost are the records that cannot be read because of the finding.
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
	Listed     Count  `json:"listed"`     // all objects below the bucket's prefix
	Verified   Count  `json:"verified"`   // objects read whole whose checksums match
	Superseded Count  `json:"superseded"` // no longer needed: a broker collects them (rule R7)
	Orphans    Count  `json:"orphans"`
	Deleted    Count  `json:"deleted"`
	Packs      int    `json:"packs"`     // with a reference in the state
	Snapshots  int    `json:"snapshots"` // read and valid
	Compared   int    `json:"compared"`  // snapshots equal to the fold of the log
	Views      int    `json:"views"`     // copies of views that are complete and valid
	Seals      int    `json:"seals"`
	Topics     int    `json:"topics"`
	Partitions int    `json:"partitions"`
	Ranges     int    `json:"ranges"`
	Records    int64  `json:"records"` // readable records, by the index
	Damages    int    `json:"damages"`
	Grew       bool   `json:"grew"` // a broker wrote meanwhile
}

// Options configure a run. Store must be set.
type Options struct {
	Store objstore.Store
	Shard uint32
	// Found is called with each finding, from one goroutine at a time.
	Found func(Finding)
	// Progress is called with the size of each checked object, from one goroutine at a time.
	Progress func(bytes int64)
	// Readers is the number of objects read at a time; default 8.
	Readers int
	// MemoryBytes bounds the bytes of objects held at a time; default 8 MiB. A check holds the start
	// of each object, up to its batches; a larger one is held alone. The state needs some 100 bytes
	// for each range in addition.
	MemoryBytes int64
	// Repair removes permanent garbage. See Run.
	Repair bool
	// Discard removes the objects of lost branches that a recovery has cut off the log. See
	// Recover.
	Discard bool
	// Quiet is how long the log must not grow before objects are removed; default 10 seconds.
	Quiet time.Duration
}

// ErrNoLog reports that the bucket holds no log.
var ErrNoLog = errors.New("the bucket holds no Seb log")

// ErrActive reports that no object was removed because a broker is writing to the bucket.
var ErrActive = errors.New("nothing was removed: a broker is writing to the bucket; stop it first")

// ErrDamaged reports that no object was removed because the bucket is damaged: any remaining object
// may be needed (rule R9).
var ErrDamaged = errors.New("nothing was removed: the bucket is damaged")

// Run checks a bucket. The report covers the run up to its end or its first error. An error means
// that the check could not be completed (objstore's errors, ErrNoLog, state.ErrNewer). Damage is
// not an error; the report counts it.
//
// With Repair, Run then removes permanent garbage by rule R7, relative to the two newest snapshots,
// both of which it has found to be on the log. It also removes leftovers of store checks that
// existed during the whole run. It refuses with ErrActive or ErrDamaged. It never removes a SEAL or
// an object of a newer epoch. Run cannot detect an idle leader, because such a leader makes no
// request. Removal is still safe, because no leader can use permanent garbage.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := newChecker(o)
	err := c.run(ctx)
	c.readers.Wait()
	if c.st != nil {
		c.sumUp()
	}
	return &c.report, err
}

// memoryBytes is the default of MemoryBytes.
const memoryBytes = 8 << 20

func newChecker(o Options) *checker {
	if o.Readers <= 0 {
		o.Readers = 8
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, memoryBytes)
	if o.Quiet <= 0 {
		o.Quiet = 10 * time.Second
	}
	return &checker{
		o: o, memory: newGate(o.MemoryBytes), walked: map[record.ID][]span{}, sealed: map[record.ID]bool{},
		seen: map[string]bool{}, branches: map[record.ID]bool{},
	}
}

// checker is one run. The goroutine of Run owns its fields, except those that mu guards.
type checker struct {
	o      Options
	memory *gate
	// readers counts the reads of the walk in progress.
	readers sync.WaitGroup

	mu     sync.Mutex // guards report, and calls of Found and Progress
	report Report

	cluster record.ID
	noMeta  bool         // the cluster object is missing
	badMeta error        // the cluster object is corrupt
	st      *state.State // the fold, from the first position at which it could begin
	// chain are the known epochs of the log, ascending: from the walk, the snapshots and the SEALs.
	chain   []state.Epoch
	stopped bool // the walk could not continue to the end of the log
	// floor is the position of the second newest snapshot: no object at or above it can have been
	// collected (rule R7).
	floor  state.Position
	newest string               // newest snapshot of the last listing
	snaps  []snapshotObject     // not yet reached, ascending
	seen   map[string]bool      // snapshots that were read
	gone   bool                 // a snapshot of the last listing no longer exists
	proven []snapshotObject     // found to be on the log, ascending
	walked map[record.ID][]span // slots that the walk has verified, by the epoch's nonce
	sealed map[record.ID]bool   // epochs whose SEAL was seen
	// recovered are the slots with a recovery, by name.
	recovered map[string]bool
	suspects  []suspect
	probes    map[string]bool    // names below probe/ in the first listing
	accepted  []objstore.Entry   // objects of lost branches whose loss was accepted
	branches  map[record.ID]bool // epochs reported as lost branches, by nonce
	strays    []string           // the objects of those epochs
}

// span is the slots [from, to) of an epoch.
type span struct{ from, to uint64 }

// suspect is an object of the log that is corrupt or has the wrong content. The end of the run
// decides whether that is damage, because garbage may have any content.
type suspect struct {
	key  string
	at   ref
	kind string
	err  error
	body bool // only its batches are corrupt
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
		// Objects that seem to be missing may have been collected meanwhile.
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
	if err := c.checkFiles(ctx); err != nil {
		return err
	}
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

// found counts a finding and passes it to Found.
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

// verified counts an object if it is right, and reports its size as progress in any case.
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

// orphansShown is the number of orphans and notes of each kind that are printed without --all.
const orphansShown = 5

// Printer prints each finding and then the summary, as text or JSON.
type Printer struct {
	W     io.Writer
	JSON  bool           // a line of JSON for each finding, and a last line with the summary
	All   bool           // every orphan and note; otherwise the first few of each kind
	kinds map[string]int // findings other than damage, by kind
}

// Found prints a finding.
func (p *Printer) Found(f Finding) {
	if p.JSON {
		_ = json.NewEncoder(p.W).Encode(f)
		return
	}
	if f.Severity != Damage && f.Severity != Exposed {
		if p.kinds == nil {
			p.kinds = map[string]int{}
		}
		p.kinds[f.Kind]++
		if n := p.kinds[f.Kind]; n > orphansShown && !p.All {
			return
		}
	}
	line := fmt.Sprintf("%s: %s", f.Severity, f.Kind)
	if f.Key != "" {
		line += " " + f.Key
	}
	if f.Text != "" {
		line += ": " + f.Text
	}
	const lostShown = 10
	for i, r := range f.Lost {
		if i == lostShown {
			line += fmt.Sprintf(", and %d more", len(f.Lost)-i)
			break
		}
		if i == 0 {
			line += "; lost: "
		} else {
			line += ", "
		}
		line += r.String()
	}
	fmt.Fprintln(p.W, line)
}

// Summary prints the report of a run. store names the bucket.
func (p *Printer) Summary(store string, r *Report, took time.Duration) {
	if p.JSON {
		_ = json.NewEncoder(p.W).Encode(map[string]any{"summary": r})
		return
	}
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		n := p.kinds[kind]
		if n > orphansShown && !p.All {
			fmt.Fprintf(p.W, "and %d more of the kind %q: --all shows them\n", n-orphansShown, kind)
		}
	}
	fmt.Fprintf(p.W, "%s\n", store)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p.W, "  %-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("cluster", "%s, ends at epoch %d slot %d%s", r.Cluster, r.Epoch, r.Slot, map[bool]string{true: ", and a broker is writing to it"}[r.Grew])
	line("holds", "%s", counted(r.Listed))
	line("verified", "%s, %d seals, %d snapshots (%d of them compared with the log)", counted(r.Verified), r.Seals, r.Snapshots, r.Compared)
	if r.Views > 0 {
		line("views", "%d copies that machines without the file begin from", r.Views)
	}
	line("records", "%d in %d topics, %d partitions, %d ranges", r.Records, r.Topics, r.Partitions, r.Ranges)
	line("superseded", "%s that a broker will collect", counted(r.Superseded))
	line("orphans", "%s", counted(r.Orphans))
	if r.Deleted.Objects > 0 {
		line("removed", "%s", counted(r.Deleted))
	}
	line("damages", "%d", r.Damages)
	line("took", "%v", took.Round(time.Millisecond))
}

func counted(c Count) string { return fmt.Sprintf("%d objects, %d bytes", c.Objects, c.Bytes) }
