package keyindex

import (
	"sort"
	"sync"

	"github.com/sebbroker/seb/internal/localdb"
)

// A block ID consists of the number of the run, the level and the number of the block. Above the
// data blocks (level 0) a run has levels of index blocks. An index block of level n+1 has an entry
// for each block of level n: a fence, whose time is the number of that block. The fence sorts after
// all entries before the block and not after the block's first entry.
const (
	blockBits = 24
	levelBits = 2
	runShift  = blockBits + levelBits
	levelsMax = 1 << levelBits
	blocksMax = 1 << blockBits
	// fanoutMin bounds the height of the index if keys are longer than a block.
	fanoutMin = 64
)

func blockID(run int64, level, number int) int64 {
	return run<<runShift | int64(level)<<blockBits | int64(number)
}

// IDs returns the IDs of a run's blocks: [first, end).
func IDs(run int64) (first, end int64) { return run << runShift, (run + 1) << runShift }

// RunOf is the number of the run of a block.
func RunOf(id int64) int64 { return id >> runShift }

const (
	// nodesMax is the number of index blocks kept in memory, of about 10 KiB each.
	nodesMax = 512
	// nodeKeys is the total length of first and last key from which a block is too large to be
	// kept.
	nodeKeys = 1 << 10
)

// Store reads blocks and caches index blocks. It may be used concurrently.
type Store struct {
	// read returns the entries of a block (Decode).
	read func(id int64) ([]RunEntry, error)

	mu    sync.Mutex // guards nodes
	nodes map[int64][]RunEntry
}

// NewStore returns a store that gets its blocks from read, which may be called concurrently.
func NewStore(read func(id int64) ([]RunEntry, error)) *Store {
	return &Store{read: read, nodes: map[int64][]RunEntry{}}
}

// node returns an index block; recently read ones are in memory.
func (s *Store) node(id int64) ([]RunEntry, error) {
	s.mu.Lock()
	list := s.nodes[id]
	s.mu.Unlock()
	if list != nil {
		return list, nil
	}
	list, err := s.read(id)
	if err != nil || len(list) == 0 || len(list[0].Key)+len(list[len(list)-1].Key) > nodeKeys {
		return list, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for any := range s.nodes {
		if len(s.nodes) < nodesMax {
			break
		}
		delete(s.nodes, any)
	}
	s.nodes[id] = list
	return list, nil
}

// Info describes a run.
type Info struct {
	ID      int64 `json:"id"`
	Tier    int   `json:"tier"`   // number of merges of its entries; set by the caller
	Height  int   `json:"height"` // levels of index
	Blocks  int   `json:"blocks"` // data blocks
	Entries int64 `json:"entries"`
}

// Run is an immutable sorted list of entries in blocks of a store. It may be read concurrently.
type Run struct {
	Info
	store *Store
}

// Run returns the run that info describes, without reading it, or localdb.ErrDamaged if info is
// invalid.
func (s *Store) Run(info Info) (*Run, error) {
	if info.ID < 0 || info.Height < 0 || info.Height >= levelsMax || info.Blocks < 1 || info.Blocks > blocksMax {
		return nil, localdb.Damaged("run %d has invalid height %d or %d blocks", info.ID, info.Height, info.Blocks)
	}
	return &Run{Info: info, store: s}, nil
}

func (r *Run) chunks() int { return r.Blocks }

func (r *Run) chunk(number int) ([]RunEntry, error) { return r.store.read(blockID(r.ID, 0, number)) }

func (r *Run) seek(e *RunEntry) (int, error) {
	number := 0
	for level := r.Height; level > 0; level-- {
		node, err := r.store.node(blockID(r.ID, level, number))
		if err != nil {
			return 0, err
		}
		i := sort.Search(len(node), func(i int) bool { return Compare(&node[i], e) > 0 })
		number = int(node[max(0, i-1)].Time)
	}
	return number, nil
}

// Check reads a whole run and checks its order, its index and its description. Errors:
// localdb.ErrDamaged, or the store's.
func (r *Run) Check() error {
	c := check{Run: r}
	if err := c.visit(r.Height, 0, nil); err != nil {
		return err
	}
	if c.entries != r.Entries || c.seen[0] != r.Blocks {
		return localdb.Damaged("run %d has %d entries in %d blocks, want %d in %d", r.ID, c.entries, c.seen[0], r.Entries, r.Blocks)
	}
	return nil
}

// check visits a run in order.
type check struct {
	*Run
	seen    [levelsMax]int // blocks of each level
	entries int64
	last    *RunEntry
}

// visit checks a block and those below it; fence is its entry in the level above.
func (c *check) visit(level, number int, fence *RunEntry) error {
	list, err := c.store.read(blockID(c.ID, level, number))
	if err != nil {
		return err
	}
	if number != c.seen[level] || len(list) == 0 || fence != nil && Compare(fence, &list[0]) > 0 {
		return localdb.Damaged("block %d of level %d of run %d is misplaced", number, level, c.ID)
	}
	c.seen[level]++
	for i := range list {
		if c.last != nil && Compare(c.last, &list[i]) >= 0 {
			return localdb.Damaged("block %d of level %d of run %d is out of order", number, level, c.ID)
		}
		if level == 0 {
			c.last = &list[i]
			c.entries++
			continue
		}
		if err := c.visit(level-1, int(list[i].Time), &list[i]); err != nil {
			return err
		}
	}
	return nil
}
