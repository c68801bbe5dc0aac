package sim

import (
	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// send performs a request to the store and delivers its answer.
func (r *run) send(e logcore.Effect) {
	w := r.n.w
	w.check.request(r, &e)
	ev := &logcore.Event{Op: e.Op}
	r.rules.open++
	issued := w.check.tick()
	answered := r.traceRequest(&e)
	arrives := r.asksTime()
	done := func(o logcore.Outcome) {
		ev.Outcome = o
		r.rules.open--
		dated := arrives(o)
		r.deliver(func() {
			dated()
			answered(o)
			if e.Kind == logcore.EffList && o == logcore.OutcomeOK {
				r.rules.listed(&e, ev.Names, issued)
			}
			r.step(ev)
		})
	}
	s := w.store
	switch e.Kind {
	case logcore.EffPutMeta, logcore.EffPutSeal, logcore.EffPutData, logcore.EffPutSnapshot:
		ev.Kind, ev.Size = logcore.EvPut, int64(len(e.Body))
		s.call(r.n, true, func() logcore.Outcome { return s.put(e.Key, e.Body) }, done)
	case logcore.EffList:
		ev.Kind = logcore.EvList
		s.call(r.n, false, func() logcore.Outcome {
			ev.Names = s.list(e.Prefix, e.After, e.Max)
			return logcore.OutcomeOK
		}, func(o logcore.Outcome) {
			if o == logcore.OutcomeCorrupt {
				o = logcore.OutcomeNoVerdict
			}
			done(o)
		})
	default:
		s.call(r.n, false, func() logcore.Outcome {
			b, ok := s.objects[e.Key]
			if !ok {
				return logcore.OutcomeNotFound
			}
			return decode(e.Kind, b, ev)
		}, func(o logcore.Outcome) {
			ev.Kind = answerKind(e.Kind)
			done(o)
		})
	}
}

func answerKind(k logcore.EffectKind) logcore.EventKind {
	switch k {
	case logcore.EffGetMeta:
		return logcore.EvMeta
	case logcore.EffGetSnapshot:
		return logcore.EvSnapshot
	}
	return logcore.EvSlot
}

// decode reads an object into the event that answers a GET of it.
func decode(k logcore.EffectKind, b []byte, ev *logcore.Event) logcore.Outcome {
	switch k {
	case logcore.EffGetMeta:
		ev.Cluster, _, ev.Err = logcore.DecodeMeta(b)
	case logcore.EffGetSnapshot:
		ev.State, ev.Err = state.DecodeMessage(b)
	case logcore.EffGetSlot:
		ev.Slot, ev.Err = decodeSlot(b)
	}
	if ev.Err != nil {
		return logcore.OutcomeCorrupt
	}
	return logcore.OutcomeOK
}

func decodeSlot(b []byte) (*logcore.Slot, error) {
	h, st, index, _, err := record.DecodeMeta(b)
	if err != nil {
		return nil, err
	}
	recs, err := state.DecodeRecords(st)
	if err != nil {
		return nil, err
	}
	return &logcore.Slot{Head: h, Records: recs, Index: index}, nil
}
