// Package coordinator runs consumer groups on a broker. It gives the membership core (package
// group) a clock, parks waiting requests without a goroutine for each, and commits offsets through
// the broker's log. All front ends share the same groups.
//
// A commit is admitted and queued in one step under the lock, so the log orders a group's commits
// as they were admitted. A goroutine waits for the outcome independently of the request: the core
// learns that the commit is settled, whether or not the client still waits.
//
// A group with members refuses commits of other clients, except those that name the expected offset
// (broker.OffsetCommit.Expected). Such a commit overwrites only an offset that its client has seen,
// and the log decides its order.
package coordinator
