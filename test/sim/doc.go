// Package sim runs the production log core (package core) under a seeded event queue: a virtual clock, a store that
// loses answers, answers late, refuses and conflicts, brokers that are killed, paused and started beside one another,
// producers and readers. Invariants (check.go, rules.go) are checked at every acknowledgement, at every request to the
// store and at the end. The same seed gives the same run.
//
// In seeds from Clocks on the brokers' clocks are wrong, and each run judges its own as a broker does (package logtime). In seeds
// from Losses on the bucket loses something.
//
// Seeds from Months on are a month long; each broker runs the engine of triggers too, of which package watch knows all.
package sim
