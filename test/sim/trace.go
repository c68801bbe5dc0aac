package sim

import (
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/test/sim/trace"
)

// traceRequest adds a line to the trace when a request is sent, and returns what adds one for its answer.
func (r *run) traceRequest(e *core.Effect) func(core.Outcome) {
	w := r.n.w
	if w.trace == nil {
		return func(core.Outcome) {}
	}
	what := trace.Request(e)
	w.logf("node %d: %s (attempt %d)", r.n.id, what, e.Attempt)
	return func(o core.Outcome) { w.logf("node %d: %s: %s", r.n.id, what, trace.Outcome(o)) }
}
