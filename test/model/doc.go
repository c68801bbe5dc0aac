// Package model is a model of brokers on one bucket that take over from each other: registrations,
// links and beats, the feed, standing, hand-over, forwarded calls, over the log protocol with its
// snapshots and collection. It shares no code with the product. A seed determines a run.
//
//	sim.go       virtual time, coroutines that a fault can stop between any two requests
//	bucket.go    the store, and the observer's view of the chain
//	broker.go    machines and processes; links.go: beats, age of a link, doubt
//	follow.go    applying the log, and the proof that a followed state is durable
//	standby.go   when a broker stands; stand.go: how
//	leader.go    freezing, commits, empty slots that show life, the feed; handover.go, calls.go
//	faults.go    what goes wrong; observe.go: what must hold; directed.go: rare schedules
//	rulelist.go  the rules; RULES.md: what breaks without each
package model
