// Package group is the membership of consumer groups: the members, the generation and each member's
// assignment. It implements Kafka's classic group protocol (KIP-134, 229, 345, 394, 429, 559, 814)
// and its consumer protocol (KIP-848, 1251; files heartbeat.go, consumers.go, assign.go) as a state
// machine. It has no I/O, clock, randomness, goroutine or lock: time is a parameter, and the
// results are answers and the time of the next tick. Package coordinator runs it for the front
// ends.
//
// A classic group has these states:
//
//	         join               all joined, or timeout            leader's SyncGroup
//	Empty ───────────► Preparing ──────────────────► Completing ────────────────────► Stable
//	  ▲                 │  ▲  ▲                           │                              │
//	  └─── all left ────┘  │  └ a member joins or leaves ─┘                              │
//	                       └──── a member joins or leaves ───────────────────────────────┘
//
// JoinGroup and SyncGroup are parked until the group reaches the next state. Each gets exactly one
// answer: success, refusal, or an error at its deadline.
//
// # Restarts
//
// Committed offsets are records of the log and survive restarts and takeovers. Membership is in
// memory and ends with the coordinator: after a restart every member joins again. Four facts ensure
// that this neither loses nor rewinds a committed offset. Each of them has a test.
//
//   - A member ID of the classic protocol is never issued twice. It ends in the coordinator's epoch
//     and a number that this coordinator issues once. One broker in one run leads an epoch (rules
//     R1 and R5 of the log). A dynamic member may keep its ID over a restart if it joins the first
//     generation of its group (file members.go), because no other member had its partitions
//     before. A generation carries the epoch too, so it differs from earlier ones. A commit from
//     before the restart therefore gets ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID, and cannot rewind
//     a newer commit.
//   - A commit that a deposed coordinator still admits is fenced by the log: its slot holds the
//     successor's seal, so it is never committed, and its client learns that the outcome is unknown
//     (rule R6). A successor leads only once the seal is durable and its state holds everything
//     before the seal: the offsets that it returns include every acknowledged commit.
//   - Within a coordinator a generation ends only when the commits that it admitted are settled
//     (Begin, End): the answers that start the next generation wait for them. So no commit of an
//     earlier generation can change an offset after a member has read it, and none is stored after
//     a commit of a later generation. The next run of a static member joins within a generation at
//     once, because the log orders its commits after those of its last run.
//   - Generations, and the epochs of groups of the consumer protocol, carry the log's epoch in
//     their high bits. A group that is removed and created again continues above every removed one,
//     so they grow (up to 131,072 epochs). After 16,383 rebalances in an epoch a classic group
//     starts at the epoch's first generation again. In the consumer protocol clients choose their
//     IDs, so the group's epoch in a commit identifies a member that joined again. There a
//     partition passes on once the commits admitted before its revocation are settled; later ones
//     are not waited for.
//
// The cost of a restart is the same as with Kafka: records read after the last commit are read
// again. Membership cannot make a member stop: one that is slow, or talks to a deposed coordinator,
// continues with its assignment until its next request. Its commits are refused. When it joins again,
// it must not bring partitions along that others have had in between (member.arrive).
package group
