package keyindex

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// snapshot is the data that queries read. It is immutable, and the blocks of its runs are kept
// while a query holds it.
type snapshot struct {
	file    *file
	recent  [][]RunEntry
	runs    []*run
	topics  map[record.ID]uint32 // numbers of the topics
	readers int                  // guarded by View.mu, like retired
	retired bool
}

// publish makes the current content of the file visible to queries, with the positions that changed
// with it. Content and positions change under one lock, so a query that sees a position also sees
// its records.
func (v *View) publish(f *file, topics map[record.ID]uint32, p *progress) {
	next := &snapshot{file: f, recent: f.recent.lists, runs: f.runs, topics: topics}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken != nil {
		return // the next turn closes the file
	}
	for _, r := range next.runs {
		r.pins++
	}
	v.retireLocked()
	v.snap, v.err = next, nil
	v.openedLocked()
	if p == nil {
		return
	}
	for _, k := range p.dropped {
		delete(v.positions, k)
		delete(v.reached, k)
	}
	for k, pos := range p.moved {
		if v.positions[k] = pos.next; pos.next >= v.reached[k] {
			delete(v.reached, k)
		}
	}
	close(v.moved)
	v.moved = make(chan struct{})
}

// openedLocked wakes callers that wait for a file or an error.
func (v *View) openedLocked() {
	select {
	case <-v.opened:
	default:
		close(v.opened)
	}
}

// retireLocked withdraws the current snapshot from new queries.
func (v *View) retireLocked() {
	if s := v.snap; s != nil {
		s.retired = true
		v.snap = nil
		s.unpinLocked()
	}
}

// withdrawLocked makes queries wait for another file.
func (v *View) withdrawLocked() {
	v.retireLocked()
	for k, next := range v.positions {
		v.reached[k] = max(v.reached[k], next)
	}
	v.positions = map[partKey]int64{}
	select {
	case <-v.opened:
		v.opened = make(chan struct{})
	default:
	}
}

func (s *snapshot) unpinLocked() {
	if !s.retired || s.readers > 0 {
		return
	}
	for _, r := range s.runs {
		r.pins--
	}
	s.runs = nil
}

// free reports whether no snapshot contains a run.
func (v *View) free(r *run) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return r.pins == 0
}

// withdraw withdraws the snapshot and waits until no query reads, so that the file can be closed.
// err is the error of further queries; nil makes them wait.
func (v *View) withdraw(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.withdrawLocked()
	v.broken = nil
	if v.err = err; err != nil {
		v.openedLocked()
	}
	for v.readers > 0 {
		v.idle.Wait()
	}
}

// acquire returns the current snapshot; the caller releases it. It waits for a file, and until a
// rebuilt one has what the damaged one had of the partitions, the latter for a limited time.
func (v *View) acquire(ctx context.Context, parts []views.Partition) (*snapshot, error) {
	var late <-chan time.Time
	for {
		v.mu.Lock()
		behind := v.behindLocked(parts)
		if v.snap != nil && behind == 0 {
			defer v.mu.Unlock()
			v.snap.readers++
			v.readers++
			return v.snap, nil
		}
		err, changed := v.err, v.opened
		if v.snap != nil {
			changed = v.moved
		}
		v.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if late == nil && behind > 0 {
			late = time.After(v.opt.sizes.rebuildWait)
		}
		select {
		case <-changed:
		case <-late:
			return nil, fmt.Errorf("%w: it was damaged and is rebuilt from the log, %d records of the topic are not read yet: retry later", ErrUnavailable, behind)
		case <-v.loop.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// behindLocked is the number of offsets that a rebuilt file lacks of those that the damaged one had.
func (v *View) behindLocked(parts []views.Partition) (n int64) {
	if len(v.reached) == 0 {
		return 0
	}
	for i := range parts {
		k := partKey{parts[i].Topic, parts[i].Partition}
		n += max(0, min(v.reached[k], parts[i].Next)-max(v.positions[k], parts[i].Start))
	}
	return n
}

// release releases a snapshot. broken, if not nil, is damage that was found in its file.
func (v *View) release(s *snapshot, broken error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.readers--
	s.unpinLocked()
	if v.readers--; v.readers == 0 {
		v.idle.Broadcast()
	}
	if broken == nil || v.snap == nil || v.snap.file != s.file {
		return
	}
	v.breakLocked(broken)
	v.loop.Wake()
}

// breakLocked withdraws the file from queries; the next turn closes it.
func (v *View) breakLocked(why error) {
	v.broken = why
	v.withdrawLocked()
}

const (
	// queryTries is how often a query runs that finds the file damaged.
	queryTries = 3
	// askEvery is the interval at which a waiting query calls Log.Queried; it is shorter than the
	// effect of one call.
	askEvery = 5 * time.Second
	// noTopic is a number that no topic has.
	noTopic = 1<<32 - 1
)

// query runs a query of a topic. If the query finds the file damaged, it is repeated on the rebuilt
// file.
func (v *View) query(ctx context.Context, topic record.ID, f func(*lookup) error) error {
	for try := 1; ; try++ {
		parts := v.opt.Log.Topic(topic)
		if len(parts) == 0 {
			return ErrNotIndexed
		}
		v.opt.Log.Queried()
		s, err := v.acquire(ctx, parts)
		if err != nil {
			return err
		}
		if number, ok := s.topics[topic]; ok {
			err = localdb.Classify(f(s.lookup(number, parts)))
		} else {
			err = f(&lookup{parts: parts, topic: noTopic})
		}
		if !errors.Is(err, localdb.ErrDamaged) {
			v.release(s, nil)
			return err
		}
		v.release(s, err)
		if try == queryTries {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

func (s *snapshot) lookup(topic uint32, parts []views.Partition) *lookup {
	q := &lookup{topic: topic, parts: parts, sources: make([]Source, 0, len(s.runs)+len(s.recent))}
	for _, r := range s.runs {
		q.sources = append(q.sources, r.Run)
	}
	for _, list := range s.recent {
		q.sources = append(q.sources, Memory(list))
	}
	return q
}

// Lag is the number of offsets of a topic that are committed and not yet indexed; 0 if the topic
// has no key index.
func (v *View) Lag(topic record.ID) int64 { return v.lag(v.opt.Log.Topic(topic)) }

func (v *View) lag(parts []views.Partition) (n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range parts {
		p := &parts[i]
		n += max(0, p.Next-max(p.Start, v.positions[partKey{p.Topic, p.Partition}]))
	}
	return n
}

// WaitFor waits until the record at an offset is indexed, even if it is not written yet. Errors:
// those of Get.
func (v *View) WaitFor(ctx context.Context, topic record.ID, partition uint32, offset int64) error {
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for {
		parts := v.opt.Log.Topic(topic)
		if len(parts) == 0 {
			return ErrNotIndexed
		}
		if int64(partition) >= int64(len(parts)) || offset < 0 {
			return fmt.Errorf("%w: offset %d of partition %d of a topic with %d partitions", ErrInvalid, offset, partition, len(parts))
		}
		v.opt.Log.Queried()
		v.mu.Lock()
		indexed := v.snap != nil && max(parts[partition].Start, v.positions[partKey{topic, partition}]) > offset
		err, moved := v.err, v.moved
		v.mu.Unlock()
		if indexed || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-again.C:
		case <-v.loop.Done():
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// manifest is the row that describes the rest of the file. Every transaction rewrites it.
type manifest struct {
	Cluster   string `json:"cluster"`
	NextTopic uint32 `json:"next_topic"` // the number of the next new topic; never reused
	NextRun   int64  `json:"next_run"`
	Runs      []Info `json:"runs"` // oldest first
	// The journal has the sequences [JournalFrom, JournalNext).
	JournalFrom int64 `json:"journal_from"`
	JournalNext int64 `json:"journal_next"`
	// Positions is the number of rows of that table, PositionsSum the sum of their checksums.
	Positions    int    `json:"positions"`
	PositionsSum uint64 `json:"positions_sum"`
}

func (m *manifest) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("keyindex: encode manifest: %v", err))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeManifest(b []byte) (m manifest, err error) {
	body := b[:max(0, len(b)-sumBytes)]
	if len(b) < sumBytes || binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return m, localdb.Damaged("wrong checksum of the manifest")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, localdb.Damaged("manifest: %v", err)
	}
	return m, nil
}

const sumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partKey identifies a partition.
type partKey struct {
	topic     record.ID
	partition uint32
}

// position is the read position in a partition.
type position struct {
	number uint32    // of the topic
	next   int64     // first unread offset
	origin record.ID // nonce of the epoch of offset next-1; zero if unknown
	// settled: no tombstone below it that deletes an indexed record was missed (FORMAT.md).
	settled int64
}

// sum is a checksum of a row, never 0.
func (p *position) sum(k partKey) uint64 {
	b := append(make([]byte, 0, 64), k.topic[:]...)
	b = binary.LittleEndian.AppendUint32(b, k.partition)
	b = binary.LittleEndian.AppendUint32(b, p.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.next))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.settled))
	return uint64(crc32.Checksum(append(b, p.origin[:]...), castagnoli)) + 1
}

// recent holds the entries that are in no run yet: in the file the journal, in memory a few sorted
// lists, whatever the number of entries. The lists are immutable, because queries read them.
type recent struct {
	lists   [][]RunEntry // oldest first
	entries int
	bytes   int // of keys
}

// add adds a sorted list. Each list stays at least twice as long as the next, so their number is
// logarithmic.
func (r *recent) add(list []RunEntry) {
	if len(list) == 0 {
		return
	}
	lists := append([][]RunEntry{}, r.lists...)
	lists = append(lists, list)
	for n := len(lists); n > 1 && len(lists[n-2]) < 2*len(lists[n-1]); n-- {
		lists = append(lists[:n-2], MergeTwo(lists[n-2], lists[n-1]))
	}
	r.lists = lists
	r.entries += len(list)
	for i := range list {
		r.bytes += len(list[i].Key)
	}
}

// all returns all entries as one list.
func (r *recent) all() []RunEntry {
	var all []RunEntry
	for i := len(r.lists) - 1; i >= 0; i-- {
		all = MergeTwo(r.lists[i], all)
	}
	return all
}
