// Package rules runs triggers: it reads events from the log and evaluates definitions. It uses
// three kinds of topics: definitions (triggers), events, and firings with their outcomes. A
// Follower reads them. An Engine serves the callers: it changes triggers, lists firings, explains
// the state of an entity, and records deliveries. Every change is a record, and a call returns once
// the follower has read that record back.
//
// Firings are a pure function of the log: of the definitions, of the events in the order of their
// partitions, and of log time, which is the append time of the newest slot. Clocks decide only when
// the engine polls. The result is in a file (package store) that may be lost: a rebuilt file has
// the same firings with the same IDs.
//
// A firing counts once its record was read back from the topic of firings. Only the leader writes
// there, and of several records of one ID the first counts. So no crash, lost file or takeover
// makes a second firing.
//
//   - follower.go, publish.go: what callers see
//   - worker.go, follow.go: one goroutine reads the log and writes the file
//   - definitions.go, events.go, deadlines.go, firings.go: applying records and deadlines
//   - record.go: appends of the leader
package rules
