package pack

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Config says when and how much is merged. The zero value of a field means its default.
type Config struct {
	Target int64         // bytes of a pack; 64 MiB. A pack under three quarters of it is small, and merged again
	Age    time.Duration // commit objects older than this are merged however few they are; 10 minutes
	Small  int           // so many small packs are merged; 8
	// KeysMax bounds the keys that a compaction keeps in memory, about 64 bytes each; 250,000. More take several passes.
	KeysMax int
	// Busy says that much is coming in: commit objects that are merged for their bytes alone wait, until there are Backlog ranges
	// of them; 16,384, some megabytes of state. So many are merged however few bytes they have.
	Busy    bool
	Backlog int
	// Skip, if not nil, says of a range that it stays where it is.
	Skip func(state.Source) bool
}

func (c Config) withDefaults() Config {
	if c.Target <= 0 {
		c.Target = 64 << 20
	}
	if c.Age <= 0 {
		c.Age = 10 * time.Minute
	}
	if c.Small <= 0 {
		c.Small = 8
	}
	if c.Backlog <= 0 {
		c.Backlog = 16 << 10
	}
	if c.KeysMax <= 0 {
		c.KeysMax = 250_000
	}
	return c
}

// Run is a run of ranges of one partition that follow one another, to become one range of a pack.
type Run struct {
	Topic     record.ID
	Partition uint32
	Ranges    []state.Range
	Bytes     int64

	part     *compacting // nil unless in a Compaction
	filtered []Filtered  // what is left of Ranges; nil: all
}

// room says whether a range may follow in the run: what the offsets of a range are counted in has 32 bits, and compaction
// leaves few bytes of very many.
func (run *Run) room(r *state.Range) bool {
	return len(run.Ranges) == 0 || r.End()-run.Ranges[0].Base <= math.MaxUint32
}

// left is what the pack's index says of a range of the run.
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

// Plan is what goes into one pack, sorted by partition and offset.
type Plan struct {
	Runs  []Run
	Bytes int64
}

// Choose plans the next pack from a committed state (a view), or nil if nothing is due at now (µs). Either commit objects
// are merged, or whole packs that are small or mostly dead: so each plan leaves fewer objects than before, or smaller ones,
// and merging comes to rest.
func Choose(s *state.State, c Config, now int64) *Plan {
	c = c.withDefaults()
	f := survey(s, &c, now)
	switch {
	case f.slotBytes >= c.Target && !c.Busy || f.slots >= c.Backlog || f.slots > 1 && f.old:
		return plan(collect(s, &c, func(r *state.Range) bool { return !r.Pack && f.wanted(r) }), c.Target)
	case len(f.small) >= c.Small || f.dead > 0:
		chosen := f.choosePacks()
		return plan(collect(s, &c, func(r *state.Range) bool { return r.Pack && chosen[packOf(r)] && f.wanted(r) }), 2*c.Target)
	}
	return nil
}

func packOf(r *state.Range) state.PackID { return state.PackID{Epoch: r.Epoch, ID: r.Slot} }

// Waiting is how many bytes are in commit objects that may be merged.
func Waiting(s *state.State, c Config) int64 {
	c = c.withDefaults()
	return survey(s, &c, 0).slotBytes
}

// found is what may be merged.
type found struct {
	config    *Config
	slots     int // ranges in commit objects
	slotBytes int64
	old       bool // some commit object is
	dead      int  // packs that are mostly dead
	small     []candidate
}

// candidate is a pack that may be merged; dead ones are at the front.
type candidate struct {
	id   state.PackID
	live int64
	dead bool
}

func survey(s *state.State, c *Config, now int64) *found {
	f := &found{config: c}
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
	return f.config.Skip == nil || !f.config.Skip(r.Source())
}

// pack notes a pack that is small or mostly dead, once.
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
	if dead || p.Size*4 < f.config.Target*3 {
		f.small = append(f.small, candidate{id, p.Live, dead})
	}
}

// choosePacks takes those that are mostly dead, then the smallest, as many as make a pack but at least two; fewer than are
// worth it wait, unless they are dead.
func (f *found) choosePacks() map[state.PackID]bool {
	slices.SortFunc(f.small, func(a, b candidate) int {
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
		if !c.dead && len(f.small) < f.config.Small || len(chosen) >= 2 && size+c.live > f.config.Target {
			break
		}
		chosen[c.id] = true
		size += c.live
	}
	return chosen
}

// collect lists the runs of wanted ranges, each of at most a pack's size.
func collect(s *state.State, c *Config, wanted func(*state.Range) bool) []Run {
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

// plan takes the largest runs first, so that a large topic gets ranges of its own and small ones share a pack.
func plan(runs []Run, limit int64) *Plan {
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(b.Bytes, a.Bytes) })
	p := &Plan{}
	for _, r := range runs {
		if p.Bytes > 0 && p.Bytes+r.Bytes > limit {
			continue
		}
		p.Runs = append(p.Runs, r)
		p.Bytes += r.Bytes
	}
	slices.SortFunc(p.Runs, func(a, b Run) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Ranges[0].Base, b.Ranges[0].Base))
	})
	if len(p.Runs) == 0 {
		return nil
	}
	return p
}

// Layout is a plan as an object: its index, with an entry for each source, and what the installing record says.
// Positions are set by record.EncodeObject in Index, and carried over by Content.
type Layout struct {
	Head  record.Head
	Index []record.IndexEntry
	plan  *Plan
}

// Lay lays a plan out as the pack of that number in the epoch of the state.
func Lay(p *Plan, s *state.State, number uint64) *Layout {
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

// Sources lists the ranges in the order in which their batches lie in the pack.
func (l *Layout) Sources() []*state.Range {
	var all []*state.Range
	for i := range l.plan.Runs {
		for j := range l.plan.Runs[i].Ranges {
			all = append(all, &l.plan.Runs[i].Ranges[j])
		}
	}
	return all
}

// Key names the pack.
func (l *Layout) Key() string {
	return state.PackKey(l.Head.Shard, l.Head.Epoch, l.Head.Nonce, l.Head.Slot)
}

// Content is what the installing record says, after the head was encoded.
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
