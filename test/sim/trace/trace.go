// Package trace names in the trace of a run what brokers ask the store for.
package trace

import (
	"fmt"

	"github.com/sebbroker/seb/internal/log/core"
)

var requests = map[core.EffectKind]string{
	core.EffGetMeta: "GET", core.EffPutMeta: "PUT", core.EffList: "LIST", core.EffGetSnapshot: "GET",
	core.EffGetSlot: "GET", core.EffPutSeal: "PUT seal", core.EffPutData: "PUT data", core.EffPutSnapshot: "PUT",
}

var outcomes = map[core.Outcome]string{
	core.OutcomeOK: "ok", core.OutcomeExists: "exists", core.OutcomeNotFound: "not found",
	core.OutcomeNoVerdict: "no verdict", core.OutcomeRefused: "refused", core.OutcomeCorrupt: "corrupt",
	core.OutcomeConflict: "conflict",
}

// Request names a request: its verb and its key or prefix.
func Request(e *core.Effect) string {
	name := e.Key
	switch e.Kind {
	case core.EffList:
		name = e.Prefix
	case core.EffPutData:
		name = e.Frozen.Key
	case core.EffGetMeta:
		name = core.MetaKey
	}
	return fmt.Sprintf("%s %s", requests[e.Kind], name)
}

// Outcome names the answer to a request.
func Outcome(o core.Outcome) string { return outcomes[o] }
