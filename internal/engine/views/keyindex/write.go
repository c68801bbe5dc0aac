package keyindex

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
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
	// rebuildWait bounds the time that a query waits for a file to be rebuilt that was found damaged.
	rebuildWait time.Duration
	synchronous string // SQLite's setting; NORMAL keeps the file consistent if the machine crashes
	// pagesMax bounds the pages of the file; 0: unlimited.
	pagesMax int
	retry    pause.Growth
}

var defaultSizes = sizes{
	batchEntries: 16 << 10, batchBytes: 4 << 20,
	recentEntries: 64 << 10, recentBytes: 8 << 20,
	mergeSlice: 16 << 10, sweepBlocks: 512,
	unusedEvery: time.Minute, unusedMin: 100_000,
	rebuildWait: 5 * time.Second,
	synchronous: "NORMAL",
	retry:       pause.Growth{Min: time.Second, Max: time.Minute},
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
			if _, err := f.W.Exec(ctx, "INSERT INTO journal VALUES (?, ?)", m.JournalNext, x.Seal(journalID(m.JournalNext), 0)); err != nil {
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

// Writer makes a run of entries that are added in order.
type Writer struct {
	id      int64
	nonce   uint32
	put     func(id int64, data []byte) error
	levels  [levelsMax]levelWriter
	entries int64
	last    RunEntry // the last added entry
}

type levelWriter struct {
	enc    Encoder
	fence  RunEntry // fence of the open block
	blocks int      // number of closed blocks
}

// NewWriter starts a run. put stores a block, whose bytes are valid until put returns.
func NewWriter(id int64, put func(id int64, data []byte) error) *Writer {
	return &Writer{id: id, nonce: 1 + rand.Uint32N(math.MaxUint32), put: put}
}

// ID is the run's number.
func (w *Writer) ID() int64 { return w.id }

// Add adds the next entry, whose key it references until later calls. Errors: put's.
func (w *Writer) Add(e *RunEntry) error {
	if w.levels[0].enc.count == 0 {
		w.levels[0].fence = separator(&w.last, e, w.entries == 0)
	}
	w.levels[0].enc.Add(e)
	w.last = *e
	w.entries++
	if len(w.levels[0].enc.buf) < blockTarget {
		return nil
	}
	return w.close(0)
}

// separator is a fence between two consecutive entries: if their keys differ, a short key above the
// first's.
func separator(last, next *RunEntry, none bool) RunEntry {
	switch {
	case none || last.Topic != next.Topic:
		return Lowest(next.Topic, nil, 0)
	case last.Part == next.Part && SamePart(last, next):
		return *next
	}
	n := min(sharedPrefix(last.Key, next.Key)+1, len(next.Key))
	if n == len(next.Key) { // possibly the same key
		return *next
	}
	return Lowest(next.Topic, next.Key[:n:n], 0)
}

// close closes the open block of a level, and the blocks above that become full by it.
func (w *Writer) close(level int) error {
	l := &w.levels[level]
	if l.blocks == blocksMax {
		return errRunFull
	}
	id := blockID(w.id, level, l.blocks)
	if err := w.put(id, l.enc.Seal(id, w.nonce)); err != nil {
		return err
	}
	fence := l.fence
	fence.Time, fence.Flags = int64(l.blocks), 0
	l.enc = Encoder{buf: l.enc.buf[:0]} // in the same memory
	l.blocks++
	if level+1 == levelsMax {
		if l.blocks > 1 {
			return errRunFull
		}
		return nil
	}
	up := &w.levels[level+1]
	if up.enc.count == 0 {
		up.fence = fence
	}
	up.enc.Add(&fence)
	if len(up.enc.buf) < blockTarget || up.enc.count < fanoutMin {
		return nil
	}
	return w.close(level + 1)
}

// Finish completes the run. Without entries it has no blocks and is not a run. Errors: put's.
func (w *Writer) Finish() (Info, error) {
	info := Info{ID: w.id, Entries: w.entries, Nonce: w.nonce}
	if w.entries == 0 {
		return info, nil
	}
	for level := range w.levels {
		l := &w.levels[level]
		if l.enc.count > 0 {
			if err := w.close(level); err != nil {
				return info, err
			}
		}
		if l.blocks == 1 {
			info.Height = level
			break
		}
	}
	info.Blocks = w.levels[0].blocks
	return info, nil
}

var errRunFull = errors.New("run has too many blocks")
