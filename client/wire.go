package client

import "github.com/sebbroker/seb/api"

// Types of package api, which documents their members.
type (
	// Topic is the committed state of a topic.
	Topic = api.Topic
	// Partition is one partition of a topic. Offsets [Start, Next) can be read.
	Partition = api.Partition
	// PartitionOffset is the offset of a partition at a time.
	PartitionOffset = api.PartitionOffset
	// Queue is a queue with the numbers of its messages.
	Queue = api.Queue
	// OutgoingMessage is a message to send to a queue.
	OutgoingMessage = api.Message
	// MessageResult is the outcome for a message of a request.
	MessageResult = api.MessageResult
	// QueueMessage is a message of a queue.
	QueueMessage = api.QueueMessage
	// LeaseRequest asks for messages of a queue.
	LeaseRequest = api.LeaseRequest
	// Settlement says what became of a message that the caller has.
	Settlement = api.Settlement
	// RedriveRequest says which messages to move where.
	RedriveRequest = api.RedriveRequest
	// Redriven is what a request has moved.
	Redriven = api.Redriven
	// ScheduleSpec describes a schedule of a queue to make or replace.
	ScheduleSpec = api.ScheduleSpec
	// Schedule is a schedule of a queue.
	Schedule = api.Schedule
	// Group has the committed offsets of a consumer group.
	Group = api.Group
	// Cluster are the brokers of a bucket, as one of them sees them.
	Cluster = api.Cluster
	// ClusterMember is a run of a broker.
	ClusterMember = api.ClusterMember
	// Cost is what a bucket costs in a calendar month.
	Cost = api.Cost
	// PutBudget is the budget of commit objects.
	PutBudget = api.PutBudget
	// RequestCost has the requests of one kind.
	RequestCost = api.RequestCost
	// StorageCost is the price of the stored batches.
	StorageCost = api.StorageCost
	// Stats has figures of a broker over the last hours.
	Stats = api.Stats
	// Latency is how long acknowledgements and PUTs took.
	Latency = api.Latency
	// LatencyCurve is a distribution of durations.
	LatencyCurve = api.LatencyCurve
	// LatencyPoint is a percentile of a LatencyCurve.
	LatencyPoint = api.LatencyPoint
	// StatsSeries are the values of one figure.
	StatsSeries = api.StatsSeries
	// ScanProgress is what a read with a filter has looked at.
	ScanProgress = api.ScanProgress
	// Setting describes a setting of topics.
	Setting = api.Setting
	// GroupMember is a member of a consumer group.
	GroupMember = api.GroupMember
	// TopicPartitions are partitions of one topic.
	TopicPartitions = api.TopicPartitions
	// GroupOffset is a group's committed offset in one partition.
	GroupOffset = api.GroupOffset
	// OffsetResult is the outcome of one OffsetCommit.
	OffsetResult = api.OffsetResult
	// Trigger is the definition and the state of a trigger.
	Trigger = api.Trigger
	// TriggerFirings counts the firings of a trigger.
	TriggerFirings = api.TriggerFirings
	// StoredTrigger is the answer of PutTrigger.
	StoredTrigger = api.TriggerStored
	// HistoryStart is the start offset of a partition.
	HistoryStart = api.HistoryStart
	// Firing is a firing and the state of its delivery.
	Firing = api.Firing
	// MatchedEvent is an event that made an expression true.
	MatchedEvent = api.MatchedEvent
	// Stories are short histories that show what an expression means.
	Stories = api.Stories
	// Story is one of them.
	Story = api.Story
	// StoryEvent is an event of a Story.
	StoryEvent = api.StoryEvent
	// EventNames has the names of the events in a topic.
	EventNames = api.EventNames
	// RiemannIndex has the newest events of hosts and services.
	RiemannIndex = api.RiemannIndex
	// EventName is a name of events.
	EventName = api.EventName
	// EventProperty is a property of the data of events.
	EventProperty = api.EventProperty
	// Expression is a parsed expression.
	Expression = api.Expression
	// ExpressionWarning is a likely mistake in an expression.
	ExpressionWarning = api.ExpressionWarning
	// ExpressionSpan is the place of an operator or event in the text of an expression.
	ExpressionSpan = api.ExpressionSpan
	// Explanation is the state of a trigger for an entity.
	Explanation = api.Explanation
	// EntityTrigger is the state of a trigger for an entity.
	EntityTrigger = api.EntityTrigger
	// AwaitedEvent is an event that can still change the value of an expression.
	AwaitedEvent = api.AwaitedEvent
	// DryRun is the result of a dry run of a trigger.
	DryRun = api.DryRun
	// Estimate is an estimated number with a 95 % interval.
	Estimate = api.Estimate
	// DryRunProgress is how far a dry run is.
	DryRunProgress = api.DryRunProgress
	// Sample is a firing in the result of a dry run.
	Sample = api.Sample
	// Secrets is the state of the secrets of triggers.
	Secrets = api.Secrets
	// LogTime is the log time of the broker.
	LogTime = api.LogTime
	// Upgrade is the format level of the broker's bucket.
	Upgrade = api.Upgrade
	// Health is the state of a broker that answers.
	Health = api.Health
	// Status is what an operator looks at first.
	Status = api.Status
	// TokenSpec describes a new token.
	TokenSpec = api.TokenSpec
	// Scopes are common sets of rules.
	Scopes = api.Scopes
	// Rule allows or denies a principal an operation.
	Rule = api.Rule
	// Transaction is a transactional ID of Kafka clients, with its open transaction.
	Transaction = api.Transaction
	// TransactionPartition is a partition with records of an open transaction.
	TransactionPartition = api.TransactionPartition
	// Quota limits a principal.
	Quota = api.Quota
	// Token is a token without its secret.
	Token = api.Token
	// TokenSecret is one valid secret of a Token.
	TokenSecret = api.TokenSecret
	// CreatedToken is a token with its secret.
	CreatedToken = api.TokenCreated
	// SigningPair is what a token signs requests of the SQS API with.
	SigningPair = api.SigningPair
)
