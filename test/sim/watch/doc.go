// Package watch adds triggers to the simulator. Each broker has the production trigger engine
// (package rules) with a real file, on its own view of the log. Clients post events and change
// triggers, a receiver gets deliveries, and trigger databases are lost. Firings are compared with
// the definitions of expressions (package reference) when they are recorded, when they are
// delivered, and at the end.
//
//   - watch.go: configuration and state of a run
//   - broker.go, call.go, log.go: an engine on a simulated broker, which works in turns
//   - client.go: clients that post events and change triggers
//   - recreate.go: the topic of events is quiet, is deleted, and is recreated
//   - deliver.go: deliveries and the receiver
//   - truth.go, evaluation.go: firings by definition
//   - end.go: what must hold at the end
package watch
