// Package watch adds triggers to the simulator: each broker has the production engine of triggers (package triggers) with a
// real file, on its own view of the log. Clients post events and change triggers, a receiver takes what is delivered, views
// are lost. What fires is compared with what expressions mean by definition (package reference), as it is recorded, as it is
// delivered, and at the end.
//
//   - watch.go: what is drawn for a world, and what it has
//   - broker.go, call.go, log.go: an engine on a simulated broker, which goes on in turns
//   - client.go: who posts events and changes triggers
//   - again.go: the topic of events is quiet, is deleted, and is created again
//   - deliver.go: what delivers, and the receiver
//   - truth.go, walk.go: what should fire, by definition
//   - end.go: what must hold when all is quiet
package watch
