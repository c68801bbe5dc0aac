// Package sim runs the production log core (package core) in an event queue that a seed determines.
// It has a virtual clock, and a store that loses and delays answers, refuses and conflicts. Brokers
// are killed, paused and started concurrently; producers and readers use them. It checks invariants
// (check.go, rules.go) at every acknowledgement, at every request to the store and at the end. The
// same seed gives the same run.
//
// In seeds from Clocks on the brokers' clocks are wrong, and each run checks its own as a broker
// does (log.Clock). In seeds from Losses on the bucket loses objects.
//
// In seeds from Clusters on each broker decides by the cluster.Core of production whether it leads. They
// have links on a network with cuts in one or both directions, are stopped, and hand over. Their times
// span three orders of magnitude.
//
// Seeds from Months on take a month. Each broker also runs the trigger engine; see package watch. In
// seeds from Riemann on Riemann clients send events to the front end of production. Clients send atomic
// requests in a third of the seeds, in a sixth of those of clusters, and in none of months. Transactional producers
// are in half of the seeds, in a third of those of clusters, and in none of months.
package sim
