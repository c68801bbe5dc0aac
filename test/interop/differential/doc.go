// Package differential sends the same random requests to a real Kafka and to a Seb broker and compares the answers, field by
// field. What differs must be in the table of wanted differences (differences_test.go), with the reason; docs/reference/kafka.md lists it.
//
// A seed stands for one sequence of steps. The steps are made from what Kafka's answers say is there, so that most of them
// meet something: topics, offsets, producers, groups. Each step is one request, in a version that both brokers and the codec
// speak, on one of a few connections. What the two name differently (ids of topics, producers and members) is replaced by
// names before the comparison (side_test.go); answers are compared as a list of paths with values (flatten_test.go). A request that
// neither broker answers at once, as a member's that waits for others, is left open and compared when its answer comes.
//
// Kafka is eventually consistent with its own controller: after a change the run waits until both brokers show it, and a
// request that only reads is asked again for a while before a difference counts.
package differential
