package compact

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Compaction is one pass over partitions of compacted topics. It keeps the newest record of each
// key, and removes tombstones whose retention is over. The steps:
//
//		Scan all records ──▶ Decide ──▶ Keep or drop, in the ranges ──▶ Done
//		   hash of key,       by sorting   that lose records, in order
//		   position           on disk
//
//	 1. Until Decided, Scan the runs of Scans as long as the round is not Full, and Decide. A round
//	    decides about a part of the keys: all of them, unless the partitions have more than recordsMax
//	    records.
//	 2. Filter the runs of each of Plans, which lose records. The rest of them goes into a pack, which
//	    is stored and installed like any other (rule R8).
//	 3. Propose the records of Done, which state how far the partitions are compacted.
//
// Records of aborted transactions take no part: they are dropped, and never the newest (transactions.go).
//
// So a pass of one round reads each byte at most twice. An interrupted pass loses nothing: the next
// pass starts where the last complete one ended. Only ranges in packs take part, so the newest part
// of the log is unchanged. Records without a key stay. Close it after the last step.
//
// The temporary files are bounded. When the records to drop fill theirs, or few keys have so many
// records that those of a round fill theirs, the pass drops what is decided and ends as Partial. It has
// made the partitions smaller, and the next pass continues with the rest.
type Compaction struct {
	policy Policy
	time   int64
	parts  []*compacting
	bytes  int64

	rounds, round uint64
	roundMax      uint64 // records of a round if their keys are many
	taken         uint64 // entries of keys
	full          bool   // taken has reached its bound
	drops         uint64 // entries of gone

	keys     sorter // of a round: hash of the key (two numbers), position
	gone     sorter // dropped records: position, hash of the key
	next     entry  // of gone, while filtering
	more     bool
	unsorted error // of gone
}

// keyHash identifies a key of a partition. A collision would take about 2^64 keys.
type keyHash [2]uint64

// compacting is a partition in a Compaction.
type compacting struct {
	salt       []byte // of the hashes of its keys
	topic      record.ID
	partition  uint32
	ranges     []state.Range
	first      uint64                               // number of the first range within the Compaction
	dropping   []bool                               // the ranges that lose records
	clean, to  int64                                // compacted up to clean before the pass, and up to to after it
	end        int64                                // of ranges; below clean if younger or unreadable ranges follow
	sweep      int64                                // tombstones below it are removed
	tombstones int64                                // remaining ones from clean on
	aborted    map[int64][]state.AbortedTransaction // by producer, as the state knew them before the pass
	// where the ranges lie after the pass; a range that is part of the one before it has none
	locations []state.Source
}

// place is the position of a record within the Compaction: the number of its range, and 32 bits of
// offset within the range. In a partition it grows with the offset.
func (run *Run) place(j int, offset int64) uint64 {
	return (run.first+uint64(j))<<32 | uint64(offset-run.Ranges[j].Base)
}

// ChooseCompaction plans a pass over partitions of a committed state (a view); nil if none is due
// at now (µs). A partition is due when more than min-cleanable-dirty-ratio of its bytes are not yet
// compacted, as in Kafka, or when the retention of tombstones is over.
func ChooseCompaction(s *state.State, c Policy, now int64) *Compaction {
	p := &Compaction{policy: c.withDefaults(), time: now}
	size := int64(0)
	for _, t := range s.Topics() {
		if !strings.HasPrefix(t.Settings["cleanup-policy"], "compact") {
			continue
		}
		settings := state.Resolve(t.Settings)
		for i, part := range t.Partitions.Written() {
			k := &compacting{topic: t.ID, partition: uint32(i)}
			n, due := k.due(part, &settings, &p.policy, now)
			if !due || size > 0 && size+n > p.policy.Target {
				continue
			}
			size += n
			k.aborted = abortedBy(part.Aborted)
			p.parts = append(p.parts, k)
		}
	}
	if len(p.parts) == 0 {
		return nil
	}
	slices.SortFunc(p.parts, func(a, b *compacting) int {
		return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
	})
	ranges, records := uint64(0), uint64(0)
	for i, k := range p.parts {
		// The time, because clients that knew the salt could choose keys that all belong to one round.
		k.salt = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(i)), uint64(now))
		k.first = ranges
		ranges += uint64(len(k.ranges))
		k.dropping = make([]bool, len(k.ranges))
		for j := range k.ranges {
			records += uint64(k.ranges[j].Records)
			k.locations = append(k.locations, k.ranges[j].Source())
		}
	}
	p.bytes = size
	p.sorting(records)
	return p
}

const (
	// recordsMax bounds the records of a round if their keys are many: their temporary file takes 512
	// MiB.
	recordsMax = 22_000_000
	// roundsFull is how many times as many records fill the temporary file of a round, because few keys
	// have most of them.
	roundsFull = 2
)

// sorting divides a pass over a number of records into rounds. Both sorters are in use at once and
// share the memory. A run that is merged needs memory for at least one entry.
func (c *Compaction) sorting(records uint64) {
	most := uint64(max(c.policy.KeyBytes/(2*entrySize), 2))
	c.roundMax = min(recordsMax, most*most)
	c.rounds = max(1, (records+c.roundMax-1)/c.roundMax)
	c.keys = sorter{create: c.policy.Scratch, most: int(most)}
	c.gone = sorter{create: c.policy.Scratch, most: int(most)}
}

// Full reports whether the temporary file of a round is full. Scan then takes no further records, which
// stay. That is right at each position, because a record is dropped only for a newer one that was taken.
func (c *Compaction) Full() bool { return c.full }

// Decided reports whether no further round follows.
func (c *Compaction) Decided() bool {
	return c.round == c.rounds || c.full || c.drops >= c.roundMax
}

// Partial reports whether the pass was Decided before its last round ended.
func (c *Compaction) Partial() bool { return c.round < c.rounds || c.full }

// Bytes is how many bytes a pass reads at most.
func (c *Compaction) Bytes() int64 { return c.bytes * int64(c.rounds+1) }

// Close closes the temporary files.
func (c *Compaction) Close() {
	c.keys.close()
	c.gone.close()
}

// due reports whether a partition is due, and how many bytes its pass reads.
func (k *compacting) due(p *state.Partition, s *state.Settings, c *Policy, now int64) (size int64, due bool) {
	newest := now - s.MinCompactionLag.Microseconds()
	k.clean = max(p.Clean, p.Start)
	cleanBytes, dirtyBytes := int64(0), int64(0)
	k.end = p.Start
	stable := p.LastStable()
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if r.End() > stable {
			break
		}
		if r.Lost() {
			k.end = r.End()
			continue
		}
		if !r.Pack || r.AppendTime > newest || c.Skip != nil && c.Skip(r.Source()) {
			break
		}
		k.ranges = append(k.ranges, *r)
		k.end = r.End()
		offsets, span := min(max(k.end-k.clean, 0), int64(r.Span)), int64(r.Span)
		dirty := (int64(r.Len)*offsets + span - 1) / span // not 0 for a few of very many offsets
		dirtyBytes += dirty
		cleanBytes += int64(r.Len) - dirty
	}
	k.to = max(k.clean, k.end)
	k.sweep = p.Sweepable(now - s.DeleteRetentionTime.Microseconds())
	if k.sweep > k.end {
		k.sweep = 0 // a part of it cannot be read
	}
	purge := k.topic == c.Purge.Topic && k.clean < c.Purge.Below
	return dirtyBytes + cleanBytes, dirtyBytes > 0 && (float64(dirtyBytes) > s.MinDirtyRatio*float64(dirtyBytes+cleanBytes) || purge) || k.sweep > p.Start
}

// Scans lists the runs for Scan, in order, in portions of at most a pack's size.
func (c *Compaction) Scans() [][]Run {
	return c.portions(func(*compacting, int) bool { return true })
}

// Plans lists the runs that lose records, in portions of at most a pack's size. Call it when all is
// Decided.
func (c *Compaction) Plans() ([][]Run, error) {
	if err := c.gone.sort(); err != nil {
		return nil, err
	}
	if err := c.pull(); err != nil {
		return nil, err
	}
	return c.portions(func(k *compacting, i int) bool { return k.dropping[i] }), nil
}

// pull reads the next dropped record.
func (c *Compaction) pull() (err error) {
	c.next, c.more, err = c.gone.next()
	return err
}

// portions divides the wanted ranges into runs.
func (c *Compaction) portions(wanted func(k *compacting, i int) bool) [][]Run {
	var all [][]Run
	var now []Run
	size := int64(0)
	for _, k := range c.parts {
		open := false
		for i := range k.ranges {
			r := &k.ranges[i]
			if !wanted(k, i) {
				open = false
				continue
			}
			if size > 0 && size+int64(r.Len) > c.policy.Target {
				all, now, size, open = append(all, now), nil, 0, false
			}
			if !open || !now[len(now)-1].room(r) {
				now = append(now, Run{Topic: k.topic, Partition: k.partition, part: k, first: k.first + uint64(i)})
				open = true
			}
			run := &now[len(now)-1]
			run.Ranges = append(run.Ranges, *r)
			run.Bytes += int64(r.Len)
			size += int64(r.Len)
		}
	}
	if len(now) > 0 {
		all = append(all, now)
	}
	return all
}

// Scan takes the keys of batches of range j of a run from Scans, which it must get in order.
func (c *Compaction) Scan(run *Run, j int, batches []byte, r *record.Reader) error {
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			b, rest = batches, nil // r returns the error
		}
		if err == nil && c.Drops(run, b) {
			run.part.dropping[run.first-run.part.first+uint64(j)] = true
		} else if err := c.scan(run, j, b, r); err != nil || c.full {
			return err
		}
		batches = rest
	}
	return nil
}

// scan is Scan of batches that keep what their keys decide.
func (c *Compaction) scan(run *Run, j int, batches []byte, r *record.Reader) error {
	k := run.part
	for r.Reset(batches, math.MinInt64); r.Next(); {
		rec := r.Record()
		if rec.Key == nil {
			continue
		}
		h := k.hash(rec.Key)
		if h[0]%c.rounds != c.round {
			continue
		}
		place, swept := run.place(j, rec.Offset)<<1, uint64(0)
		if rec.Value == nil && rec.Offset < k.sweep {
			swept = 1
		}
		if rec.Value == nil && rec.Offset >= k.clean {
			k.tombstones++
		}
		if c.taken == roundsFull*c.roundMax {
			c.full = true
			return nil
		}
		c.taken++
		if err := c.keys.add(entry{h[0], h[1], place | swept}); err != nil {
			return err
		}
	}
	return r.Err()
}

func (k *compacting) hash(key []byte) keyHash {
	var buf [256]byte
	h := sha256.Sum256(append(append(buf[:0], k.salt...), key...))
	return keyHash{binary.LittleEndian.Uint64(h[:]), binary.LittleEndian.Uint64(h[8:])}
}

// pauseEntries is how many entries Decide reads between two calls of pause.
const pauseEntries = 4096

// Decide ends a round: of each key all records but the newest are dropped, and that one, too, if it is
// a tombstone to remove. It calls pause regularly, and returns its error.
func (c *Compaction) Decide(pause func() error) error {
	if err := c.keys.sort(); err != nil {
		return err
	}
	last, any := entry{}, false
	for n := 0; ; n++ {
		if n%pauseEntries == 0 {
			if err := pause(); err != nil {
				return err
			}
		}
		e, more, err := c.keys.next()
		if err != nil {
			return err
		}
		if any && (last[2]&1 == 1 || more && e[0] == last[0] && e[1] == last[1]) {
			if err := c.drop(last); err != nil {
				return err
			}
		}
		if !more {
			break
		}
		last, any = e, true
	}
	c.keys.close()
	c.taken = 0
	c.round++
	return nil
}

// drop records that a record will be dropped.
func (c *Compaction) drop(e entry) error {
	place := e[2] >> 1
	i, _ := slices.BinarySearchFunc(c.parts, place>>32+1, func(k *compacting, end uint64) int {
		return cmp.Compare(k.first+uint64(len(k.ranges)), end)
	})
	if i == len(c.parts) {
		return &record.CorruptError{What: "position in a temporary file", Pos: int64(place)}
	}
	k := c.parts[i]
	k.dropping[place>>32-k.first] = true
	c.drops++
	return c.gone.add(entry{place, e[0], e[1]})
}

// Keep reports whether a record of range j of a run from Plans stays. It must get all records of the
// ranges in order. A record is dropped only if both its position and its key are those of a record
// that Decide dropped, so damage to the temporary file drops none; Changed returns that as an error.
func (c *Compaction) Keep(run *Run, j int, e *record.CompactEntry) bool {
	k := run.part
	if !c.more || c.next[0] != run.place(j, e.Offset) || e.Key == nil {
		return true
	}
	if h := k.hash(e.Key); h[0] != c.next[1] || h[1] != c.next[2] {
		return true // Changed finds that it was not dropped
	}
	if e.Null && e.Offset >= k.clean {
		k.tombstones--
	}
	c.unsorted = cmp.Or(c.unsorted, c.pull())
	return false
}

// Filtered is the remaining part of a range.
type Filtered struct {
	Len, Records uint32
	Span         int64
	MaxTimestamp int64 // ms
}

// Add adds the summary of the next filtered part of the range.
func (f *Filtered) Add(s record.Summary) {
	if f.Span == 0 {
		f.MaxTimestamp = s.MaxTimestamp
	}
	f.MaxTimestamp = max(f.MaxTimestamp, s.MaxTimestamp)
	f.Records += uint32(s.Records)
	f.Span += s.Span
}

// Changed returns a plan of a pack with the runs of a portion, from which Keep dropped records. out is
// the remaining part of each run's ranges, in order.
func (c *Compaction) Changed(runs []Run, out [][]Filtered) (*Plan, error) {
	last := &runs[len(runs)-1]
	switch {
	case c.unsorted != nil:
		return nil, c.unsorted
	case c.more && c.next[0]>>32 < last.first+uint64(len(last.Ranges)):
		return nil, c.stray()
	}
	p := &Plan{}
	for i := range runs {
		run := runs[i]
		run.filtered = out[i]
		p.Runs = append(p.Runs, run)
		p.Bytes += run.Bytes
	}
	return p, nil
}

// stray is the error for a dropped record that is in no range.
func (c *Compaction) stray() error {
	return &record.CorruptError{What: "dropped record in a temporary file", Pos: int64(c.next[0])}
}

// Installed records the location of a pack that was made of a plan from Changed.
func (c *Compaction) Installed(l *Layout) {
	content := l.Content()
	for i := range l.plan.Runs {
		run := &l.plan.Runs[i]
		at := run.part.locations[run.first-run.part.first:]
		clear(at[:len(run.Ranges)])
		at[0] = state.Source{Epoch: l.Head.Epoch, Slot: l.Head.Slot, Pos: content.Entries[i].Range.Pos, Pack: true}
	}
}

// Done returns the records that state how far the partitions are compacted at now (µs): the retention
// of tombstones begins when the records that they hide are gone. There is none after a Partial pass.
// It omits partitions whose ranges in the committed state s are not where this pass put them. An error
// is one of the temporary file, and says that not all records were dropped.
//
// With its record the state forgets the aborted transactions that end below k.to. That is right, because
// they have no records left:
//   - The pass knew all of them. Another one was still open when the pass was planned, or began later. So
//     its last offset is not below the last stable offset of that time: neither below its first offset, nor
//     below the start offset, or the state would not have it. k.to is not above that stable offset, because
//     the pass ends there, and earlier passes ended at lower ones.
//   - The pass read all ranges from the start offset to k.end, and rewrote each that had such a record,
//     also if no key decided about it (dropping). Partial says that it did not. inPlace says that what it
//     wrote is what readers get. Only trims can change that until the record is in the log, because the
//     record is rejected in another epoch, and this merger is the only one of its epoch.
//   - Those that end between k.end and k.clean were forgotten by an earlier pass.
func (c *Compaction) Done(s *state.State, now int64) ([]state.Record, error) {
	if c.more {
		return nil, c.stray()
	}
	if c.Partial() {
		return nil, nil
	}
	var recs []state.Record
	for _, k := range c.parts {
		t := s.Topic(k.topic)
		if t == nil || !k.inPlace(t.Partitions.At(int(k.partition))) {
			continue
		}
		recs = append(recs, state.Record{Kind: state.CompactionDone, Topic: k.topic, Partition: k.partition, Clean: state.Compaction{
			To: k.to, Swept: k.sweep, Tombstones: uint32(min(k.tombstones, math.MaxUint32)), Time: max(c.time, now),
		}})
	}
	return recs, nil
}

// inPlace reports whether a partition's ranges lie where this pass put them; ranges that were
// trimmed since may be missing.
func (k *compacting) inPlace(p *state.Partition) bool {
	var found []state.Source
	for i := range p.Ranges {
		if p.Ranges[i].Base >= k.end {
			break
		}
		if !p.Ranges[i].Lost() {
			found = append(found, p.Ranges[i].Source())
		}
	}
	want := slices.DeleteFunc(slices.Clone(k.locations), func(s state.Source) bool { return s == state.Source{} })
	return len(found) <= len(want) && slices.Equal(found, want[len(want)-len(found):])
}
