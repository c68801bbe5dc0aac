package keyindex

import "errors"

// Writer makes a run of entries that are added in order.
type Writer struct {
	id      int64
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
	return &Writer{id: id, put: put}
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
	if err := w.put(id, l.enc.Seal(id)); err != nil {
		return err
	}
	fence := l.fence
	fence.Time, fence.Flags = int64(l.blocks), 0
	l.enc.reset()
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
	info := Info{ID: w.id, Entries: w.entries}
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
