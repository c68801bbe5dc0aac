package sim

import (
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/core"
)

// traceRequest adds a line to the trace for a request, and returns a function that adds one for its
// answer.
func (r *run) traceRequest(e *core.Effect) func(core.Outcome) {
	w := r.n.w
	if w.trace == nil {
		return func(core.Outcome) {}
	}
	what := requestName(e)
	w.logf("node %d: %s (attempt %d)", r.n.id, what, e.Attempt)
	return func(o core.Outcome) { w.logf("node %d: %s: %s", r.n.id, what, outcomeNames[o]) }
}

var requestVerbs = map[core.EffectKind]string{
	core.EffGetMeta: "GET", core.EffPutMeta: "PUT", core.EffList: "LIST", core.EffGetSnapshot: "GET",
	core.EffGetSlot: "GET", core.EffPutSeal: "PUT seal", core.EffPutData: "PUT data", core.EffPutSnapshot: "PUT",
}

var outcomeNames = map[core.Outcome]string{
	core.OutcomeOK: "ok", core.OutcomeExists: "exists", core.OutcomeNotFound: "not found",
	core.OutcomeNoVerdict: "no verdict", core.OutcomeRefused: "refused", core.OutcomeCorrupt: "corrupt",
	core.OutcomeConflict: "conflict",
}

// requestName describes a request: its verb and its key or prefix.
func requestName(e *core.Effect) string {
	name := e.Key
	switch e.Kind {
	case core.EffList:
		name = e.Prefix
	case core.EffPutData:
		name = e.Frozen.Key
	case core.EffGetMeta:
		name = core.MetaKey
	}
	return fmt.Sprintf("%s %s", requestVerbs[e.Kind], name)
}
