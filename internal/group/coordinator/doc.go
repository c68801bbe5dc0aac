// Package coordinator runs consumer groups on a broker: it gives the membership core (package kafka) a clock, parks the
// requests that wait without a goroutine each, and commits offsets through the broker's log, so that a group is the same one
// from every front end.
//
// A commit is admitted and queued in one step under the lock, so the log has a group's commits in the order in which they
// were admitted. What becomes of it is waited for beside the request: the core is told when it is settled, whether or not
// anybody still waits for the answer.
//
// A group either has members or is committed to by who is none. While it has members, others' commits are refused, but for
// those that name the offset that they expect (broker.OffsetCommit.Expected): such a one changes nothing that its sender has
// not seen, and the log decides its place.
package coordinator
