package keyindex

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/follow"
)

// tierRuns is the number of runs of one tier that are merged into one of the next. A higher number
// makes writing cheaper and reading more expensive.
const tierRuns = 4

// sizes are the parameters of the follower; tests use smaller ones.
type sizes struct {
	// batchEntries and batchBytes (of keys) bound one transaction.
	batchEntries, batchBytes int
	// recentEntries and recentBytes (of keys) are the size from which recent entries become a run.
	recentEntries, recentBytes int
	// mergeSlice is the number of entries merged in one transaction while new records wait.
	mergeSlice int
	// sweepBlocks is the number of blocks of dead runs deleted in one transaction.
	sweepBlocks int64
	// unusedEvery is the interval at which mergeUnused checks the file; files below unusedMin
	// entries are never worth it.
	unusedEvery time.Duration
	unusedMin   int64
	synchronous string // SQLite's setting; NORMAL keeps the file consistent if the machine crashes
	// pagesMax bounds the pages of the file; 0: unlimited.
	pagesMax int
	retry    follow.Backoff
}

var defaultSizes = sizes{
	batchEntries: 16 << 10, batchBytes: 4 << 20,
	recentEntries: 64 << 10, recentBytes: 8 << 20,
	mergeSlice: 16 << 10, sweepBlocks: 512,
	unusedEvery: time.Minute, unusedMin: 100_000,
	synchronous: "NORMAL",
	retry:       follow.Backoff{Min: time.Second, Max: time.Minute},
}

// progress is a part of the log that was read: sorted entries, and the new positions.
type progress struct {
	entries []RunEntry
	moved   map[partKey]position
	dropped []partKey
}

// ingest stores a part of the log and the positions in one transaction.
func (f *file) ingest(ctx context.Context, p *progress, nextTopic uint32) error {
	err := f.update(ctx, func(m *manifest) error {
		m.NextTopic = nextTopic
		if len(p.entries) > 0 {
			var x Encoder
			for i := range p.entries {
				x.Add(&p.entries[i])
			}
			if _, err := f.W.Exec(ctx, "INSERT INTO journal VALUES (?, ?)", m.JournalNext, x.Seal(journalID(m.JournalNext))); err != nil {
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

// putPositions writes the changed positions; none is in both moved and dropped.
func (f *file) putPositions(ctx context.Context, m *manifest, p *progress) error {
	forget := func(k partKey) {
		if old, ok := f.positions[k]; ok {
			m.Positions--
			m.PositionsSum -= old.sum(k)
		}
	}
	for _, k := range p.dropped {
		if _, err := f.W.Exec(ctx, "DELETE FROM positions WHERE topic = ? AND partition = ?", k.topic[:], k.partition); err != nil {
			return err
		}
		forget(k)
	}
	for k, pos := range p.moved {
		_, err := f.W.Exec(ctx, "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?, ?, ?)", k.topic[:], k.partition, pos.number, pos.next, pos.origin[:], pos.settled)
		if err != nil {
			return err
		}
		forget(k)
		m.Positions++
		m.PositionsSum += pos.sum(k)
	}
	return nil
}

// newRun starts a run whose blocks are written in the transaction of m.
func (f *file) newRun(ctx context.Context, m *manifest) *Writer {
	id := m.NextRun
	m.NextRun++
	return NewWriter(id, func(id int64, data []byte) error {
		_, err := f.W.Exec(ctx, "INSERT INTO blocks VALUES (?, ?)", id, data)
		return err
	})
}

// spill writes the recent entries to a run.
func (f *file) spill(ctx context.Context, r rules) error {
	var created *run
	err := f.update(ctx, func(m *manifest) error {
		if _, err := f.W.Exec(ctx, "DELETE FROM journal WHERE sequence < ?", m.JournalNext); err != nil {
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
			created, err = f.run(info)
		}
		return err
	})
	if err != nil {
		return err
	}
	f.recent = recent{}
	if created != nil {
		f.runs = append(f.runs, created)
	}
	return nil
}

// sweep deletes up to blocks blocks of dead runs without readers; more says that there is more to
// do at once.
func (f *file) sweep(ctx context.Context, blocks int64, free func(*run) bool) (more bool, err error) {
	i := slices.IndexFunc(f.dead, free)
	if i < 0 {
		return false, nil
	}
	var n int64
	err = f.update(ctx, func(*manifest) error {
		first, end := IDs(f.dead[i].ID)
		n, err = f.W.Exec(ctx, "DELETE FROM blocks WHERE id IN (SELECT id FROM blocks WHERE id >= ? AND id < ? LIMIT ?)", first, end, blocks)
		return err
	})
	if err == nil && n < blocks {
		f.dead = slices.Delete(f.dead, i, i+1)
	}
	return err == nil && (n == blocks || slices.ContainsFunc(f.dead, free)), err
}

// entries is the number of entries in the file.
func (f *file) entries() int64 {
	n := int64(f.recent.entries)
	for _, r := range f.runs {
		n += r.Entries
	}
	return n
}
