// Package delivery delivers what triggers fire: it asks the engine what is due, posts it to webhooks or appends it to topics,
// and reports what has come of each attempt. The engine keeps the queue in the log; what is kept here can be lost.
//
//   - dispatch.go: the loop that says what is delivered next
//   - lane.go: what is under way of each trigger, so that none holds up another
//   - flight.go: one delivery, from the events to the report
//   - send.go: the ways to a receiver
package delivery
