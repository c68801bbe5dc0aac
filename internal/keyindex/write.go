package keyindex

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/follow"
)

// tierRuns runs of one tier are merged into one of the next. More make writing cheaper and reading dearer.
const tierRuns = 4

// sizes are the numbers by which the follower works; tests use smaller ones.
type sizes struct {
	// batchEntries and batchBytes (of keys) are the most that one transaction takes in.
	batchEntries, batchBytes int
	// recentEntries and recentBytes (of keys) are what is collected in memory and journal before it becomes a run.
	recentEntries, recentBytes int
	// mergeSlice is how many entries are merged in one transaction while new records wait.
	mergeSlice int
	// sweepBlocks is how many blocks of dead runs are deleted in one transaction.
	sweepBlocks int64
	// wasteEvery is how often it is looked at whether most of the file is of no use, and wasteMin how many entries are
	// never worth it.
	wasteEvery time.Duration
	wasteMin   int64
	// readerCache is the page cache of each of the connections that queries use, in bytes.
	readerCache int
	synchronous string // SQLite's: NORMAL keeps the file whole when the machine goes down
	// pagesMax is the most pages that the file may have; 0: as many as it wants.
	pagesMax int
	retry    follow.Backoff
}

var usualSizes = sizes{
	batchEntries: 16 << 10, batchBytes: 4 << 20,
	recentEntries: 64 << 10, recentBytes: 8 << 20,
	mergeSlice: 16 << 10, sweepBlocks: 512,
	wasteEvery: time.Minute, wasteMin: 100_000,
	readerCache: 1 << 20, synchronous: "NORMAL",
	retry: follow.Backoff{Min: time.Second, Max: time.Minute},
}

// progress is what has been read of the log: sorted entries, and how far partitions are now.
type progress struct {
	entries []RunEntry
	moved   map[partKey]position
	dropped []partKey
}

// ingest stores what was read and how far, in one transaction.
func (f *file) ingest(ctx context.Context, p *progress, nextTopic uint32) error {
	err := f.update(ctx, func(m *manifest) error {
		m.NextTopic = nextTopic
		if len(p.entries) > 0 {
			var x Encoder
			for i := range p.entries {
				x.Add(&p.entries[i])
			}
			if _, err := f.put.journal.ExecContext(ctx, m.JournalNext, x.Seal(journalID(m.JournalNext))); err != nil {
				return err
			}
			m.JournalNext++
		}
		return f.putPositions(ctx, m, p)
	})
	if err != nil {
		return err
	}
	f.recent.add(p.entries)
	for _, k := range p.dropped {
		delete(f.positions, k)
	}
	maps.Copy(f.positions, p.moved)
	return nil
}

// putPositions writes the positions that have changed; none is both moved and dropped.
func (f *file) putPositions(ctx context.Context, m *manifest, p *progress) error {
	forget := func(k partKey) {
		if old, ok := f.positions[k]; ok {
			m.Positions--
			m.PositionsSum -= old.sum(k)
		}
	}
	for _, k := range p.dropped {
		if _, err := f.put.dropPosition.ExecContext(ctx, k.topic[:], k.partition); err != nil {
			return err
		}
		forget(k)
	}
	for k, pos := range p.moved {
		_, err := f.put.position.ExecContext(ctx, k.topic[:], k.partition, pos.number, pos.next, pos.origin[:], pos.settled)
		if err != nil {
			return err
		}
		forget(k)
		m.Positions++
		m.PositionsSum += pos.sum(k)
	}
	return nil
}

// newRun begins a run whose blocks are written in the transaction of m.
func (f *file) newRun(ctx context.Context, m *manifest) *Writer {
	id := m.NextRun
	m.NextRun++
	return NewWriter(id, func(id int64, data []byte) error {
		_, err := f.put.block.ExecContext(ctx, id, data)
		return err
	})
}

// spill makes a run of what is recent.
func (f *file) spill(ctx context.Context, r rules) error {
	var made *run
	err := f.update(ctx, func(m *manifest) error {
		if _, err := f.put.trimJournal.ExecContext(ctx, m.JournalNext); err != nil {
			return err
		}
		m.JournalFrom = m.JournalNext
		w := f.newRun(ctx, m)
		p := pruner{rules: r, bottom: len(m.Runs) == 0, out: w.Add}
		all := f.recent.all()
		for i := range all {
			if err := p.add(&all[i]); err != nil {
				return err
			}
		}
		if err := p.flush(); err != nil {
			return err
		}
		info, err := w.Finish()
		if err == nil && info.Entries > 0 {
			m.Runs = append(m.Runs, info)
			made, err = f.run(info)
		}
		return err
	})
	if err != nil {
		return err
	}
	f.recent = recent{}
	if made != nil {
		f.runs = append(f.runs, made)
	}
	return nil
}

// sweep deletes so many blocks of dead runs that nobody reads any more; more says that there is more to do at once.
func (f *file) sweep(ctx context.Context, blocks int64, free func(*run) bool) (more bool, err error) {
	i := slices.IndexFunc(f.dead, free)
	if i < 0 {
		return false, nil
	}
	var n int64
	err = f.update(ctx, func(*manifest) error {
		first, end := IDs(f.dead[i].ID)
		res, err := f.put.sweep.ExecContext(ctx, first, end, blocks)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err == nil && n < blocks {
		f.dead = slices.Delete(f.dead, i, i+1)
	}
	return err == nil && (n == blocks || slices.ContainsFunc(f.dead, free)), err
}

// entries is how many entries the file holds.
func (f *file) entries() int64 {
	n := int64(f.recent.entries)
	for _, r := range f.runs {
		n += r.Entries
	}
	return n
}
