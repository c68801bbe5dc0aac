package sim

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// send performs a request to the store and delivers its answer.
func (r *run) send(e core.Effect) {
	w := r.n.w
	if e.Kind == core.EffScrub {
		r.scrub(&e)
		return
	}
	w.check.request(r, &e)
	ev := &core.Event{Op: e.Op}
	r.rules.open++
	issued := w.check.tick()
	answered, of := r.traceRequest(&e), r.core
	arrives := r.asksTime()
	done := func(o core.Outcome) {
		ev.Outcome = o
		r.rules.open--
		if r.core == of { // otherwise the log has canceled it
			r.member.answered(o)
		}
		dated := arrives(o)
		r.deliver(func() {
			dated()
			answered(o)
			if e.Kind == core.EffList && o == core.OutcomeOK {
				r.rules.listed(&e, ev.Names, issued)
			}
			r.step(ev)
		})
	}
	s := w.store
	switch e.Kind {
	case core.EffPutMeta, core.EffPutSeal, core.EffPutData, core.EffPutSnapshot:
		ev.Kind, ev.Size = core.EvPut, int64(len(e.Body))
		s.call(r.n, true, func() core.Outcome { return s.put(e.Key, e.Body) }, done)
	case core.EffList:
		ev.Kind = core.EvList
		s.call(r.n, false, func() core.Outcome {
			ev.Names = s.list(e.Prefix, e.After, e.Max)
			ev.Sizes = s.sizes(ev.Names)
			return core.OutcomeOK
		}, func(o core.Outcome) {
			if o == core.OutcomeCorrupt {
				o = core.OutcomeNoVerdict
			}
			done(o)
		})
	case core.EffOwn:
		ev.Kind = core.EvOwned
		s.call(r.n, true, func() core.Outcome { return s.own(e.Key) }, func(o core.Outcome) {
			ev.Journaled = o == core.OutcomeOK
			done(core.OutcomeOK)
		})
	default:
		s.call(r.n, false, func() core.Outcome {
			b, ok := r.n.get(&e)
			if !ok {
				return core.OutcomeNotFound
			}
			return decode(e.Kind, b, ev)
		}, func(o core.Outcome) {
			if ev.Kind = answerKind(e.Kind); o == core.OutcomeCorrupt && ev.Err == nil {
				if r.damaged[e.Op]++; r.damaged[e.Op] > damagedMost {
					o = core.OutcomeNoVerdict
				}
			}
			done(o)
		})
	}
}

// scrubMost bounds how long a comparison of the bucket with a state takes to begin.
const scrubMost = 10 * time.Second

// scrub compares the bucket with a state. Its pages take a while, in which objects are replaced and
// collected.
func (r *run) scrub(e *core.Effect) {
	w, of := r.n.w, r.core
	w.after(w.upTo(w.scrubRand, scrubMost), func() {
		need := core.NewNeeded(e.View, e.Key)
		for _, name := range w.store.list("s0", "", 0) {
			need.See(name)
		}
		ev := &core.Event{Kind: core.EvScrubbed, Op: e.Op, Outcome: core.OutcomeOK, Names: need.Missing(16)}
		w.after(w.upTo(w.scrubRand, w.cfg.Latency), func() {
			r.deliver(func() {
				if r.core == of { // otherwise the log has canceled it
					r.step(ev)
				}
			})
		})
	})
}

// dataDir is the data directory of a node.
type dataDir struct {
	folderless bool // there is none
	seen       *core.Seen
	copies     map[string][]byte // of slots, by name
}

func (d *dataDir) known() []core.Seen {
	if d.seen == nil {
		return nil
	}
	s := *d.seen
	s.Here = true
	return []core.Seen{s}
}

// get reads an object, from the copies in the data directory if that has it.
func (n *node) get(e *core.Effect) (body []byte, ok bool) {
	if body, ok = n.copies[e.Key]; ok && !e.Direct {
		return body, true
	}
	if body, ok = n.w.store.objects[e.Key]; ok && e.Kind == core.EffGetSlot {
		n.keep(e.Key, body)
	}
	return body, ok
}

// keep copies a slot into the data directory.
func (n *node) keep(key string, body []byte) {
	if !n.w.cfg.Cached || n.folderless {
		return
	}
	if n.copies == nil {
		n.copies = map[string][]byte{}
	}
	n.copies[key] = body
}

// damagedMost is how often a read of an object says in vain that it is damaged. A broker takes one that is
// damaged once more for a loss.
const damagedMost = 3

func answerKind(k core.EffectKind) core.EventKind {
	switch k {
	case core.EffGetMeta:
		return core.EvMeta
	case core.EffGetSnapshot:
		return core.EvSnapshot
	}
	return core.EvSlot
}

// decode reads an object into the event for the answer of its GET.
func decode(k core.EffectKind, b []byte, ev *core.Event) core.Outcome {
	switch k {
	case core.EffGetMeta:
		ev.Cluster, _, ev.Err = core.DecodeMeta(b)
	case core.EffGetSnapshot:
		ev.State, ev.Err = state.DecodeMessage(b)
	case core.EffGetSlot:
		ev.Slot, ev.Err = decodeSlot(b)
	}
	if ev.Err != nil {
		return core.OutcomeCorrupt
	}
	return core.OutcomeOK
}

func decodeSlot(b []byte) (*core.Slot, error) {
	h, st, index, _, err := record.DecodeMeta(b)
	if err != nil {
		return nil, err
	}
	recs, err := state.DecodeRecords(st)
	if err != nil {
		return nil, err
	}
	return &core.Slot{Head: h, Records: recs, Index: index}, nil
}
