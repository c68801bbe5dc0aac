package model

func in(mode Mode, faults ...string) []Config { return []Config{{Mode: mode, Faults: join(faults)}} }

func directed(name string) []Config { return []Config{{Schedule: name}} }

func join(faults []string) string {
	s := ""
	for i, f := range faults {
		if i > 0 {
			s += ","
		}
		s += f
	}
	return s
}

// All are the rules, in the order of the design.
var All = []Info{
	{Relist, "H2", "relist", "A leader at the slow pace LISTs registrations, and stops waiting for runs that deleted theirs.", in(Calm, "leave")},
	{KeepRegistered, "H2", "keep-registered", "A run that has lost a link for half of the fast time looks at its own registration once, and puts it again.", in(Calm, "unregister", "cut", "island")},
	{Join, "H3", "join", "A joining run stands at once if an earlier run of its folder led, or if all peers are heard and claim nothing; otherwise it waits as in H4 (c).", []Config{{Mode: Calm, Faults: "pause,power,restart"}, {Mode: Calm, Brokers: 2}}},
	{Fresh, "H3", "fresh-claim", "A beat that is older than its sender's SEAL does not show that the sender claims nothing.", in(Calm)},
	{Life, "H4 (c)", "sign-of-life", "The newest slot of the epoch is older than twice the time between alive slots, and the look begins after that.", in(Calm)},
	{Look, "H4 (c)", "look", "Before its SEAL a candidate reads the next slot, the names of the snapshots and the proof.", []Config{{Mode: Sleepy, Bugs: 1 << FeedEarly}}},
	{Newest, "H4 (c)", "newest-snapshot", "The look LISTs the snapshots too; if the newest is not on the path, the candidate loads it instead of sealing.", in(Sleepy)},
	{Claim, "H4", "claim", "A run that is heard, and neither leads nor stands, counts as silent. A run whose own SEAL is the newest stands.", []Config{{Mode: Sleepy}, {Mode: Calm, Bugs: 1 << SealThenStop}}},
	{Alive, "H5", "alive-slots", "A leader that a registered run may not see commits empty slots.", in(Calm)},
	{Promise, "H5", "promise", "Each slot says when the next one comes. A slower pace is announced first.", in(Calm, "cut", "island")},
	{Proof, "H6", "proof", "Four slots of one epoch, or the first slots of one that has DATA, must be in the bucket; the last has the checksum that the state names.", []Config{{Mode: Sleepy, Bugs: 1 << FeedEarly}}},
	{Strict, "H6", "strict-path", "A position in a forgotten epoch is not on the path.", directed("second-seal-after-it")},
	{OneEpoch, "H8", "one-epoch", "A candidate that loses is a standby of the next epoch.", in(Calm)},
	{StepDown, "H11", "step-down", "A leader that hears of a higher epoch stops at once.", in(Calm)},
	{Doubt, "H12", "doubt", "A leader in doubt does not answer read=latest.", in(Calm)},
	{DoubtAny, "H12", "doubt-any-link", "A leader is in doubt if the link to any registered run is old: no new beat, or no echo.", in(Calm, "offline", "cut")},
	{LookAge, "H12", "look-age", "The age of a look counts from its request, and counts pauses.", in(Calm)},
	{WallGap, "H12", "wall-gap", "A pause is the larger of the monotonic and the wall time.", in(Calm, "suspend")},
	{YieldStore, "H13", "yield-store", "A leader whose store does not answer hands over.", in(Calm, "store")},
	{YieldTerm, "H13", "yield-term", "A leader hands over at SIGTERM.", in(Calm, "term")},
	{EndMark, "H13", "end-mark", "The last slot of a leader that ends unseen says so. A candidate that finds it stands at once.", directed("end-of-an-unseen-leader")},
	{Undrained, "H13", "undrained", "For its store's sake a leader hands over with slots in flight, and stops leading.", in(Calm, "store")},
	{EmptyFirst, "H13", "empty-first", "After an abort an empty slot precedes the parked calls.", directed("seal-after-abort")},
	{Deposed, "H14", "deposed-follows", "A deposed leader follows.", in(Calm, "pause")},
	{NeverWaits, "H15", "feed-never-waits", "The feed does not limit the leader.", in(Calm)},
	{Committed, "H16", "feed-committed", "Only committed slots are fed.", in(Calm)},
	{Collected, "H16", "feed-gap", "A follower whose missing slot was deleted loads the newest snapshot.", in(Calm)},
	{OneOwner, "H16", "one-owner", "One task at a time changes the state.", in(Calm, "term", "store")},
	{ForwardOnce, "H17", "forward-once", "A call is forwarded again only if it did not begin.", in(Sleepy)},
	{MoveOnce, "H17", "move-once", "An abort moves parked calls; it does not copy them.", in(Sleepy)},
	{Gone, "links", "gone", "A run is gone after goodbye, or after it ended a connection and refused two.", in(Calm, "reject", "cut")},
	{Echo, "links", "echo", "A link is up if beats pass both ways.", in(Calm, "oneway")},
	{OwnerBeats, "links", "owner-beats", "The loop that owns the log sends the beats.", in(Calm, "hang")},
	{ListAfterSeal, "R5 (4)", "list-after-seal", "The LIST begins after the SEAL is durable.", directed("seal-in-collected-slot")},
	{Validate, "R5 (4)", "validate", "A candidate leads if the newest snapshot is on its path.", append(directed("seal-in-collected-slot"), Config{Mode: Sleepy})},
	{Local, "H20", "unreachable", "A broker that no machine reaches stands only if no other has sealed since its own SEAL.", in(Loopback)},
}
