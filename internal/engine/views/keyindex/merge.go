package keyindex

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
)

// rules has the bounds of the partitions that are in the log. Entries of other partitions are
// useless.
type rules map[topicPart]bounds

// topicPart identifies a partition by the topic's number, as entries do.
type topicPart struct{ topic, part uint32 }

// bounds of a partition: no records below start, below clean at most one record per key, the
// newest, and below swept no tombstones.
type bounds struct{ start, clean, swept int64 }

// pruner forwards sorted entries, except those whose records are no longer in the log. It does not
// see newer entries in runs that are not merged, so some useless entries stay.
type pruner struct {
	rules
	// bottom: all older runs take part in the merge, so a Gone entry hides nothing and can be
	// dropped.
	bottom bool
	out    func(*RunEntry) error

	pending RunEntry
	bounds  bounds // of its partition
	any     bool   // pending is set
}

func (p *pruner) add(e *RunEntry) error {
	b, ok := p.rules[topicPart{e.Topic, e.Part}]
	if !ok || e.Offset < b.start {
		return nil
	}
	if p.any && !(SamePart(&p.pending, e) && e.Offset < b.clean) {
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.pending, p.bounds, p.any = *e, b, true
	return nil
}

// flush forwards the last entry.
func (p *pruner) flush() error {
	if !p.any {
		return nil
	}
	p.any = false
	if e := &p.pending; p.bottom && (e.IsGone() || e.IsDeleted() && e.Offset < p.bounds.swept) {
		return nil
	}
	return p.out(&p.pending)
}

// merging is a running merge. Its output is in the file, but in the manifest only at the end.
type merging struct {
	inputs []*run // consecutive runs
	tier   int    // tier of the result
	all    bool   // a merge of all runs
	src    Merged
	prune  pruner
	w      *Writer // nil before the first slice
	moved  int64   // entries read
}

// pick starts the merges that are due: in each tier with enough runs that do not yet take part in
// one.
func (f *file) pick(r func() rules) {
	for i := len(f.runs) - 1; i >= 0; {
		j := i // runs [j, i] have the same tier
		for j > 0 && f.runs[j-1].Tier == f.runs[i].Tier {
			j--
		}
		free := j
		for free <= i && f.runs[free].busy {
			free++
		}
		if i+1-free >= tierRuns {
			f.begin(f.runs[free:i+1], f.runs[i].Tier+1, r())
		}
		i = j - 1
	}
}

// pickAll starts a merge of all runs if no merge is running.
func (f *file) pickAll(r rules) {
	if len(f.merges) == 0 && len(f.runs) > 0 {
		f.begin(f.runs, f.runs[0].Tier, r)
		f.merges[0].all = true
	}
}

func (f *file) begin(inputs []*run, tier int, r rules) {
	m := &merging{inputs: slices.Clone(inputs), tier: tier}
	var sources []Source
	for _, in := range inputs {
		in.busy = true
		sources = append(sources, in.Run)
	}
	m.src = NewMerged(sources)
	m.prune = pruner{rules: r, bottom: inputs[0] == f.runs[0]}
	f.merges = append(f.merges, m)
	slices.SortStableFunc(f.merges, func(a, b *merging) int { return a.tier - b.tier })
}

// merge continues the merge of the lowest tier by some entries.
func (f *file) merge(ctx context.Context, entries int) (over bool, err error) {
	m := f.merges[0]
	var done *Info
	err = f.update(ctx, func(man *manifest) error {
		if m.w == nil {
			m.w = f.newRun(ctx, man)
			m.prune.out = m.w.Add
			if err := m.src.Seek(&RunEntry{}); err != nil {
				return err
			}
		}
		info, err := m.step(entries)
		if err != nil || info == nil {
			return err
		}
		info.Tier = m.tier
		done = info
		i := slices.IndexFunc(man.Runs, func(r Info) bool { return r.ID == m.inputs[0].ID })
		man.Runs = slices.Delete(man.Runs, i, i+len(m.inputs))
		if info.Entries > 0 {
			man.Runs = slices.Insert(man.Runs, i, *info)
		}
		return nil
	})
	switch {
	case err != nil:
		f.abandon(m)
		return false, err
	case done == nil:
		return false, nil
	}
	return true, f.finish(m, *done)
}

// step merges some entries; it returns the run when it is complete.
func (m *merging) step(entries int) (*Info, error) {
	for range entries {
		e := m.src.First()
		if e == nil {
			if err := m.prune.flush(); err != nil {
				return nil, err
			}
			info, err := m.w.Finish()
			return &info, err
		}
		if err := m.prune.add(e); err != nil {
			return nil, err
		}
		m.moved++
		if err := m.src.Next(e); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// finish replaces the inputs of a merge by its result.
func (f *file) finish(m *merging, info Info) error {
	f.merges = f.merges[1:]
	i := slices.Index(f.runs, m.inputs[0])
	runs := slices.Delete(slices.Clone(f.runs), i, i+len(m.inputs))
	f.dead = append(f.dead, m.inputs...)
	f.runs = runs
	if info.Entries == 0 {
		return nil
	}
	created, err := f.run(info)
	if err == nil {
		f.runs = slices.Insert(runs, i, created)
	}
	return err
}

// abandon ends a failed merge: its blocks are deleted, its inputs stay.
func (f *file) abandon(m *merging) {
	f.merges = slices.DeleteFunc(f.merges, func(x *merging) bool { return x == m })
	for _, in := range m.inputs {
		in.busy = false
	}
	if m.w != nil {
		// The failed transaction may be the one that reserved its number.
		f.man.NextRun = max(f.man.NextRun, m.w.ID()+1)
		f.dead = append(f.dead, deadRun(m.w.ID()))
	}
}

// spill writes the recent entries to a run.
func (w *follower) spill(ctx context.Context) error {
	parts, known := w.opt.Log.Partitions()
	if !known {
		return nil // without them no entry can be pruned; later
	}
	return w.f.spill(ctx, w.rules(parts))
}

// rules returns the rules of the topics by their numbers.
func (w *follower) rules(parts []views.Partition) rules {
	r := make(rules, len(parts))
	for i := range parts {
		p := &parts[i]
		if number, ok := w.topics[p.Topic]; ok {
			r[topicPart{number, p.Partition}] = bounds{p.Start, p.Clean, p.Swept}
		}
	}
	return r
}

// maintain merges and deletes a little; more says that there is more to do.
func (w *follower) maintain(ctx context.Context, parts []views.Partition) (more bool, err error) {
	f := w.f
	w.mergeUnused(parts)
	if w.unmerged.Left(time.Now(), w.opt.sizes.retry) == 0 {
		f.pick(func() rules { return w.rules(parts) })
	}
	if len(f.merges) == 0 {
		w.owed = 0
	} else if err := w.merge(ctx); err != nil {
		if errors.Is(err, localdb.ErrDamaged) || ctx.Err() != nil {
			return false, err
		}
		// Merging needs disk space that reading new records does not, so reading continues.
		w.unmerged.Again(time.Now(), w.opt.sizes.retry)
		w.opt.Logger.Warn("key index merge failed, retrying", "path", w.opt.Path, "err", err)
	}
	swept, err := f.sweep(ctx, w.opt.sizes.sweepBlocks, w.free)
	return swept || len(f.merges) > 0, err
}

// merge continues a merge by enough entries to keep up with new records.
func (w *follower) merge(ctx context.Context) error {
	m := w.f.merges[0]
	before := m.moved
	n := min(max(w.owed, w.opt.sizes.mergeSlice), 8*w.opt.sizes.mergeSlice)
	w.owed = max(0, w.owed-n)
	done, err := w.f.merge(ctx, n)
	w.met.merged.AddInt64(m.moved - before)
	if err != nil || !done {
		return err
	}
	w.unmerged = views.Retry{}
	if m.all {
		w.compact = w.f.entries()
	}
	w.publish(w.f, w.topics, nil)
	return nil
}

// mergeUnused starts a merge of everything if most entries are of records that are no longer in the
// log.
func (w *follower) mergeUnused(parts []views.Partition) {
	if time.Since(w.unusedAt) < w.opt.sizes.unusedEvery {
		return
	}
	w.unusedAt = time.Now()
	n := w.f.entries()
	if n >= w.opt.sizes.unusedMin && n >= 2*w.opt.Log.Records() && n >= w.compact+w.compact/2 {
		w.f.pickAll(w.rules(parts))
	}
}
