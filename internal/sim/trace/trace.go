// Package trace names in the trace of a run what brokers ask the store for.
package trace

import (
	"fmt"

	"github.com/sebbroker/seb/internal/logcore"
)

var requests = map[logcore.EffectKind]string{
	logcore.EffGetMeta: "GET", logcore.EffPutMeta: "PUT", logcore.EffList: "LIST", logcore.EffGetSnapshot: "GET",
	logcore.EffGetSlot: "GET", logcore.EffPutSeal: "PUT seal", logcore.EffPutData: "PUT data", logcore.EffPutSnapshot: "PUT",
}

var outcomes = map[logcore.Outcome]string{
	logcore.OutcomeOK: "ok", logcore.OutcomeExists: "exists", logcore.OutcomeNotFound: "not found",
	logcore.OutcomeNoVerdict: "no verdict", logcore.OutcomeRefused: "refused", logcore.OutcomeCorrupt: "corrupt",
	logcore.OutcomeConflict: "conflict",
}

// Request names a request: its verb and its key or prefix.
func Request(e *logcore.Effect) string {
	name := e.Key
	switch e.Kind {
	case logcore.EffList:
		name = e.Prefix
	case logcore.EffPutData:
		name = e.Frozen.Key
	case logcore.EffGetMeta:
		name = logcore.MetaKey
	}
	return fmt.Sprintf("%s %s", requests[e.Kind], name)
}

// Outcome names the answer to a request.
func Outcome(o logcore.Outcome) string { return outcomes[o] }
