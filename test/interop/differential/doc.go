// Package differential sends the same random requests to a real Kafka and to a Seb broker and
// compares the answers field by field. Every difference must be in the table of wanted differences
// (differences_test.go) with its reason; docs/reference/kafka.md lists the table.
//
// A seed determines a sequence of steps. The generator uses Kafka's answers, so that most steps
// refer to existing topics, offsets, producers and groups. Each step is one request on one of a few
// connections, in a version that both brokers and the codec support.
//
//	step --> Kafka --> answer --> symbols for ids (side_test.go) --> paths with values (flatten_test.go) --+
//	     --> Seb   --> answer --> symbols for ids                --> paths with values -------------------+--> compare
//
// The brokers choose different ids of topics, producers and members, so the comparison replaces
// them by symbols. If neither broker answers a request immediately, for example that of a member
// that waits for others, the request stays open and is compared later.
//
// Kafka is eventually consistent with its own controller. After a change the run waits until both
// brokers return it. A request that only reads is repeated for a while before a difference counts.
//
// Kafka has its StandardAuthorizer. TestDifferential sends requests as a user to whom no rule
// applies. TestRights creates the same user with a password on both sides, changes its rules, and
// sends most requests as this user.
package differential
