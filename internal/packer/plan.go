package packer

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// Config says when and how much is merged. The zero value of a field means its default.
type Config struct {
	Target int64         // bytes of a pack; 64 MiB. A pack under three quarters of it is small, and merged again
	Age    time.Duration // commit objects older than this are merged however few they are; 10 minutes
	Small  int           // so many small packs are merged; 8
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
	return c
}

// Run is a run of ranges of one partition that follow one another, to become one range of a pack.
type Run struct {
	Topic     record.ID
	Partition uint32
	Ranges    []state.Range
	Bytes     int64
}

// Plan is what goes into one pack, sorted by partition and offset.
type Plan struct {
	Runs  []Run
	Bytes int64
}

// Choose plans the next pack from a committed state (a view), or nil if nothing is due at now (µs).
func Choose(s *state.State, c Config, now int64) *Plan {
	c = c.withDefaults()
	found := candidates{state: s, config: c, small: map[state.PackID]struct{}{}, due: now - c.Age.Microseconds()}
	for _, t := range s.Topics() {
		for i, p := range t.Partitions {
			found.partition(t.ID, uint32(i), p)
		}
	}
	if !found.enough() {
		return nil
	}
	return found.plan()
}

// candidates collects what may be merged.
type candidates struct {
	state  *state.State
	config Config
	due    int64 // a commit object appended before it is old
	runs   []Run
	bytes  int64
	slots  int // ranges in commit objects
	old    bool
	small  map[state.PackID]struct{}
	dead   bool // some pack is mostly dead
}

// partition adds the runs of ranges that lie in commit objects, small packs and packs that are mostly dead.
func (f *candidates) partition(topic record.ID, number uint32, p *state.Partition) {
	var run Run
	flush := func() {
		if len(run.Ranges) > 0 {
			f.runs = append(f.runs, run)
			f.bytes += run.Bytes
		}
		run = Run{Topic: topic, Partition: number}
	}
	flush()
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if !f.candidate(r) {
			flush()
			continue
		}
		if run.Bytes+int64(r.Len) > f.config.Target {
			flush()
		}
		run.Ranges = append(run.Ranges, *r)
		run.Bytes += int64(r.Len)
	}
	flush()
}

func (f *candidates) candidate(r *state.Range) bool {
	if f.config.Skip != nil && f.config.Skip(r.Source()) {
		return false
	}
	if !r.Pack {
		f.slots++
		f.old = f.old || r.AppendTime <= f.due
		return true
	}
	id := state.PackID{Epoch: r.Epoch, ID: r.Slot}
	p, _ := f.state.PackOf(id)
	switch {
	case p.Live*2 < p.Size:
		f.dead = true
		return true
	case p.Size*4 < f.config.Target*3:
		f.small[id] = struct{}{}
		return true
	}
	return false
}

// enough says whether a pack is due: a full one, old commit objects, many small packs, or one that is mostly dead.
func (f *candidates) enough() bool {
	return f.bytes > 0 && (f.bytes >= f.config.Target || f.slots > 1 && f.old || len(f.small) >= f.config.Small || f.dead)
}

// plan takes the largest runs first, so that a large topic gets ranges of its own and small ones share a pack.
func (f *candidates) plan() *Plan {
	if len(f.small) < f.config.Small && !f.dead && f.bytes < f.config.Target {
		f.leaveSmall()
	}
	slices.SortStableFunc(f.runs, func(a, b Run) int { return cmp.Compare(b.Bytes, a.Bytes) })
	p := &Plan{}
	for _, r := range f.runs {
		if p.Bytes > 0 && p.Bytes+r.Bytes > f.config.Target {
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

// leaveSmall takes the ranges in small packs out of the runs: they wait until there are more of them, so that a slow
// stream is not written anew with every pack.
func (f *candidates) leaveSmall() {
	var runs []Run
	for _, r := range f.runs {
		run := Run{Topic: r.Topic, Partition: r.Partition}
		for i := range r.Ranges {
			if r.Ranges[i].Pack {
				if len(run.Ranges) > 0 {
					runs = append(runs, run)
				}
				run = Run{Topic: r.Topic, Partition: r.Partition}
				continue
			}
			run.Ranges = append(run.Ranges, r.Ranges[i])
			run.Bytes += int64(r.Ranges[i].Len)
		}
		if len(run.Ranges) > 0 {
			runs = append(runs, run)
		}
	}
	f.runs = runs
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
			l.Index = append(l.Index, record.IndexEntry{
				Topic: run.Topic, Partition: run.Partition, Base: r.Base, Span: r.Span, Records: r.Records, Len: r.Len,
				MinTime: r.MinTime, MaxTime: r.MaxTime, AppendTime: r.AppendTime,
			})
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
