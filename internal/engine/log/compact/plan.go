package compact

import (
	"bytes"
	"cmp"
	"math"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Policy decides when and how much is merged. A zero value means the default.
type Policy struct {
	// bytes of a pack; 64 MiB. A pack below three quarters of it is small and merged again
	Target int64
	Age    time.Duration // age at which even few commit objects are merged; 10 minutes
	// Frugal: requests are short. Age is then frugalFactor times as long, unless there is a Purge.
	Frugal bool
	Small  int // number of small packs that are merged; 8
	// KeyBytes is the memory in which a compaction sorts the keys of its records; 16 MiB.
	KeyBytes int
	// Scratch creates a temporary file for the keys that do not fit into KeyBytes. A Merger
	// has its own if it is nil.
	Scratch func() (Scratch, error)
	// Busy: the broker receives much data. Commit objects that would be merged only for their bytes
	// then wait until they have Backlog ranges; 16,384, a few megabytes of state. That many ranges
	// are merged whatever their size.
	Busy    bool
	Backlog int
	// KeepPacks: only commit objects are merged, because a compaction reads the packs.
	KeepPacks bool
	// Skip, if not nil, reports whether a range must not be merged.
	Skip  func(state.Source) bool
	Purge Purge
}

// frugalFactor multiplies Age while requests are short.
const frugalFactor = 6

// Purge is a compacted topic of one partition whose removed records must leave the bucket: those
// below an offset. The zero Purge is none.
type Purge struct {
	Topic record.ID
	Below int64
}

func (c Policy) withDefaults() Policy {
	if c.Target <= 0 {
		c.Target = 64 << 20
	}
	if c.Age <= 0 {
		c.Age = 10 * time.Minute
	}
	if c.Frugal && c.Purge.Below == 0 {
		c.Age *= frugalFactor
	}
	if c.Small <= 0 {
		c.Small = 8
	}
	if c.Backlog <= 0 {
		c.Backlog = 16 << 10
	}
	if c.KeyBytes <= 0 {
		c.KeyBytes = 16 << 20
	}
	return c
}

// Run is consecutive ranges of one partition that become one range of a pack.
type Run struct {
	Topic     record.ID
	Partition uint32
	Ranges    []state.Range
	Bytes     int64

	part     *compacting // nil unless in a Compaction
	first    uint64      // number of the first range within it
	filtered []Filtered  // remaining part of each range; nil: everything
}

// room reports whether a range may follow in the run. It must begin where the run ends: lost offsets
// may lie between. A range counts its offsets in 32 bits, and compaction leaves few bytes over very
// many offsets.
func (run *Run) room(r *state.Range) bool {
	n := len(run.Ranges)
	return n == 0 || run.Ranges[n-1].End() == r.Base && r.End()-run.Ranges[0].Base <= math.MaxUint32
}

// left is the index entry in the pack of a range of the run.
func (run *Run) left(j int) record.IndexEntry {
	r := &run.Ranges[j]
	e := record.IndexEntry{
		Topic: run.Topic, Partition: run.Partition, Base: r.Base, Span: r.Span, Records: r.Records, Len: r.Len,
		MinTime: r.MinTime, MaxTime: r.MaxTime, AppendTime: r.AppendTime,
	}
	if run.filtered != nil {
		f := &run.filtered[j]
		e.Records, e.Len, e.MaxTime = f.Records, f.Len, min(e.MaxTime, f.MaxTimestamp)
	}
	return e
}

// Plan is the content of one pack, sorted by partition and offset.
type Plan struct {
	Runs  []Run
	Bytes int64
}

// Choose plans the next pack from a committed state (a view); nil if none is due at now (µs). It
// merges either commit objects, or whole packs that are small or mostly dead. Each plan thus leaves
// fewer or smaller objects, so merging always ends.
func Choose(s *state.State, c Policy, now int64) *Plan {
	c = c.withDefaults()
	f := survey(s, &c, now)
	switch {
	case f.slotBytes >= c.Target && !c.Busy || f.slots >= c.Backlog || f.old && (f.slots > 1 || c.Purge.Below > 0):
		return plan(collect(s, &c, func(r *state.Range) bool { return !r.Pack && f.wanted(r) }), c.Target)
	case !c.KeepPacks && (len(f.small) >= c.Small || f.dead > 0):
		chosen := f.choosePacks()
		return plan(collect(s, &c, func(r *state.Range) bool { return r.Pack && chosen[packOf(r)] && f.wanted(r) }), 2*c.Target)
	}
	return nil
}

func packOf(r *state.Range) state.PackID { return state.PackID{Epoch: r.Epoch, ID: r.Slot} }

// Owed reports whether commit objects stored up to a time (µs), or the uncompacted part of the
// topic, may hold records that a purge must remove.
func (p Purge) Owed(s *state.State, before int64) bool {
	for _, t := range s.Topics() {
		for i, part := range t.Partitions.Written() {
			if t.ID == p.Topic && i == 0 && max(part.Clean, part.Start) < p.Below {
				return true
			}
			for j := range part.Ranges {
				if r := &part.Ranges[j]; !r.Pack && !r.Lost() && r.AppendTime <= before {
					return true
				}
			}
		}
	}
	return false
}

// Dead reports whether an index entry of a pack is about records below the purge that a reader
// cannot reach there.
func (p Purge) Dead(s *state.State, id state.PackID, e *record.IndexEntry) bool {
	t := s.Topic(p.Topic)
	if e.Topic != p.Topic || e.Base >= p.Below || t == nil {
		return false
	}
	for i := range t.Partitions.At(int(e.Partition)).Ranges {
		if r := &t.Partitions.At(int(e.Partition)).Ranges[i]; r.Pack && packOf(r) == id && r.Base <= e.Base && e.Base < r.End() {
			return false
		}
	}
	return true
}

// Packs lists the packs with data that readers can reach, each with the name of one of its ranges.
func Packs(s *state.State) map[state.PackID]string {
	packs := map[state.PackID]string{}
	for _, t := range s.Topics() {
		for _, part := range t.Partitions.Written() {
			for i := range part.Ranges {
				if r := &part.Ranges[i]; r.Pack && packs[packOf(r)] == "" {
					packs[packOf(r)] = s.RangeKey(r)
				}
			}
		}
	}
	return packs
}

// Rewriting plans a pack with the remaining data of another one.
func Rewriting(s *state.State, c Policy, id state.PackID) *Plan {
	c = c.withDefaults()
	f := &found{policy: &c}
	return plan(collect(s, &c, func(r *state.Range) bool { return r.Pack && packOf(r) == id && f.wanted(r) }), 2*c.Target)
}

// Waiting is the size in bytes of the commit objects that may be merged.
func Waiting(s *state.State, c Policy) int64 {
	c = c.withDefaults()
	return survey(s, &c, 0).slotBytes
}

// found is the objects that may be merged.
type found struct {
	policy    *Policy
	slots     int // ranges in commit objects
	slotBytes int64
	old       bool // a commit object is old
	dead      int  // packs that are mostly dead
	small     []candidate
}

// candidate is a pack that may be merged.
type candidate struct {
	id   state.PackID
	live int64
	dead bool
}

func survey(s *state.State, c *Policy, now int64) *found {
	f := &found{policy: c}
	seen := map[state.PackID]bool{}
	for _, t := range s.Topics() {
		for _, p := range t.Partitions.Written() {
			for i := range p.Ranges {
				r := &p.Ranges[i]
				if r.Lost() || !f.wanted(r) {
					continue
				}
				if r.Pack {
					f.pack(s, packOf(r), seen)
					continue
				}
				f.slots++
				f.slotBytes += int64(r.Len)
				f.old = f.old || r.AppendTime <= now-c.Age.Microseconds()
			}
		}
	}
	return f
}

func (f *found) wanted(r *state.Range) bool {
	return f.policy.Skip == nil || !f.policy.Skip(r.Source())
}

// pack records a pack that is small or mostly dead, once.
func (f *found) pack(s *state.State, id state.PackID, seen map[state.PackID]bool) {
	if seen[id] {
		return
	}
	seen[id] = true
	p, _ := s.PackOf(id)
	dead := p.Live*2 < p.Size
	if dead {
		f.dead++
	}
	if dead || p.Size*4 < f.policy.Target*3 {
		f.small = append(f.small, candidate{id, p.Live, dead})
	}
}

// choosePacks chooses mostly dead packs, then the smallest, up to the size of a pack but at least
// two. Without dead packs it waits for Policy.Small packs.
func (f *found) choosePacks() map[state.PackID]bool {
	sorting.Sort(f.small, func(a, b candidate) int {
		if a.dead != b.dead {
			if a.dead {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.live, b.live), cmp.Compare(a.id.Epoch, b.id.Epoch), cmp.Compare(a.id.ID, b.id.ID))
	})
	chosen, size := map[state.PackID]bool{}, int64(0)
	for _, c := range f.small {
		if !c.dead && len(f.small) < f.policy.Small || len(chosen) >= 2 && size+c.live > f.policy.Target {
			break
		}
		chosen[c.id] = true
		size += c.live
	}
	return chosen
}

// collect lists the runs of wanted ranges, each at most as large as a pack.
func collect(s *state.State, c *Policy, wanted func(*state.Range) bool) []Run {
	var runs []Run
	for _, t := range s.Topics() {
		for i, p := range t.Partitions.Written() {
			run := Run{Topic: t.ID, Partition: uint32(i)}
			flush := func() {
				if len(run.Ranges) > 0 {
					runs = append(runs, run)
				}
				run.Ranges, run.Bytes = nil, 0
			}
			for j := range p.Ranges {
				r := &p.Ranges[j]
				if r.Lost() || !wanted(r) {
					flush()
					continue
				}
				if run.Bytes+int64(r.Len) > c.Target || !run.room(r) {
					flush()
				}
				run.Ranges = append(run.Ranges, *r)
				run.Bytes += int64(r.Len)
			}
			flush()
		}
	}
	return runs
}

// plan takes the largest runs first, so that a large topic gets ranges of its own and small topics
// share a pack.
func plan(runs []Run, limit int64) *Plan {
	sorting.Stable(runs, func(a, b Run) int { return cmp.Compare(b.Bytes, a.Bytes) })
	p := &Plan{}
	for _, r := range runs {
		if p.Bytes > 0 && p.Bytes+r.Bytes > limit {
			continue
		}
		p.Runs = append(p.Runs, r)
		p.Bytes += r.Bytes
	}
	sorting.Sort(p.Runs, func(a, b Run) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Ranges[0].Base, b.Ranges[0].Base))
	})
	if len(p.Runs) == 0 {
		return nil
	}
	return p
}

// Layout is the object of a plan: its index with an entry for each source, and the content of the
// installing record. record.EncodeObject sets the positions in Index; Content uses them.
type Layout struct {
	Head  record.Head
	Index []record.IndexEntry
	plan  *Plan
}

// NewLayout lays a plan out as pack number of the state's epoch.
func NewLayout(p *Plan, s *state.State, number uint64) *Layout {
	l := &Layout{plan: p, Head: record.Head{
		Kind: record.KindPack, Cluster: s.Cluster, Shard: s.Shard, Epoch: s.Pos.Epoch, Nonce: s.Nonce, Slot: number,
	}}
	for i := range p.Runs {
		run := &p.Runs[i]
		for j := range run.Ranges {
			r := &run.Ranges[j]
			l.Head.Time = max(l.Head.Time, r.AppendTime)
			l.Index = append(l.Index, run.left(j))
		}
	}
	return l
}

// Sources lists the ranges in the order of their batches in the pack.
func (l *Layout) Sources() []*state.Range {
	var all []*state.Range
	for i := range l.plan.Runs {
		for j := range l.plan.Runs[i].Ranges {
			all = append(all, &l.plan.Runs[i].Ranges[j])
		}
	}
	return all
}

// Key is the name of the pack.
func (l *Layout) Key() string {
	return state.PackKey(l.Head.Shard, l.Head.Epoch, l.Head.Nonce, l.Head.Slot)
}

// Content is the content of the installing record. Call it after the head was encoded.
func (l *Layout) Content() *state.PackContent {
	c := &state.PackContent{ID: l.Head.Slot, Size: int64(l.Head.ObjectLen)}
	n := 0
	for i := range l.plan.Runs {
		run := &l.plan.Runs[i]
		first := &l.Index[n]
		e := state.PackEntry{Topic: run.Topic, Partition: run.Partition, Range: state.Range{
			Base: first.Base, Pos: first.Pos, MinTime: first.MinTime, MaxTime: first.MaxTime, Pack: true,
		}}
		for j := range run.Ranges {
			x := &l.Index[n]
			r := &e.Range
			r.Span += x.Span
			r.Records += x.Records
			r.Len += x.Len
			r.MinTime, r.MaxTime = min(r.MinTime, x.MinTime), max(r.MaxTime, x.MaxTime)
			r.AppendTime = max(r.AppendTime, x.AppendTime)
			e.Sources = append(e.Sources, run.Ranges[j].Source())
			n++
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

// Step is the next step for a pack.
type Step uint8

// The steps.
const (
	Put     Step = iota + 1 // PUT the pack: the same bytes at every attempt (rule R1)
	Install                 // propose the record that installs it
	Done                    // no further step: installed, or its slot decides
	Abandon                 // no further step: garbage that a later epoch collects (R7)
)

// Result is the result of a step.
type Result uint8

// The results.
const (
	Built     Result = iota + 1 // the pack is encoded and verified against its sources
	Stored                      // the store has it: stored now, or by an earlier attempt of ours
	NoVerdict                   // the PUT has no verdict
	Acked                       // the installing record is committed
	Rejected                    // the record is in no slot and never will be
	Unknown                     // the record was sent and has no verdict
)

// Next is rule R8: a pack is stored, known durable, then installed. Once the record is frozen its
// slot decides about the pack, so the pack is not abandoned even if the outcome is unknown.
func Next(r Result) Step {
	switch r {
	case Built, NoVerdict:
		return Put
	case Stored:
		return Install
	case Rejected:
		return Abandon
	}
	return Done
}
