package keyindex

import (
	"context"
	"slices"
)

// rules say what of each partition is still in the log. Entries of partitions that are not in it are of no use.
type rules map[topicPart]bounds

// topicPart names a partition as entries do.
type topicPart struct{ topic, part uint32 }

// bounds of a partition: there is nothing below start; below clean there is one record of each key, the newest; and below
// swept that is no tombstone.
type bounds struct{ start, clean, swept int64 }

// pruner passes on sorted entries but for those whose records are no longer in the log. What stands behind an entry in
// a run that is not merged can not be seen here, so some that could go stay.
type pruner struct {
	rules
	// bottom: nothing older is left out, so an entry whose record is gone has nothing more to hide.
	bottom bool
	out    func(*RunEntry) error

	pending RunEntry
	bounds  bounds // of its partition
	any     bool   // there is a pending one
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

// flush passes on the last entry.
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

// merging is a merge under way. What it has written is in the file, but not in the manifest before it is done.
type merging struct {
	inputs []*run // that follow one another
	tier   int    // of the result
	all    bool   // everything takes part
	src    Merged
	prune  pruner
	w      *Writer // nil before the first slice
	moved  int64   // entries read
}

// pick begins the merges that are due: of the lowest tier that has enough runs, if they do not take part in one.
func (f *file) pick(r func() rules) {
	for i := len(f.runs) - 1; i >= 0; {
		j := i // runs [j, i] are of one tier
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

// pickAll begins a merge of all runs, if none is under way.
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

// merge goes on with the merge of the lowest tier, for so many entries.
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

// finish puts the result of a merge in the place of its inputs.
func (f *file) finish(m *merging, info Info) error {
	f.merges = f.merges[1:]
	i := slices.Index(f.runs, m.inputs[0])
	runs := slices.Delete(slices.Clone(f.runs), i, i+len(m.inputs))
	f.dead = append(f.dead, m.inputs...)
	f.runs = runs
	if info.Entries == 0 {
		return nil
	}
	made, err := f.run(info)
	if err == nil {
		f.runs = slices.Insert(runs, i, made)
	}
	return err
}

// abandon ends a merge that went wrong: its blocks are deleted, its inputs stay.
func (f *file) abandon(m *merging) {
	f.merges = slices.DeleteFunc(f.merges, func(x *merging) bool { return x == m })
	for _, in := range m.inputs {
		in.busy = false
	}
	if m.w != nil {
		// The transaction that took its number may be the one that failed.
		f.man.NextRun = max(f.man.NextRun, m.w.ID()+1)
		f.dead = append(f.dead, deadRun(m.w.ID()))
	}
}
