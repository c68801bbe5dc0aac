// Package access decides what clients may do. A principal is a client with its own secrets, rules
// allow or deny it operations on resources, and a quota limits its bytes and requests. A Table holds
// the principals, rules and quotas of a log; it is part of the replayed state.
//
// The package is pure: it has no clock, randomness, locks or I/O. Package auth checks secrets and
// sessions with it. Rules follow Kafka's access control lists: names of operations, implied
// operations, and denials that win over permissions.
package access
