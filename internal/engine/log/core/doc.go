// Package core decides: slots, epochs, outcomes, takeover, snapshots. It is a state machine without
// I/O, clock, randomness, goroutines or locks: Step takes an event and appends effects, and the
// same events give the same effects. Package log performs the effects against a real store; package
// sim performs them against a simulated one.
//
// The rules R1 to R12 of the log protocol (ARCHITECTURE.md) are kept here; each place that keeps
// one names it.
package core
