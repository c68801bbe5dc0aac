package sim

import (
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/packer"
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// packing is one pack on its way: planned, read, built, stored, installed (rule R8).
type packing struct {
	r      *run
	plan   *packer.Plan
	layout *packer.Layout
	parts  [][]byte
	left   int
	body   []byte
}

// packConfig merges a lot: small packs, often.
var packConfig = packer.Config{Target: 3000, Age: 2 * time.Second, Small: 3}

// packs starts a pack on some leader now and then.
func (w *world) packs() {
	if w.late() {
		return
	}
	w.after(w.around(w.loadRand, time.Second), w.packs)
	r := w.anyRun()
	if r == nil || r.core.Role() != logcore.RoleLeader || r.packing {
		return
	}
	view := r.core.State().View()
	plan := packer.Choose(view, packConfig, w.now/1000)
	if plan == nil {
		return
	}
	r.packing = true
	r.packed++
	p := &packing{r: r, plan: plan, layout: packer.Lay(plan, view, r.packed)}
	p.read(view)
}

// read gets every source; on any trouble the pack is given up before it was begun.
func (p *packing) read(view *state.State) {
	s := p.r.n.w.store
	for i := range p.plan.Runs {
		for j := range p.plan.Runs[i].Ranges {
			g := p.plan.Runs[i].Ranges[j]
			n := len(p.parts)
			p.parts = append(p.parts, nil)
			p.left++
			s.call(false, func() logcore.Outcome {
				body, ok := s.objects[view.RangeKey(&g)]
				if !ok {
					return logcore.OutcomeNotFound
				}
				p.parts[n] = slices.Clone(body[g.Pos : g.Pos+g.Len])
				return logcore.OutcomeOK
			}, func(o logcore.Outcome) {
				p.r.deliver(func() { p.got(n, o) })
			})
		}
	}
}

func (p *packing) got(n int, o logcore.Outcome) {
	if o != logcore.OutcomeOK {
		p.parts[n] = nil
	}
	if p.left--; p.left > 0 {
		return
	}
	if slices.ContainsFunc(p.parts, func(b []byte) bool { return b == nil }) {
		p.r.packing = false
		return
	}
	prefix, err := record.EncodeObject(&p.layout.Head, nil, p.layout.Index, p.parts)
	if err != nil {
		p.r.n.w.fail("R8: encode a pack: %v", err)
		return
	}
	p.body = slices.Concat(append([][]byte{prefix}, p.parts...)...)
	p.step(packer.Next(packer.Built))
}

// step does what comes next.
func (p *packing) step(next packer.Step) {
	w := p.r.n.w
	switch next {
	case packer.Put:
		e := &logcore.Effect{Kind: logcore.EffPutSnapshot, Key: p.layout.Key(), Body: p.body, View: p.r.core.State()}
		w.check.request(p.r, e)
		w.store.call(true, func() logcore.Outcome { return w.store.put(e.Key, p.body) }, func(o logcore.Outcome) {
			p.r.deliver(func() {
				if o == logcore.OutcomeOK || o == logcore.OutcomeExists {
					p.step(packer.Next(packer.Stored))
					return
				}
				w.after(100*time.Millisecond, func() { p.r.deliver(func() { p.step(packer.Next(packer.NoVerdict)) }) })
			})
		})
	case packer.Install:
		p.install()
	case packer.Remove:
		w.store.call(true, func() logcore.Outcome { return w.store.remove(p.layout.Key()) }, func(logcore.Outcome) {})
		p.r.packing = false
	default:
		p.r.packing = false
	}
}

func (p *packing) install() {
	w := p.r.n.w
	o := &op{w: w, id: 1 << 60, rec: &state.Record{Kind: state.PackInstall, Pack: p.layout.Content()}}
	o.done = func(o *op) {
		switch o.outcome {
		case acked:
			w.stats.Packs++
			p.step(packer.Next(packer.Acked))
		case rejectedFor:
			p.step(packer.Next(packer.Rejected))
		default:
			p.step(packer.Next(packer.Unknown))
		}
	}
	p.r.submit(o)
	w.after(w.cfg.ClientTimeout, func() {
		if o.outcome == waiting {
			o.answer(unknown, 0)
		}
	})
}

// installed: R8, a pack is durable before the record that installs it is on the chain, and holds what it says.
func (c *checker) installed(h *record.Head, content *state.PackContent) {
	key := state.PackKey(0, h.Epoch, h.Nonce, content.ID)
	body, ok := c.w.store.objects[key]
	if !ok {
		c.w.fail("R8: %s is installed and not there", key)
		return
	}
	o, err := record.DecodeObject(body)
	if err != nil {
		c.w.fail("R8: %s: %v", key, err)
		return
	}
	for i := range o.Index {
		e := &o.Index[i]
		t := c.fold.Topic(e.Topic)
		if t == nil {
			continue
		}
		var r record.Reader
		for r.Reset(o.Batches(i), e.Base); r.Next(); {
			if rec := r.Record(); c.log[partKey{t.Name, e.Partition}][rec.Offset] != string(rec.Value) {
				c.w.fail("R8: %s holds %q at offset %d of %s/%d", key, rec.Value, rec.Offset, t.Name, e.Partition)
			}
		}
	}
}

// references says whether the newest committed state needs an object for an offset range.
func (c *checker) references(e *record.IndexEntry, src state.Source) bool {
	t := c.fold.Topic(e.Topic)
	if t == nil {
		return false
	}
	p := t.Partitions[e.Partition]
	for i := range p.Ranges {
		r := &p.Ranges[i]
		if r.Epoch == src.Epoch && r.Slot == src.Slot && r.Pack == src.Pack && r.End() > e.Base && r.Base < e.Base+int64(e.Span) {
			return true
		}
	}
	return false
}

// packDeleted: R7 for packs.
func (c *checker) packDeleted(key string, o *record.Object) {
	h := &o.Head
	for i := range o.Index {
		if c.references(&o.Index[i], state.Source{Epoch: h.Epoch, Slot: h.Slot, Pack: true}) {
			c.w.fail("I1: %s is deleted and holds offset %d", key, o.Index[i].Base)
		}
	}
	if _, known := c.fold.PackOf(state.PackID{Epoch: h.Epoch, ID: h.Slot}); h.Epoch >= c.fold.Pos.Epoch && !known {
		c.w.fail("R7: %s is deleted and may yet be installed", key)
	}
}
