package sim

import "github.com/sebbroker/seb/internal/logcore"

// requestNames say in a trace what a broker asks the store for.
var requestNames = map[logcore.EffectKind]string{
	logcore.EffGetMeta: "GET", logcore.EffPutMeta: "PUT", logcore.EffList: "LIST", logcore.EffGetSnapshot: "GET",
	logcore.EffGetSlot: "GET", logcore.EffPutSeal: "PUT seal", logcore.EffPutData: "PUT data", logcore.EffPutSnapshot: "PUT",
}

var outcomeNames = map[logcore.Outcome]string{
	logcore.OutcomeOK: "ok", logcore.OutcomeExists: "exists", logcore.OutcomeNotFound: "not found",
	logcore.OutcomeNoVerdict: "no verdict", logcore.OutcomeRefused: "refused", logcore.OutcomeCorrupt: "corrupt",
	logcore.OutcomeConflict: "conflict",
}

// traceRequest adds a line to the trace when a request is sent, and returns what adds one for its answer.
func (r *run) traceRequest(e *logcore.Effect) func(logcore.Outcome) {
	w := r.n.w
	if w.trace == nil {
		return func(logcore.Outcome) {}
	}
	verb, name := requestNames[e.Kind], e.Key
	switch e.Kind {
	case logcore.EffList:
		name = e.Prefix
	case logcore.EffPutData:
		name = e.Frozen.Key
	case logcore.EffGetMeta:
		name = logcore.MetaKey
	}
	w.logf("node %d: %s %s (attempt %d)", r.n.id, verb, name, e.Attempt)
	return func(o logcore.Outcome) { w.logf("node %d: %s %s: %s", r.n.id, verb, name, outcomeNames[o]) }
}
