// Package log runs the log on a store: it is the shell of package core.
//
//	callers --submits--> inbox --> owner: batcher, core --effects--> request goroutines --> store
//	                       ^                                              |
//	                       +------------------ events --------------------+
//
// One goroutine, the owner, holds the core. It takes submits and the answers of store requests from
// an inbox, asks the batcher when waiting appends become an object, steps the core and performs its
// effects. Requests run in a bounded set of goroutines, each with its own timeout. Their answers
// come back as events with the OpID of the request. The owner itself never waits for I/O.
//
// A caller gets one of three answers (rule R4): acknowledged, rejected or unknown
// (state.ErrOutcomeUnknown). Only the function ack makes an acknowledgement, and only the handling
// of a committed slot calls it.
//
// With Options.Standby a fenced log follows the new leader, and Stand makes it lead again (roles.go).
// Each attempt has a core of its own, whose requests end with it; callers and readers stay.
package log
