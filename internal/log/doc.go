// Package log runs the log against a real store: it is the shell of package core.
//
// One goroutine, the owner, holds the core. It takes submits and the answers of store requests from an inbox, asks the
// batcher when waiting appends become an object, steps the core and performs its effects: requests run in a bounded set
// of goroutines, each with a timeout of its own, and their answers come back as events that carry the OpID of the
// request. The owner itself never waits for I/O.
//
// What callers hear is one of three things (rule R4): acknowledged, rejected or unknown (state.ErrOutcomeUnknown).
// An acknowledgement is constructed in one function, ack, which only the handling of a committed slot calls.
package log
