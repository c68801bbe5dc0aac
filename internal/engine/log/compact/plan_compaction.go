package compact

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Compaction is one pass over partitions of compacted topics. It keeps the newest record of each
// key, and removes tombstones whose retention is over. The steps:
//
//  1. Scan the runs of Dirty to learn the newest offset of each key there.
//  2. Filter the runs of each of Plans. Runs that lost records go into a pack, which is stored and
//     installed like any other (rule R8).
//  3. Propose the records of Done, which state how far the partitions are compacted.
//
// An interrupted pass loses nothing: the next pass starts where the last complete one ended. Only
// ranges in packs take part, so the newest part of the log is unchanged. Records without a key
// stay.
type Compaction struct {
	policy Policy
	time   int64
	parts  []*compacting
	keys   map[keyHash]int64 // newest offset of keys between clean and to
}

// keyHash identifies a key of a partition. A collision would take about 2^64 keys.
type keyHash [16]byte

// compacting is a partition in a Compaction.
type compacting struct {
	number     uint32 // within the Compaction
	topic      record.ID
	partition  uint32
	ranges     []state.Range
	clean, to  int64 // compacted up to clean before the pass, and up to to after it
	sweep      int64 // tombstones below it are removed
	tombstones uint32
	locations  []state.Source // where the ranges lie after the pass
}

// ChooseCompaction plans a pass over partitions of a committed state (a view); nil if none is due
// at now (µs). A partition is due when more than min-cleanable-dirty-ratio of its bytes are not yet
// compacted, as in Kafka, or when the retention of tombstones is over.
func ChooseCompaction(s *state.State, c Policy, now int64) *Compaction {
	p := &Compaction{policy: c.withDefaults(), time: now, keys: map[keyHash]int64{}}
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
			p.parts = append(p.parts, k)
		}
	}
	if len(p.parts) == 0 {
		return nil
	}
	slices.SortFunc(p.parts, func(a, b *compacting) int {
		return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
	})
	for i, k := range p.parts {
		k.number = uint32(i)
	}
	return p
}

// due reports whether a partition is due, and how many bytes its pass reads.
func (k *compacting) due(p *state.Partition, s *state.Settings, c *Policy, now int64) (size int64, due bool) {
	newest := now - s.MinCompactionLag.Microseconds()
	k.clean = max(p.Clean, p.Start)
	end, cleanBytes, dirtyBytes := p.Start, int64(0), int64(0)
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if r.Lost() {
			end = r.End()
			continue
		}
		if !r.Pack || r.AppendTime > newest || c.Skip != nil && c.Skip(r.Source()) {
			break
		}
		k.ranges = append(k.ranges, *r)
		end = r.End()
		dirty := int64(r.Len) * min(max(end-k.clean, 0), int64(r.Span)) / int64(r.Span)
		dirtyBytes += dirty
		cleanBytes += int64(r.Len) - dirty
	}
	k.to = max(k.clean, end)
	k.sweep = p.Sweepable(now - s.DeleteRetentionTime.Microseconds())
	if k.sweep > end {
		k.sweep = 0 // a part of it cannot be read
	}
	purge := k.topic == c.Purge.Topic && k.clean < c.Purge.Below
	return dirtyBytes + cleanBytes, dirtyBytes > 0 && (float64(dirtyBytes) > s.MinDirtyRatio*float64(dirtyBytes+cleanBytes) || purge) || k.sweep > p.Start
}

// Dirty lists the runs for Scan, in order, in portions of at most a pack's size.
func (c *Compaction) Dirty() [][]Run {
	return c.portions(func(k *compacting, r *state.Range) bool { return r.End() > k.clean })
}

// Plans lists the runs that may lose records, in portions of at most a pack's size. Call it after
// the last Scan.
func (c *Compaction) Plans() [][]Run {
	for _, k := range c.parts {
		k.locations = nil
	}
	return c.portions(func(k *compacting, r *state.Range) bool { return r.Base < k.to })
}

// portions divides the wanted ranges into runs.
func (c *Compaction) portions(wanted func(*compacting, *state.Range) bool) [][]Run {
	var all [][]Run
	var now []Run
	size := int64(0)
	for _, k := range c.parts {
		open := false
		for i := range k.ranges {
			r := &k.ranges[i]
			if !wanted(k, r) {
				open = false
				continue
			}
			if size > 0 && size+int64(r.Len) > c.policy.Target {
				all, now, size, open = append(all, now), nil, 0, false
			}
			if !open || !now[len(now)-1].room(r) {
				now = append(now, Run{Topic: k.topic, Partition: k.partition, part: k})
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

// Scan records the keys of some batches of a run from Dirty. It must get the batches of a partition
// in order.
func (c *Compaction) Scan(run *Run, batches []byte, r *record.Reader) error {
	k := run.part
	for r.Reset(batches, k.clean); r.Next(); {
		rec := r.Record()
		if rec.Offset >= k.to {
			return nil
		}
		if rec.Key == nil {
			continue
		}
		h := k.hash(rec.Key)
		if _, known := c.keys[h]; !known && len(c.keys) >= c.policy.KeysMax {
			k.to = rec.Offset // the memory limit; the next pass continues here
			return nil
		}
		c.keys[h] = rec.Offset
	}
	return r.Err()
}

func (k *compacting) hash(key []byte) keyHash {
	var buf [256]byte
	h := sha256.Sum256(append(binary.LittleEndian.AppendUint32(buf[:0], k.number), key...))
	return keyHash(h[:16])
}

// Keep reports whether a record of a run from Plans stays.
func (c *Compaction) Keep(run *Run, e *record.CompactEntry) bool {
	k := run.part
	if e.Key == nil || e.Offset >= k.to {
		return true
	}
	if newest, ok := c.keys[k.hash(e.Key)]; ok && newest > e.Offset || e.Null && e.Offset < k.sweep {
		return false
	}
	if e.Null && e.Offset >= k.clean {
		k.tombstones++
	}
	return true
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

// Changed returns a plan of a pack with the runs of a portion that lost records; nil if none did.
// out is the remaining part of each run's ranges, in order.
func (c *Compaction) Changed(runs []Run, out [][]Filtered) *Plan {
	p := &Plan{}
	for i := range runs {
		run := runs[i]
		changed := false
		for j := range run.Ranges {
			changed = changed || out[i][j].Records != run.Ranges[j].Records
		}
		if !changed {
			for j := range run.Ranges {
				run.part.locations = append(run.part.locations, run.Ranges[j].Source())
			}
			continue
		}
		run.filtered = out[i]
		// set by Installed
		run.part.locations = append(run.part.locations, state.Source{Pack: true})
		p.Runs = append(p.Runs, run)
		p.Bytes += run.Bytes
	}
	if len(p.Runs) == 0 {
		return nil
	}
	return p
}

// Installed records the location of a pack that was made of a plan from Changed. Call it before the
// next portion is filtered.
func (c *Compaction) Installed(l *Layout) {
	content := l.Content()
	for i := range l.plan.Runs {
		k := l.plan.Runs[i].part
		at := slices.Index(k.locations, state.Source{Pack: true})
		k.locations[at] = state.Source{Epoch: l.Head.Epoch, Slot: l.Head.Slot, Pos: content.Entries[i].Range.Pos, Pack: true}
	}
}

// Done returns the records that state how far the partitions are compacted. It omits partitions
// whose ranges in the committed state s are not where this pass put them.
func (c *Compaction) Done(s *state.State) []state.Record {
	var recs []state.Record
	for _, k := range c.parts {
		t := s.Topic(k.topic)
		if t == nil || !k.inPlace(t.Partitions.At(int(k.partition))) {
			continue
		}
		recs = append(recs, state.Record{Kind: state.CompactionDone, Topic: k.topic, Partition: k.partition, Clean: state.Compaction{
			To: k.to, Swept: k.sweep, Tombstones: k.tombstones, Time: c.time,
		}})
	}
	return recs
}

// inPlace reports whether a partition's ranges lie where this pass put them; ranges that were
// trimmed since may be missing.
func (k *compacting) inPlace(p *state.Partition) bool {
	var found []state.Source
	for i := range p.Ranges {
		if p.Ranges[i].Base >= k.to {
			break
		}
		if !p.Ranges[i].Lost() {
			found = append(found, p.Ranges[i].Source())
		}
	}
	return len(found) <= len(k.locations) && slices.Equal(found, k.locations[len(k.locations)-len(found):])
}
