// Package kafka decides who is in a consumer group, in which generation, and with which part of the work: the membership
// of Kafka's classic group protocol (KIP-134, 229, 345, 394, 429, 559, 814) and of its consumer protocol (KIP-848, 1251; files
// heartbeat.go, consumers.go, assign.go) as a state machine. It has no I/O, clock,
// chance, goroutine or lock: time comes in as a number, and what goes out are answers and the moment of the next tick.
// Package coordinator runs it for the front ends.
//
// A classic group is Empty, PreparingRebalance (members are asked to join), CompletingRebalance (the leader makes the assignment) or
// Stable. JoinGroup and SyncGroup are parked until the group gets there; each is answered exactly once, by success,
// refusal or a deadline.
//
// # What outlives a broker
//
// Committed offsets are records of the log: they outlive restarts and takeovers. Membership is in memory and ends with the
// coordinator: after a restart every member joins again. That no committed offset is lost or rewound by this rests on four
// facts, for each of which there is a test:
//
//   - A member id of the classic protocol is never given twice. It ends in the epoch in which its coordinator leads, and a number
//     that this coordinator gives once. An epoch is led by one broker in one run (rules R1 and R5 of the log). A dynamic member may
//     keep its id over a restart if it joins the first generation of its group (file returning.go): no other member has got its
//     partitions before. A generation carries the epoch too, so it is not one of before. So a commit from before the restart is
//     refused with ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID: it cannot rewind what the group has committed since.
//   - A commit that a deposed coordinator still admits is fenced by the log: its object meets the successor's seal, so it is
//     never committed, and its sender hears that it is not known (rule R6). A successor leads only once the seal is
//     durable, and everything before the seal is in its state: the offsets it hands out hold every commit acknowledged before.
//   - Within a coordinator a generation ends only when the commits that it admitted are settled (Begin, End): the answers
//     that begin the next generation wait for them. So whoever is assigned a partition reads an offset that no commit of an
//     earlier generation changes any more, and no such commit lands behind one of a later generation. A static member's next
//     run within a generation is let in at once: the log has what it commits behind all that its last run has sent.
//   - Generations, and the epochs of groups of the consumer protocol, carry the log's epoch in their high bits, and a group that is
//     forgotten and comes again goes on above every forgotten one: they grow (up to 131,072 epochs). After 16,383 rebalances in an
//     epoch a classic group begins at the epoch's first generation again. In the consumer protocol, where clients make their ids, it is the group's epoch
//     in a commit that tells who has joined anew. There a partition is given on only once the commits that were admitted before
//     it was let go of are settled; nobody waits for later ones.
//
// What a restart costs is what Kafka promises: records read after the last commit are read again. What membership can not
// give is that a member stops: one that is slow, or talks to a deposed coordinator, goes on with what it was assigned
// until it asks. Its commits are refused.
package group
