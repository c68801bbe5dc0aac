package sim

import (
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// group is a consumer group with one consumer, which commits 1, 2, 3, ... in one partition.
type group struct {
	w     *simulation
	name  string
	key   partKey
	value int64 // newest value sent
	acked int64
	busy  bool

	refused    map[int64]bool  // values whose commit was rejected
	conditions map[int64]int64 // expected values of conditional commits
	shown      int64           // newest on the chain
}

// groupsAndTrims starts consumer groups and trims.
func (w *simulation) groupsAndTrims() {
	for i := range 1 + w.loadRand.IntN(3) {
		g := &group{w: w, name: fmt.Sprintf("g%d", i), key: w.anyPart(), acked: -1, shown: -1, refused: map[int64]bool{}, conditions: map[int64]int64{}}
		w.groups = append(w.groups, g)
		w.after(w.upTo(w.loadRand, time.Second), g.next)
	}
	if w.loadRand.IntN(3) > 0 {
		w.after(w.upTo(w.loadRand, 5*time.Second), w.trim)
	}
}

func (w *simulation) anyPart() partKey {
	return partKey{w.topics[w.loadRand.IntN(len(w.topics))].name, uint32(w.loadRand.IntN(w.cfg.Parts))}
}

// anyRun picks a running broker that is not read-only, or nil.
func (w *simulation) anyRun() *run {
	r := w.nodes[w.loadRand.IntN(w.cfg.Nodes)].run
	if r == nil || r.paused {
		return nil
	}
	return r
}

// next commits the next offset. Half of the commits require the newest acknowledged one.
func (g *group) next() {
	w := g.w
	if w.late() {
		return
	}
	w.after(w.around(w.loadRand, w.slow(300*time.Millisecond)), g.next)
	r := w.anyRun()
	if g.busy || r == nil {
		return
	}
	g.busy = true
	g.value++
	value := g.value
	o := &op{
		w: w, key: g.key, id: 1<<62 | uint64(value),
		rec: &state.Record{Kind: state.OffsetCommit, Name: g.name, Partition: g.key.part, Offset: value, Time: w.now / 1000},
	}
	if w.loadRand.IntN(2) == 0 && g.acked >= 0 {
		o.conditional, o.expected = true, g.acked
		g.conditions[value] = g.acked
	}
	o.done = func(o *op) {
		g.busy = false
		if o.outcome == acked {
			g.acked = value
			w.stats.Commits++
			w.check.offsetAcked(o, g, value)
		}
		if o.outcome == rejectedFor {
			g.refused[value] = true
			w.check.offsetRejected(g, value)
		}
		if mismatch, ok := o.why.(*state.OffsetMismatchError); ok {
			g.acked = mismatch.Next // an earlier commit of unknown outcome took effect
		}
	}
	r.deliver(func() { r.submit(o) })
	w.after(w.cfg.ClientTimeout, func() {
		if o.outcome == waiting {
			o.answer(unknown, 0)
		}
	})
}

// trim moves the start of random partitions.
func (w *simulation) trim() {
	if w.late() {
		return
	}
	w.after(w.around(w.loadRand, w.slow(3*time.Second)), w.trim)
	r := w.anyRun()
	if r == nil || r.core.State() == nil {
		return
	}
	key := w.anyPart()
	t := r.core.State().TopicByName(key.topic)
	if t == nil {
		return
	}
	p := t.Partitions.At(int(key.part))
	start := p.Start + w.loadRand.Int64N(p.Next-p.Start+1)
	o := &op{w: w, key: key, id: 1 << 61, rec: &state.Record{Kind: state.TopicTrim, Partition: key.part, Offset: start}}
	o.done = func(o *op) {
		if o.outcome != acked {
			return
		}
		w.stats.Trims++
		if got := o.run.core.State().TopicByName(key.topic).Partitions.At(int(key.part)).Start; got < start {
			w.fail("I7: %v was trimmed to %d and starts at %d", key, start, got)
		}
	}
	r.deliver(func() { r.submit(o) })
}

// late reports the part of the calm in which nothing new begins.
func (w *simulation) late() bool {
	return w.calm && w.now > begin+int64(w.cfg.Chaos+w.cfg.Calm/2)
}

func (c *checker) offsetRejected(g *group, value int64) {
	if c.offsets[offsetKey{g.name, value}] {
		c.w.fail("I2: group %s: the commit of %d was rejected but is on the chain", g.name, value)
	}
}

// offsetAcked checks I9: an acknowledged offset is on the chain.
func (c *checker) offsetAcked(o *op, g *group, value int64) {
	if !c.offsets[offsetKey{g.name, value}] {
		c.w.fail("I9: group %s: node %d acknowledged offset %d, which is not durable", g.name, o.run.n.id, value)
	}
	if g.refused[value] {
		c.w.fail("I9: group %s: offset %d was rejected and then acknowledged", g.name, value)
	}
}

// offsetKey is one commit of a group: each value is committed once.
type offsetKey struct {
	group string
	value int64
}

// groupsMove records the commits of a slot of the chain: I2, I9.
func (c *checker) groupsMove(recs []state.Record) {
	for i := range recs {
		r := &recs[i]
		if r.Kind != state.OffsetCommit {
			continue
		}
		k := offsetKey{r.Name, r.Offset}
		if c.offsets[k] {
			c.w.fail("I9: group %s commits %d twice", r.Name, r.Offset)
		}
		c.offsets[k] = true
		for _, g := range c.w.groups {
			if g.name != r.Name {
				continue
			}
			if g.refused[r.Offset] {
				c.w.fail("I2: group %s: the rejected commit of %d is on the chain", r.Name, r.Offset)
			}
			if want, ok := g.conditions[r.Offset]; ok && want != g.shown {
				c.w.fail("I9: group %s commits %d with the condition %d, it was %d", r.Name, r.Offset, want, g.shown)
			}
			g.shown = r.Offset
		}
	}
}
