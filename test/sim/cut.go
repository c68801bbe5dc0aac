package sim

import (
	"time"

	"github.com/sebbroker/seb/internal/log/core"
)

// cut is what does not get through between a broker and the store. Clients reach the broker all the same.
type cut uint8

const (
	cutRequests cut = 1 << iota
	cutAnswers
)

// cutMean is the mean time of a cut: some last longer than a request's patience, few longer than R11's minute.
const cutMean = 6 * time.Second

// cuts cuts a broker off from the store now and then, in one direction or in both.
func (w *world) cuts(n *node) {
	if w.cfg.CutEvery == 0 {
		return
	}
	w.after(w.around(w.cutRand, w.cfg.CutEvery), func() {
		if w.calm {
			return
		}
		n.cut = cut(1 + w.cutRand.IntN(3))
		w.stats.Cuts++
		w.stats.Faults++
		w.logf("node %d is cut off: %d", n.id, n.cut)
		w.after(w.around(w.cutRand, w.trouble(cutMean)), func() {
			n.cut = 0
			w.logf("node %d is cut off no more", n.id)
			w.cuts(n)
		})
	})
}

// hears wraps what an answer of the store does: who does not hear it gives up at some time.
func (n *node) hears(then func(core.Outcome)) func(core.Outcome) {
	return func(o core.Outcome) {
		if n.cut&cutAnswers == 0 {
			then(o)
			return
		}
		n.w.after(n.w.upTo(n.w.cutRand, requestTimeout), func() { then(core.OutcomeNoVerdict) })
	}
}
