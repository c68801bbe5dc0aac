package sim

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
)

// cut is which messages between a broker and the store are lost. Clients still reach the broker.
type cut uint8

const (
	cutRequests cut = 1 << iota
	cutAnswers
)

// cutMean is the mean duration of a cut: some exceed a request's timeout, few the minute of R11.
const cutMean = 6 * time.Second

// cuts disconnects a broker from the store at random times, in one or both directions.
func (w *simulation) cuts(n *node) {
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
		w.logf("node %d disconnected from the store: %d", n.id, n.cut)
		w.after(w.around(w.cutRand, w.slowRetry(cutMean)), func() {
			n.cut = 0
			w.logf("node %d reconnected to the store", n.id)
			w.cuts(n)
		})
	})
}

// receiving wraps the handler of a store's answer. If the broker does not receive the answer, the
// request times out.
func (n *node) receiving(then func(core.Outcome)) func(core.Outcome) {
	return func(o core.Outcome) {
		if n.cut&cutAnswers == 0 {
			then(o)
			return
		}
		n.w.after(n.w.upTo(n.w.cutRand, n.w.units(requestTimeout)), func() { then(core.OutcomeNoVerdict) })
	}
}
