package keyindex

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

const (
	// readBytes is how much of a partition one read returns.
	readBytes = 1 << 20
	// arenaBytes is the allocation unit for keys.
	arenaBytes = 64 << 10
)

// batch is entries that were read and not yet stored.
type batch struct {
	entries []RunEntry
	arena   []byte
	bytes   int
	moved   map[partKey]position
}

func (b *batch) full(s *sizes) bool {
	return len(b.entries) >= s.batchEntries || b.bytes >= s.batchBytes
}

// key copies a key.
func (b *batch) key(key []byte) []byte {
	b.bytes += len(key)
	if len(key) > cap(b.arena)-len(b.arena) {
		b.arena = make([]byte, 0, max(len(key), arenaBytes))
	}
	from := len(b.arena)
	b.arena = append(b.arena, key...)
	return b.arena[from:len(b.arena):len(b.arena)]
}

// read reads new records, some of each partition.
func (w *follower) read(ctx context.Context, parts []views.Partition) (wait time.Duration, err error) {
	wait = views.Idle
	for i := range parts {
		p := &parts[i]
		key := partKey{p.Topic, p.Partition}
		next := max(w.f.positions[key].next, p.Start)
		if next >= p.Next {
			continue
		}
		if x := w.failed[key]; x != nil {
			if d := x.Left(time.Now(), w.opt.sizes.retry); d > 0 {
				wait = min(wait, d)
				continue
			}
		}
		to, err := w.readPartition(ctx, p, next)
		if file, ok := errors.AsType[*fileError](err); ok {
			return 0, file.error
		}
		if err != nil {
			wait = min(wait, w.unread(ctx, key, err))
			continue
		}
		delete(w.failed, key)
		if to < p.Next {
			wait = 0
		}
	}
	return wait, w.commit(ctx)
}

// unread records that a partition could not be read.
func (w *follower) unread(ctx context.Context, key partKey, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	x := w.failed[key]
	if x == nil {
		x = &views.Retry{}
		w.failed[key] = x
		w.opt.Logger.Warn("reading keys of a partition failed, retrying", "topic", key.topic.String(),
			"partition", key.partition, "err", err)
	}
	return x.Again(time.Now(), w.opt.sizes.retry)
}

// fileError is an error of the file, not of the log.
type fileError struct{ error }

// unsettled reports whether unread tombstones may have been removed. The index would then treat
// their keys as alive, because it read the deleted records before.
func (pos *position) unsettled(p *views.Partition) bool {
	return pos.next < p.Sweepable && pos.settled < p.Sweepable
}

// readPartition reads some of a partition from an offset on, and returns the next offset.
func (w *follower) readPartition(ctx context.Context, p *views.Partition, from int64) (next int64, err error) {
	b, err := w.opt.Log.Read(ctx, p.Topic, p.Partition, from, readBytes)
	if err != nil {
		return from, err
	}
	defer b.Release()
	pos, ok := w.f.positions[partKey{p.Topic, p.Partition}]
	if !ok {
		pos = position{settled: p.Sweepable}
	}
	if pos.next = from; w.recheck(p, &pos) {
		return from, nil // the next turn sees the same
	}
	if next = max(from, b.From); next > from {
		w.reached(p, next)
	}
	var r record.Reader
	for one, err := range b.All() {
		if err != nil {
			return next, err
		}
		end := one.BaseOffset() + one.Span()
		if end <= next {
			continue
		}
		if one.BaseOffset() > next {
			return next, fmt.Errorf("batch at offset %d, want %d", one.BaseOffset(), next)
		}
		if err := w.readBatch(ctx, p, &r, one, next); err != nil {
			return next, err
		}
		next = end
		w.reached(p, next)
	}
	if next == from {
		return from, errors.New("no batch at a committed offset")
	}
	return next, nil
}

// recheck gets the state of a partition again after a read, because that state is then at least as
// new as the data. It reports whether the data must be discarded.
func (w *follower) recheck(p *views.Partition, pos *position) bool {
	now := w.opt.Log.Topic(p.Topic)
	if int(p.Partition) >= len(now) || pos.unsettled(&now[p.Partition]) {
		return true
	}
	*p = now[p.Partition]
	w.settled = pos.settled
	return false
}

// readBatch adds the records of one batch from an offset on.
func (w *follower) readBatch(ctx context.Context, p *views.Partition, r *record.Reader, one record.Batch, from int64) error {
	number := w.topics[p.Topic]
	for r.Reset(one, from); r.Next(); {
		rec := r.Record()
		if rec.Key == nil {
			continue
		}
		e := RunEntry{
			Key: w.batch.key(rec.Key), Topic: number, Part: p.Partition, Offset: rec.Offset, Time: rec.Timestamp,
		}
		if rec.Value == nil {
			e.Flags = Deleted
		}
		w.batch.entries = append(w.batch.entries, e)
		if w.batch.full(w.opt.sizes) {
			w.reached(p, rec.Offset+1)
			if err := w.commit(ctx); err != nil {
				return &fileError{err}
			}
		}
	}
	return r.Err()
}

// reached records the new position in a partition.
func (w *follower) reached(p *views.Partition, next int64) {
	if w.batch.moved == nil {
		w.batch.moved = map[partKey]position{}
	}
	settled := w.settled
	if next >= p.Sweepable {
		settled = p.Sweepable
	}
	w.batch.moved[partKey{p.Topic, p.Partition}] = position{
		number: w.topics[p.Topic], next: next, origin: w.opt.Log.Origin(p.Topic, p.Partition, next-1), settled: settled,
	}
}

// commit stores the batch and makes it visible. After an error the batch is read again.
func (w *follower) commit(ctx context.Context) error {
	p := &progress{entries: Sort(w.batch.entries), moved: w.batch.moved}
	w.batch.entries, w.batch.moved, w.batch.bytes = nil, nil, 0
	if len(p.entries) == 0 && len(p.moved) == 0 {
		return nil
	}
	if err := w.f.ingest(ctx, p, w.nextTopic); err != nil {
		return err
	}
	w.met.records.Add(len(p.entries))
	w.owed += mergeShare * len(p.entries)
	w.publish(w.f, w.topics, p)
	if w.f.recent.entries < w.opt.sizes.recentEntries && w.f.recent.bytes < w.opt.sizes.recentBytes {
		return nil
	}
	if err := w.spill(ctx); err != nil {
		return err
	}
	w.publish(w.f, w.topics, nil)
	return nil
}

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
