package client

import "github.com/sebbroker/seb/api"

// The types that the wire has: package api says what their members mean.
type (
	// Topic is a topic as committed.
	Topic = api.Topic
	// Partition is one partition of a topic: offsets [Start, Next) are there.
	Partition = api.Partition
	// Group is what a consumer group has committed.
	Group = api.Group
	// GroupOffset is a group's offset in one partition of a topic.
	GroupOffset = api.GroupOffset
	// OffsetResult is what became of one OffsetCommit.
	OffsetResult = api.OffsetResult
	// Trigger is a trigger as the broker follows it.
	Trigger = api.Trigger
	// StoredTrigger is what came of PutTrigger.
	StoredTrigger = api.TriggerStored
	// HistoryStart is the first offset of a partition that is there.
	HistoryStart = api.HistoryStart
	// Firing is a firing and what became of it.
	Firing = api.Firing
	// WitnessEvent is an event because of which something has fired.
	WitnessEvent = api.WitnessEvent
	// Explanation is what a trigger knows of an entity.
	Explanation = api.Explanation
	// DryRun is what a trigger would have done had it always been there.
	DryRun = api.DryRun
	// Sample is a firing that would have been.
	Sample = api.Sample
	// LogTime is the time of the broker's log.
	LogTime = api.LogTime
	// Upgrade is the format level of the broker's bucket.
	Upgrade = api.Upgrade
	// Health is the state of a broker that is ready.
	Health = api.Health
)
