package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// deleteRetention is how long tombstones stay in compacted topics.
const deleteRetention = 10 * time.Second

// settings returns the settings at the topic's creation.
func (t *topic) settings() map[string]string {
	s := map[string]string{}
	if t.compacted {
		s["cleanup-policy"], s["delete-retention-time"] = "compact", deleteRetention.String()
	}
	if t.queue {
		s["queue"] = "true"
	}
	if t.stamped {
		s["timestamp-type"] = state.TimestampAppend
	}
	return s
}

// identity returns the value by which the checker identifies a record. A tombstone has it in a
// header.
func identity(r *record.Record) string {
	if r.Value == nil && len(r.Headers) > 0 {
		return string(r.Headers[0].Value)
	}
	return string(r.Value)
}

// records returns an op's records. Those for a compacted topic have keys, and some are tombstones.
func (o *op) records() []record.Record {
	w := o.w
	compacted := slices.ContainsFunc(w.topics, func(t *topic) bool { return t.name == o.key.topic && t.compacted })
	var recs []record.Record
	for i, v := range o.values {
		r := record.Record{Value: []byte(v), Timestamp: w.now/1e6 - int64(3*i)}
		if compacted && w.keyRand.IntN(12) > 0 {
			r.Key = fmt.Append(nil, "k", w.keyRand.IntN(15))
			if w.keyRand.IntN(5) == 0 {
				r.Value, r.Headers = nil, []record.Header{{Key: "id", Value: []byte(v)}}
			}
		}
		recs = append(recs, r)
	}
	return recs
}

// compaction is a pass in progress.
type compaction struct {
	r    *run
	pass *compact.Compaction
	view *state.State
	// the remaining portions of a round, or of the filtering
	scans, plans [][]compact.Run
	filtering    bool
}

// scratch is a temporary file in memory.
type scratch struct{ content []byte }

func newScratch() (compact.Scratch, error) { return &scratch{}, nil }

func (s *scratch) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(s.content).ReadAt(b, at)
}

func (s *scratch) WriteAt(b []byte, at int64) (int, error) {
	if grow := at + int64(len(b)) - int64(len(s.content)); grow > 0 {
		s.content = append(s.content, make([]byte, grow)...)
	}
	return copy(s.content[at:], b), nil
}

func (s *scratch) Close() error { return nil }

// next processes the next portion, or ends the pass.
func (c *compaction) next() {
	if len(c.scans) > 0 && !c.pass.Full() {
		runs := c.scans[0]
		c.scans = c.scans[1:]
		c.with(runs, func(parts [][]byte) { c.scan(runs, parts) })
		return
	}
	if !c.filtering {
		c.endRound()
		return
	}
	if len(c.plans) > 0 {
		runs := c.plans[0]
		c.plans = c.plans[1:]
		c.with(runs, func(parts [][]byte) { c.rewrite(runs, parts) })
		return
	}
	c.r.packing = false
	at, wrong := c.r.time()
	if wrong != nil || c.r.clock.Leapt() {
		return
	}
	recs, err := c.pass.Done(c.r.core.State(), at)
	if err != nil {
		c.r.n.w.fail("R8: end of a pass: %v", err)
	}
	if c.pass.Partial() {
		c.r.n.w.stats.Partial++
	}
	for _, rec := range recs {
		o := &op{w: c.r.n.w, id: 1<<59 | uint64(c.r.packed), epoch: c.view.Pos.Epoch, rec: &rec}
		o.done = func(o *op) {
			if o.outcome == acked {
				o.w.stats.Compactions++
			}
		}
		c.r.submit(o)
	}
}

// endRound decides about the keys of a round, and begins the next one or the filtering.
func (c *compaction) endRound() {
	err := c.pass.Decide(func() error { return nil })
	c.scans = c.pass.Scans()
	if c.filtering = c.pass.Decided(); c.filtering && err == nil {
		c.scans = nil
		c.plans, err = c.pass.Plans()
	}
	if err != nil {
		c.r.n.w.fail("R8: decide: %v", err)
		return
	}
	c.next()
}

// with reads a portion. Any error ends the pass.
func (c *compaction) with(runs []compact.Run, then func(parts [][]byte)) {
	c.r.gather(c.view, runs, func(parts [][]byte) {
		if parts == nil {
			c.r.packing = false
			return
		}
		then(parts)
	})
}

func (c *compaction) scan(runs []compact.Run, parts [][]byte) {
	var reader record.Reader
	for i := range runs {
		for j := range runs[i].Ranges {
			if err := c.pass.Scan(&runs[i], j, parts[0], &reader); err != nil {
				c.r.n.w.fail("R8: scan: %v", err)
				return
			}
			parts = parts[1:]
		}
	}
	c.next()
}

func (c *compaction) rewrite(runs []compact.Run, parts [][]byte) {
	var compactor record.Compactor
	out := make([][]compact.Filtered, len(runs))
	batches := make([][][]byte, len(runs))
	for i := range runs {
		compactor.Drop = func(b record.Batch) bool { return c.pass.Drops(&runs[i], b) }
		for j := range runs[i].Ranges {
			b, sum, err := compactor.Append(nil, parts[0], func(e *record.CompactEntry) bool { return c.pass.Keep(&runs[i], j, e) })
			if err != nil {
				c.r.n.w.fail("R8: compact: %v", err)
				return
			}
			f := compact.Filtered{Len: uint32(len(b))}
			f.Add(sum)
			out[i], batches[i] = append(out[i], f), append(batches[i], b)
			parts = parts[1:]
		}
	}
	plan, err := c.pass.Changed(runs, out)
	if err != nil {
		c.r.n.w.fail("R8: filtered: %v", err)
		return
	}
	c.r.pack(plan, c.view, slices.Concat(batches...), func(l *compact.Layout, installed bool) {
		if !installed {
			c.r.packing = false
			return
		}
		c.pass.Installed(l)
		c.next()
	})
}

// keys is the truth about a partition's keys.
type keys struct {
	at      map[string][]int64 // offsets of each key, ascending
	key     map[int64]string
	dead    map[int64]int64 // tombstones: when they were stored
	removed map[int64]bool  // removed by compaction
}

// keyed records a committed record with a key.
func (c *checker) keyed(k partKey, r *record.Record) {
	if r.Key == nil {
		return
	}
	t := c.keysOf(k)
	at := append(t.at[string(r.Key)], r.Offset)
	slices.Sort(at) // a transaction may be committed later
	t.at[string(r.Key)] = at
	t.key[r.Offset] = string(r.Key)
	if r.Value == nil {
		t.dead[r.Offset] = c.w.now
	}
}

func (c *checker) keysOf(k partKey) *keys {
	t := c.keys[k]
	if t == nil {
		t = &keys{at: map[string][]int64{}, key: map[int64]string{}, dead: map[int64]int64{}, removed: map[int64]bool{}}
		c.keys[k] = t
	}
	return t
}

// dropped checks that compaction keeps the newest record of each key. Only a tombstone may be
// removed, and not before the records it hides.
func (c *checker) dropped(pack string, k partKey, p *state.Partition, src state.Source, offsets []int64) {
	t := c.keysOf(k)
	touched := map[string]bool{}
	for _, o := range offsets {
		i := p.Find(o)
		if i < 0 || p.Ranges[i].Source() != src {
			continue // trimmed, or the pack came too late
		}
		if c.dropsTx(k, o) {
			t.removed[o] = true
			continue
		}
		key, ok := t.key[o]
		if !ok {
			c.w.fail("I1: %s omits %q at offset %d of %v, which has no key", pack, c.log[k][o], o, k)
		}
		t.removed[o], touched[key] = true, true
	}
	for key := range touched {
		at := t.at[key]
		newest := at[len(at)-1]
		if !t.removed[newest] {
			continue
		}
		came, tombstone := t.dead[newest]
		if !tombstone {
			c.w.fail("I1: %s omits %q at offset %d of %v, the newest of %s", pack, c.log[k][newest], newest, k, key)
		}
		if stood := c.w.now - came; stood < int64(deleteRetention-2*c.w.cfg.ClockSkew) {
			c.w.fail("I1: %s omits the tombstone at offset %d of %v after %v", pack, newest, k, time.Duration(stood))
		}
		for _, o := range at {
			if !t.removed[o] && o >= p.Start {
				c.w.fail("I1: %s omits the tombstone at offset %d of %v, so %q at %d becomes the value of %s", pack, newest, k, c.log[k][o], o, key)
			}
		}
	}
}
