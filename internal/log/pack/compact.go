package pack

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// Compaction is one pass over partitions of compacted topics: it keeps the newest record of each key, and removes
// tombstones that have stood long enough. What it does in order:
//
//  1. Scan what Dirty lists, to learn the newest offset of each key there.
//  2. Filter the runs of each of Plans; those that lost something go into a pack that is stored and installed like any
//     other (rule R8).
//  3. Propose what Done gives, which says how far the partitions are compacted.
//
// If it ends early nothing is lost: the next pass begins where the last finished one ended. Only ranges in packs take
// part, so the newest part of the log stays as it is. Records without a key stay.
type Compaction struct {
	config Config
	time   int64
	parts  []*compacting
	keys   map[keyHash]int64 // newest offset, of keys between clean and to
}

// keyHash stands for a key of a partition. Two keys never share one: that would take 2^64 tries to bring about.
type keyHash [16]byte

// compacting is a partition in a Compaction.
type compacting struct {
	number     uint32 // within the Compaction
	topic      record.ID
	partition  uint32
	ranges     []state.Range
	clean, to  int64 // compacted up to clean before, and up to to after
	sweep      int64 // tombstones below go
	tombstones uint32
	places     []state.Source // where the ranges lie when all is done
}

// ChooseCompaction plans a pass over partitions of a committed state (a view), or returns nil if none is due at now (µs).
// A partition is due when what was never compacted is as large as what was, or when tombstones have stood long enough.
func ChooseCompaction(s *state.State, c Config, now int64) *Compaction {
	p := &Compaction{config: c.withDefaults(), time: now, keys: map[keyHash]int64{}}
	size := int64(0)
	for _, t := range s.Topics() {
		if !strings.HasPrefix(t.Settings["cleanup-policy"], "compact") {
			continue
		}
		settings := state.Resolve(t.Settings)
		for i, part := range t.Partitions.Written() {
			k := &compacting{topic: t.ID, partition: uint32(i)}
			n, due := k.due(part, &settings, &p.config, now)
			if !due || size > 0 && size+n > p.config.Target {
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

// due says whether a partition is, and how many bytes that takes to read.
func (k *compacting) due(p *state.Partition, s *state.Settings, c *Config, now int64) (size int64, due bool) {
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
		k.sweep = 0 // some of it can not be read
	}
	return dirtyBytes + cleanBytes, dirtyBytes > 0 && dirtyBytes >= cleanBytes || k.sweep > p.Start
}

// Dirty lists the runs that Scan must see, in order, in portions of at most a pack's size.
func (c *Compaction) Dirty() [][]Run {
	return c.portions(func(k *compacting, r *state.Range) bool { return r.End() > k.clean })
}

// Plans lists the runs that may lose records, in portions of at most a pack's size. Call it after the last Scan.
func (c *Compaction) Plans() [][]Run {
	for _, k := range c.parts {
		k.places = nil
	}
	return c.portions(func(k *compacting, r *state.Range) bool { return r.Base < k.to })
}

// portions cuts the ranges that are asked for into runs.
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
			if size > 0 && size+int64(r.Len) > c.config.Target {
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

// Scan notes the keys of some batches of a run from Dirty. It must see the batches of a partition in order.
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
		if _, known := c.keys[h]; !known && len(c.keys) >= c.config.KeysMax {
			k.to = rec.Offset // as far as memory reaches; the next pass goes on here
			return nil
		}
		c.keys[h] = rec.Offset
	}
	return r.Err()
}

func (k *compacting) hash(key []byte) keyHash {
	var room [256]byte
	h := sha256.Sum256(append(binary.LittleEndian.AppendUint32(room[:0], k.number), key...))
	return keyHash(h[:16])
}

// Keep says whether a record of a run from Plans stays.
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

// Filtered is what is left of a range.
type Filtered struct {
	Len, Records uint32
	Span         int64
	MaxTimestamp int64 // ms
}

// Add adds what is left of the next part of the range, as its Compactor says.
func (f *Filtered) Add(s record.Summary) {
	if f.Span == 0 {
		f.MaxTimestamp = s.MaxTimestamp
	}
	f.MaxTimestamp = max(f.MaxTimestamp, s.MaxTimestamp)
	f.Records += uint32(s.Records)
	f.Span += s.Span
}

// Changed keeps of a portion the runs that lost something, as a plan of the pack to be made of them; nil if none did. out has what
// is left of each run's ranges, in order.
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
				run.part.places = append(run.part.places, run.Ranges[j].Source())
			}
			continue
		}
		run.filtered = out[i]
		run.part.places = append(run.part.places, state.Source{Pack: true}) // to be told by Installed
		p.Runs = append(p.Runs, run)
		p.Bytes += run.Bytes
	}
	if len(p.Runs) == 0 {
		return nil
	}
	return p
}

// Installed is told of each pack made of a plan from Changed before the next portion is filtered.
func (c *Compaction) Installed(l *Layout) {
	content := l.Content()
	for i := range l.plan.Runs {
		k := l.plan.Runs[i].part
		at := slices.Index(k.places, state.Source{Pack: true})
		k.places[at] = state.Source{Epoch: l.Head.Epoch, Slot: l.Head.Slot, Pos: content.Entries[i].Range.Pos, Pack: true}
	}
}

// Done gives the records that say how far the partitions are compacted, for those where all lies in a committed state as
// this pass has put it.
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

// inPlace compares where a partition's ranges lie with what they should be; those trimmed since may be gone.
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
	return len(found) <= len(k.places) && slices.Equal(found, k.places[len(k.places)-len(found):])
}
