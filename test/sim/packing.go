package sim

import (
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// packing is one pack in progress: planned, read, built, stored, installed (rule R8).
type packing struct {
	r      *run
	layout *compact.Layout
	view   *state.State // of the epoch that the pack belongs to
	body   []byte
	ended  func(l *compact.Layout, installed bool)
}

// packConfig merges a lot: small packs, often, with little memory for keys.
var packConfig = compact.Policy{Target: 3000, Age: 2 * time.Second, Small: 3, KeyBytes: 240, Scratch: newScratch}

// packs starts packs and compactions on leaders at random times.
func (w *simulation) packs() {
	if w.late() {
		return
	}
	w.after(w.around(w.loadRand, w.slow(time.Second)), w.packs)
	r := w.anyRun()
	if r == nil || r.core.Role() != core.RoleLeader || r.packing {
		return
	}
	view := r.core.State().View()
	at, wrong := r.time()
	plan := compact.Choose(view, packConfig, at)
	if plan != nil && w.keyRand.IntN(2) == 0 {
		r.packing = true
		r.gather(view, plan.Runs, func(parts [][]byte) {
			if parts == nil {
				r.packing = false
				return
			}
			r.pack(plan, view, parts, func(*compact.Layout, bool) { r.packing = false })
		})
		return
	}
	if wrong != nil || r.clock.Leapt() {
		return
	}
	if c := compact.ChooseCompaction(view, packConfig, at); c != nil {
		r.packing = true
		(&compaction{r: r, pass: c, view: view, scans: c.Scans()}).next()
	}
}

// gather reads the ranges of runs in order. It returns nil after any error.
func (r *run) gather(view *state.State, runs []compact.Run, then func(parts [][]byte)) {
	s := r.n.w.store
	left := 0
	for i := range runs {
		left += len(runs[i].Ranges)
	}
	parts := make([][]byte, left)
	n, ok := 0, true
	for i := range runs {
		for _, g := range runs[i].Ranges {
			at := n
			n++
			s.call(r.n, false, func() core.Outcome {
				body, there := s.objects[view.RangeKey(&g)]
				if !there {
					return core.OutcomeNotFound
				}
				if parts[at] = rangeOf(body, &g); parts[at] == nil {
					return core.OutcomeCorrupt
				}
				return core.OutcomeOK
			}, func(o core.Outcome) {
				r.deliver(func() {
					ok = ok && o == core.OutcomeOK
					if left--; left > 0 {
						return
					}
					if !ok {
						parts = nil
					}
					then(parts)
				})
			})
		}
	}
}

// rangeOf returns a range of an object; nil if that is another object, such as a late SEAL in the
// name of a collected slot.
func rangeOf(body []byte, g *state.Range) []byte {
	if uint64(g.Pos)+uint64(g.Len) > uint64(len(body)) {
		return nil
	}
	data := slices.Clone(body[g.Pos : g.Pos+g.Len])
	if sum, err := record.Verify(data); err != nil || sum.Span != int64(g.Span) {
		return nil
	}
	return data
}

// pack builds a pack and performs its steps.
func (r *run) pack(plan *compact.Plan, view *state.State, parts [][]byte, ended func(l *compact.Layout, installed bool)) {
	r.packed++
	p := &packing{r: r, layout: compact.NewLayout(plan, view, r.packed), view: view, ended: ended}
	prefix, err := record.EncodeObject(&p.layout.Head, nil, p.layout.Index, parts)
	if err != nil {
		r.n.w.fail("R8: encode a pack: %v", err)
		return
	}
	p.body = slices.Concat(append([][]byte{prefix}, parts...)...)
	p.step(compact.Next(compact.Built), compact.Built)
}

// step performs the next step; last is the result of the previous one.
func (p *packing) step(next compact.Step, last compact.Result) {
	switch next {
	case compact.Put:
		p.put()
	case compact.Install:
		p.install()
	default:
		p.ended(p.layout, last == compact.Acked)
	}
}

func (p *packing) put() {
	w := p.r.n.w
	e := &core.Effect{Kind: core.EffPutSnapshot, Key: p.layout.Key(), Body: p.body, View: p.view}
	w.check.request(p.r, e)
	w.store.call(p.r.n, true, func() core.Outcome { return w.store.put(e.Key, p.body) }, func(o core.Outcome) {
		p.r.deliver(func() {
			if o == core.OutcomeOK || o == core.OutcomeExists {
				p.step(compact.Next(compact.Stored), compact.Stored)
				return
			}
			w.after(100*time.Millisecond, func() {
				p.r.deliver(func() { p.step(compact.Next(compact.NoVerdict), compact.NoVerdict) })
			})
		})
	})
}

func (p *packing) install() {
	w := p.r.n.w
	o := &op{w: w, id: 1 << 60, epoch: p.view.Pos.Epoch, rec: &state.Record{Kind: state.PackInstall, Pack: p.layout.Content()}}
	o.done = func(o *op) {
		switch o.outcome {
		case acked:
			w.stats.Packs++
			p.step(compact.Next(compact.Acked), compact.Acked)
		case rejectedFor:
			p.step(compact.Next(compact.Rejected), compact.Rejected)
		default:
			p.step(compact.Next(compact.Unknown), compact.Unknown)
		}
	}
	p.r.submit(o)
	w.after(w.cfg.ClientTimeout, func() {
		if o.outcome == waiting {
			o.answer(unknown, 0)
		}
	})
}

// installed checks R8: a pack is durable before the record that installs it is on the chain, and
// its content is right.
func (c *checker) installed(h *record.Head, content *state.PackContent) {
	key := state.PackKey(0, h.Epoch, h.Nonce, content.ID)
	body, ok := c.w.store.objects[key]
	if !ok {
		body, ok = c.w.loss.body(key)
	}
	if !ok {
		c.w.fail("R8: %s is installed but missing", key)
		return
	}
	o, err := record.DecodeObject(body)
	if err != nil {
		c.w.fail("R8: %s: %v", key, err)
		return
	}
	gone := map[partKey][]int64{}
	for i := range o.Index {
		e := &o.Index[i]
		if t := c.fold.Topic(e.Topic); t != nil {
			k := partKey{t.Name, e.Partition}
			gone[k] = append(gone[k], c.packed(key, k, e, o.Batches(i))...)
		}
	}
	for i := range content.Entries {
		e := &content.Entries[i]
		if t := c.fold.Topic(e.Topic); t != nil {
			k := partKey{t.Name, e.Partition}
			if g := gone[k]; len(g) > 0 {
				c.dropped(key, k, t.Partitions.At(int(e.Partition)), state.Source{Epoch: h.Epoch, Slot: content.ID, Pos: e.Range.Pos, Pack: true}, g)
			}
		}
	}
}

// packed compares a pack's content for one partition with the truth, and returns the omitted
// offsets.
func (c *checker) packed(key string, k partKey, e *record.IndexEntry, batches []byte) (gone []int64) {
	next := e.Base
	markers := markersOf(batches)
	var r record.Reader
	for r.Reset(batches, e.Base); r.Next(); next++ {
		rec := r.Record()
		for ; next < rec.Offset; next++ {
			if !markers[next] {
				gone = append(gone, next)
			}
		}
		if c.log[k][rec.Offset] != identity(rec) {
			c.w.fail("R8: %s holds %q at offset %d of %v", key, identity(rec), rec.Offset, k)
		}
		c.sameTime(k, rec, key, e.MinTime, e.MaxTime)
	}
	if r.Err() != nil {
		c.w.fail("R8: %s: %v", key, r.Err())
	}
	for ; next < e.Base+int64(e.Span); next++ {
		if !markers[next] {
			gone = append(gone, next)
		}
	}
	return gone
}

// references reports whether the newest committed state needs an object for an offset range.
func (c *checker) references(e *record.IndexEntry, src state.Source) bool {
	t := c.fold.Topic(e.Topic)
	if t == nil {
		return false
	}
	p := t.Partitions.At(int(e.Partition))
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if r.Epoch == src.Epoch && r.Slot == src.Slot && r.Pack == src.Pack && r.End() > e.Base && r.Base < e.Base+int64(e.Span) {
			return true
		}
	}
	return false
}

// packDeleted checks R7 for packs.
func (c *checker) packDeleted(key string, o *record.Object) {
	h := &o.Head
	for i := range o.Index {
		if c.references(&o.Index[i], state.Source{Epoch: h.Epoch, Slot: h.Slot, Pack: true}) {
			c.w.fail("I1: %s is deleted, but holds offset %d", key, o.Index[i].Base)
		}
	}
	if _, known := c.fold.PackOf(state.PackID{Epoch: h.Epoch, ID: h.Slot}); h.Epoch >= c.fold.Pos.Epoch && !known {
		c.w.fail("R7: %s is deleted, but may still be installed", key)
	}
}
