// Package trigger is the engine that watches events for what triggers say. It stands on three kinds of topics: triggers
// (definitions), topics of events, and firings (what has fired, and what became of it). A follower reads them; an
// Engine answers what others ask: to change a trigger, to know what has fired and what an entity waits for, and to tell what became of a
// delivery. All changes are records, and are told as done when the fold has read them back.
//
// The fold works out what fires, as a pure function of the log: of the definitions, of the events in the order of their
// partitions, and of the log's time, which is the append time of the newest slot. No clock decides anything but when to
// look. It keeps the result in a file (package store) that may be lost: made anew, it has the same firings with the same ids.
//
// A firing counts once its record was read back from the topic of firings; only the leader writes there, and of several
// records of one id the first counts. So neither a crash, nor a lost file, nor another broker's taking over makes a second
// one.
//
//   - follower.go, publish.go: what others see of it
//   - worker.go, follow.go: one goroutine reads the log and writes the file
//   - definitions.go, events.go, deadlines.go, firings.go: what it does with what it reads
//   - record.go: what a leader appends
package trigger
