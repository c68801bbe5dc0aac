// Package delivery delivers the firings of triggers. It asks the engine for due firings, posts them
// to webhooks or appends them to topics or queues, and reports the outcome of each attempt. The engine keeps
// the queue in the log, so all state here can be lost.
//
//	engine.Due ──► dispatch.go  the loop: triggers in turn, round-robin
//	                   │
//	               queue.go     per trigger: limits, backoff
//	               lines.go     its firings read ahead, in order for each entity
//	               pace.go      how many messages the receiver gets at once
//	                   │
//	               attempt.go   one delivery: events, rules, attempt ──► engine.Report
//	                   │
//	               send.go      webhook, topic or queue
//
// The limits per trigger keep one receiver from delaying the deliveries of other triggers. Messages of
// an entity are sent one after the other.
package delivery
