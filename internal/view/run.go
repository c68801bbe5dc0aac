package view

import (
	"database/sql"
	"errors"
	"sort"
	"sync"
)

// A run is a sorted list of entries in blocks, never changed once it is in the manifest. Above its data blocks (level 0)
// stand index blocks: an entry of level n+1 for each block of level n, a fence, whose time is the number of that block and
// whose place is above all entries before the block and not above the block's first.
const (
	// blockBits and levelBits: the id of a block is run, level, number.
	blockBits = 24
	levelBits = 2
	runShift  = blockBits + levelBits
	levelsMax = 1 << levelBits
	blocksMax = 1 << blockBits
	// fanoutMin keeps indexes low where keys are longer than a block.
	fanoutMin = 64
)

func blockID(run int64, level, number int) int64 {
	return run<<runShift | int64(level)<<blockBits | int64(number)
}

const (
	// nodesMax is how many blocks of indexes are kept in memory, of about 16 KiB each.
	nodesMax = 512
	// nodeKeys is the length of keys, first and last together, at which a block is not kept: they take too much.
	nodeKeys = 1 << 10
)

// nodes keeps decoded blocks of indexes, for all runs of a file.
type nodes struct {
	mu   sync.Mutex // guards list
	list map[int64][]entry
}

func (n *nodes) get(id int64) []entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[id]
}

// put keeps a block in the place of any other.
func (n *nodes) put(id int64, list []entry) {
	if len(list) > 0 && len(list[0].key)+len(list[len(list)-1].key) > nodeKeys {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for old := range n.list {
		if len(n.list) < nodesMax {
			break
		}
		delete(n.list, old)
	}
	n.list[id] = list
}

// runInfo is what the manifest says of a run.
type runInfo struct {
	ID      int64 `json:"id"`
	Tier    int   `json:"tier"`   // how often its entries were merged
	Height  int   `json:"height"` // levels of index
	Blocks  int   `json:"blocks"` // data blocks
	Entries int64 `json:"entries"`
}

// run is a run that can be read, by several at once.
type run struct {
	runInfo
	get  *sql.Stmt // of a block
	tops *nodes    // blocks of indexes that were read lately
	busy bool      // takes part in a merge; the writer's
	pins int       // snapshots that hold it; guarded by View.mu
}

// block reads a block.
func (r *run) block(level, number int) ([]entry, error) {
	id := blockID(r.ID, level, number)
	var data sql.RawBytes
	rows, err := r.get.Query(id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, err
		}
		return nil, damaged("no block %d", id)
	}
	if err := rows.Scan(&data); err != nil {
		return nil, err
	}
	return decodeBlock(id, data)
}

func (r *run) chunks() int { return r.Blocks }

func (r *run) chunk(number int) ([]entry, error) { return r.block(0, number) }

// node is block for indexes, which are read again and again.
func (r *run) node(level, number int) ([]entry, error) {
	id := blockID(r.ID, level, number)
	if list := r.tops.get(id); list != nil {
		return list, nil
	}
	list, err := r.block(level, number)
	if err == nil {
		r.tops.put(id, list)
	}
	return list, err
}

func (r *run) seek(e *entry) (int, error) {
	number := 0
	for level := r.Height; level > 0; level-- {
		node, err := r.node(level, number)
		if err != nil {
			return 0, err
		}
		i := sort.Search(len(node), func(i int) bool { return compare(&node[i], e) > 0 })
		number = int(node[max(0, i-1)].time)
	}
	return number, nil
}

// check reads all of a run and compares it with itself and with the manifest.
func (r *run) check() error {
	c := runCheck{run: r}
	if err := c.visit(r.Height, 0, nil); err != nil {
		return err
	}
	if c.entries != r.Entries || c.seen[0] != r.Blocks {
		return damaged("run %d has %d entries in %d blocks, not %d in %d", r.ID, c.entries, c.seen[0], r.Entries, r.Blocks)
	}
	return nil
}

// runCheck goes through a run in order.
type runCheck struct {
	*run
	seen    [levelsMax]int // blocks of each level
	entries int64
	last    *entry
}

// visit checks a block and those below it; fence is what the level above says of it.
func (c *runCheck) visit(level, number int, fence *entry) error {
	list, err := c.block(level, number)
	if err != nil {
		return err
	}
	if number != c.seen[level] || len(list) == 0 || fence != nil && compare(fence, &list[0]) > 0 {
		return damaged("block %d of level %d of run %d is not where it should be", number, level, c.ID)
	}
	c.seen[level]++
	for i := range list {
		if c.last != nil && compare(c.last, &list[i]) >= 0 {
			return damaged("block %d of level %d of run %d is out of order", number, level, c.ID)
		}
		if level == 0 {
			c.last = &list[i]
			c.entries++
			continue
		}
		if err := c.visit(level-1, int(list[i].time), &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// runWriter makes a run of entries that come in order.
type runWriter struct {
	id      int64
	put     func(id int64, data []byte) error
	levels  [levelsMax]levelWriter
	entries int64
	last    entry // the newest
}

type levelWriter struct {
	enc    encoder
	fence  entry // of the open block
	blocks int   // closed ones
}

// add takes the next entry, whose key it keeps for a while.
func (w *runWriter) add(e *entry) error {
	if w.levels[0].enc.count == 0 {
		w.levels[0].fence = separator(&w.last, e, w.entries == 0)
	}
	w.levels[0].enc.add(e)
	w.last = *e
	w.entries++
	if len(w.levels[0].enc.buf) < blockTarget {
		return nil
	}
	return w.close(0)
}

// separator is a fence between two entries that follow one another: a short key above the first's, if keys differ.
func separator(last, next *entry, none bool) entry {
	switch {
	case none || last.topic != next.topic:
		return lowest(next.topic, nil, 0)
	case last.part == next.part && samePart(last, next):
		return *next
	}
	n := min(sharedPrefix(last.key, next.key)+1, len(next.key))
	if n == len(next.key) { // maybe the same key
		return *next
	}
	return lowest(next.topic, next.key[:n:n], 0)
}

// close ends the open block of a level, and those above that are full by it.
func (w *runWriter) close(level int) error {
	l := &w.levels[level]
	if l.blocks == blocksMax {
		return errRunFull
	}
	if err := w.put(blockID(w.id, level, l.blocks), l.enc.seal(blockID(w.id, level, l.blocks))); err != nil {
		return err
	}
	fence := l.fence
	fence.time, fence.flags = int64(l.blocks), 0
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
	up.enc.add(&fence)
	if len(up.enc.buf) < blockTarget || up.enc.count < fanoutMin {
		return nil
	}
	return w.close(level + 1)
}

// finish ends the run. One without entries has no blocks.
func (w *runWriter) finish() (runInfo, error) {
	info := runInfo{ID: w.id, Entries: w.entries}
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

var errRunFull = errors.New("a run of the view has too many blocks")
