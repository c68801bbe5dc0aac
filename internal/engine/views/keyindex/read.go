package keyindex

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"time"
	"unsafe"

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
		if err := w.readBatch(ctx, p, &r, one, next); err != nil {
			return next, err
		}
		next = end
		w.reached(p, next)
	}
	if b.End > next { // the rest is left out
		next = b.End
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

// Store reads and checks blocks, and caches those of queries. It may be used concurrently.
type Store struct {
	read Reader
	max  int64 // bound of bytes

	mu     sync.Mutex // guards the fields below
	blocks map[int64]*list.Element
	recent list.List // of *cached, the last used one first
	bytes  int64
	once   map[int64]struct{} // data blocks that were read and not cached
}

// Reader calls block for each of the blocks with these IDs that exists. It is called concurrently.
// data is valid until block returns.
type Reader func(ids []int64, block func(id int64, data []byte) error) error

// cached is a block in memory whose checksum was verified: a data block as bytes, and an index block
// decoded.
type cached struct {
	id      int64
	data    []byte
	entries []RunEntry
	bytes   int64
}

// onceMax bounds the data blocks of which the store knows that they were read once.
const onceMax = 1024

// cacheShare bounds a block in the cache, in parts of it: longer ones are read each time.
const cacheShare = 8

// NewStore returns a store that caches blocks of up to cacheBytes.
func NewStore(read Reader, cacheBytes int64) *Store {
	return &Store{read: read, max: cacheBytes, blocks: map[int64]*list.Element{}, once: map[int64]struct{}{}}
}

// place is a block of a run.
type place struct {
	run    *Run
	level  int
	number int
}

func (p *place) id() int64 { return blockID(p.run.ID, p.level, p.number) }

// block returns a block from the cache, from those that the caller has, or from the reader.
func (s *Store) block(p place, have []*cached) (*cached, error) {
	for _, c := range have {
		if c.id == p.id() {
			return c, nil
		}
	}
	if c := s.find(p.id()); c != nil {
		return c, nil
	}
	found, err := s.fetch([]place{p})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// fetch reads blocks and offers them to the cache. It reads them together, because a query of SQLite
// costs more than a block.
func (s *Store) fetch(places []place) ([]*cached, error) {
	found := make([]*cached, len(places))
	err := s.load(places, func(i int, data []byte) (err error) {
		p := &places[i]
		c := &cached{id: p.id()}
		if p.level > 0 {
			c.entries, err = Decode(c.id, p.run.Nonce, data)
		} else if data, err = bodyOf(c.id, p.run.Nonce, data); err == nil {
			c.data = bytes.Clone(data)
		}
		found[i] = c
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		s.add(c)
	}
	return found, nil
}

// load reads blocks and calls block for each.
func (s *Store) load(places []place, block func(i int, data []byte) error) error {
	ids := make([]int64, len(places))
	for i := range places {
		ids[i] = places[i].id()
	}
	missing := slices.Clone(ids)
	err := s.read(ids, func(id int64, data []byte) (err error) {
		i, j := slices.Index(ids, id), slices.Index(missing, id)
		if j < 0 {
			return localdb.Damaged("block %d was found twice, or instead of another", id)
		}
		missing = slices.Delete(missing, j, j+1)
		return block(i, data)
	})
	if err == nil && len(missing) > 0 {
		err = localdb.Damaged("block %d is missing", missing[0])
	}
	return err
}

// find returns a block in the cache, or nil.
func (s *Store) find(id int64) *cached {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.blocks[id]
	if e == nil {
		return nil
	}
	s.recent.MoveToFront(e)
	return e.Value.(*cached)
}

// add adds a block to the cache, and removes those that were not used for longest. A data block is
// added when it is read for the second time: random keys would otherwise remove the index blocks, which
// serve hundreds of data blocks each.
func (s *Store) add(c *cached) {
	c.bytes = int64(unsafe.Sizeof(*c)) + int64(len(c.data)) + int64(len(c.entries))*int64(unsafe.Sizeof(RunEntry{}))
	for i := range c.entries {
		c.bytes += int64(len(c.entries[i].Key))
	}
	if c.bytes > s.max/cacheShare {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks[c.id] != nil {
		return // of a concurrent query
	}
	if _, again := s.once[c.id]; c.entries == nil && !again {
		if len(s.once) == onceMax {
			clear(s.once)
		}
		s.once[c.id] = struct{}{}
		return
	}
	delete(s.once, c.id)
	s.blocks[c.id] = s.recent.PushFront(c)
	for s.bytes += c.bytes; s.bytes > s.max; {
		old := s.recent.Remove(s.recent.Back()).(*cached)
		delete(s.blocks, old.id)
		s.bytes -= old.bytes
	}
}

// Info describes a run.
type Info struct {
	ID      int64  `json:"id"`
	Tier    int    `json:"tier"`   // number of merges of its entries; set by the caller
	Height  int    `json:"height"` // levels of index
	Blocks  int    `json:"blocks"` // data blocks
	Entries int64  `json:"entries"`
	Nonce   uint32 `json:"nonce"` // random, not 0; part of the checksums of its blocks
}

// Run is an immutable sorted list of entries in blocks of a store. It may be read concurrently.
type Run struct {
	Info
	store *Store
}

// Run returns the run that info describes, without reading it, or localdb.ErrDamaged if info is
// invalid.
func (s *Store) Run(info Info) (*Run, error) {
	if info.ID < 0 || info.Height < 0 || info.Height >= levelsMax || info.Blocks < 1 || info.Blocks > blocksMax || info.Nonce == 0 {
		return nil, localdb.Damaged("run %d has invalid height %d, %d blocks or nonce %d", info.ID, info.Height, info.Blocks, info.Nonce)
	}
	return &Run{Info: info, store: s}, nil
}

func (r *Run) chunks() int { return r.Blocks }

// chunk decodes a block. It does not add it to the cache, which is for lookups.
func (r *Run) chunk(number int) (entries []RunEntry, err error) {
	p := place{r, 0, number}
	if c := r.store.find(p.id()); c != nil {
		return decode(c.id, c.data)
	}
	err = r.store.load([]place{p}, func(_ int, data []byte) (err error) {
		entries, err = Decode(p.id(), r.Nonce, data)
		return err
	})
	return entries, err
}

func (r *Run) seek(e *RunEntry) (int, error) {
	number := 0
	for level := r.Height; level > 0; level-- {
		c, err := r.store.block(place{r, level, number}, nil)
		if err != nil {
			return 0, err
		}
		i := sort.Search(len(c.entries), func(i int) bool { return Compare(&c.entries[i], e) > 0 })
		number = int(c.entries[max(0, i-1)].Time)
	}
	return number, nil
}

func (r *Run) before(e *RunEntry, have []*cached) (*RunEntry, error) {
	number, err := r.seek(e)
	for ; err == nil && number >= 0; number-- {
		var c *cached
		if c, err = r.store.block(place{r, 0, number}, have); err == nil {
			var found *RunEntry
			if found, err = lastBefore(c.id, c.data, e); found != nil {
				return found, nil
			}
		}
	}
	return nil, err
}

// prefetch reads the blocks in which e is or would be and that are not cached, those of all runs
// together.
func prefetch(sources []Source, e *RunEntry) ([]*cached, error) {
	var places []place
	for _, s := range sources {
		r, ok := s.(*Run)
		if !ok {
			continue
		}
		number, err := r.seek(e)
		if err != nil {
			return nil, err
		}
		if p := (place{r, 0, number}); r.store.find(p.id()) == nil {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	return places[0].run.store.fetch(places)
}
