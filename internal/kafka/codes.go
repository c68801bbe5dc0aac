package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/record"
)

// none is the code of what went well. The others are kerr's. UNKNOWN_SERVER_ERROR (-1) is used nowhere: the Java client
// writes records twice when a produce is answered so (KAFKA-14034), and nobody can tell what to do about it.
const none int16 = 0

// fault is a line of a table from errors to codes; the first that matches counts.
type fault struct {
	err  error
	code *kerr.Error
}

// appendFaults is what an append may be answered with, and all of it but none: a client decides by the code whether it has
// to send again, and may not learn that it need not when it does. What is rejected and may be tried again is
// NOT_ENOUGH_REPLICAS, which every client takes for "not appended, try again"; what may be there is REQUEST_TIMED_OUT, which an
// idempotent producer resolves by sending the same again.
var appendFaults = []fault{
	{broker.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{broker.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{broker.ErrSequenceGap, kerr.OutOfOrderSequenceNumber},
	{broker.ErrProducerFenced, kerr.InvalidProducerEpoch},
	{broker.ErrFenced, kerr.NotLeaderForPartition},
	{broker.ErrNotLeader, kerr.NotLeaderForPartition},
	{broker.ErrReadOnly, kerr.NotLeaderForPartition},
	{broker.ErrClosed, kerr.NotLeaderForPartition},
	{broker.ErrTooLarge, kerr.MessageTooLarge},
	{record.ErrTooLarge, kerr.MessageTooLarge},
	{broker.ErrOverBudget, kerr.NotEnoughReplicas}, // and ErrStateFull that will pass
	{broker.ErrStateFull, kerr.PolicyViolation},
	{budget.ErrOver, kerr.NotEnoughReplicas},
	{broker.ErrStoreUnavailable, kerr.NotEnoughReplicas},
	{broker.ErrNotSent, kerr.NotEnoughReplicas},
	{broker.ErrCorrupt, kerr.KafkaStorageError},
	{broker.ErrNewer, kerr.KafkaStorageError},
	{broker.ErrInvalid, kerr.InvalidRecord},
}

// appendCode is the code of an append's error. One that is not known may stand for anything, so its outcome is unknown.
func appendCode(err error) int16 {
	if err == nil {
		return none
	}
	var batch *record.InvalidError
	if errors.As(err, &batch) && !errors.Is(err, record.ErrTooLarge) {
		return batchCode(batch)
	}
	return codeIn(appendFaults, err, kerr.RequestTimedOut.Code)
}

// batchCode is the code of what is wrong with a batch.
func batchCode(e *record.InvalidError) int16 {
	switch e.Field {
	case record.FieldCRC, record.FieldLength:
		return kerr.CorruptMessage.Code
	case record.FieldTimestamp:
		return kerr.InvalidTimestamp.Code
	case record.FieldMagic:
		return kerr.UnsupportedForMessageFormat.Code
	case record.FieldCompression:
		if e.Err == nil {
			return kerr.UnsupportedCompressionType.Code
		}
		return kerr.CorruptMessage.Code
	}
	return kerr.InvalidRecord.Code
}

// readFaults is what reading, and asking for offsets, may be answered with.
var readFaults = []fault{
	{broker.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{broker.ErrBelowStart, kerr.OffsetOutOfRange},
	{broker.ErrBeyondEnd, kerr.OffsetOutOfRange},
	{broker.ErrFenced, kerr.NotLeaderForPartition},
	{broker.ErrNotLeader, kerr.NotLeaderForPartition},
	{broker.ErrReadOnly, kerr.NotLeaderForPartition},
	{broker.ErrClosed, kerr.NotLeaderForPartition},
	{broker.ErrCorrupt, kerr.KafkaStorageError},
	{broker.ErrNewer, kerr.KafkaStorageError},
	{record.ErrCorrupt, kerr.KafkaStorageError},
	{record.ErrTooLarge, kerr.KafkaStorageError},
	{broker.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{broker.ErrInvalid, kerr.InvalidRequest},
	{context.Canceled, kerr.NotLeaderForPartition}, // the end of the server
}

// readCode is the code of an error of reading; what is not known may pass.
func readCode(err error) int16 { return codeIn(readFaults, err, kerr.RequestTimedOut.Code) }

// topicFaults is what changing topics may be answered with.
var topicFaults = []fault{
	{broker.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrTopicExists, kerr.TopicAlreadyExists},
	{broker.ErrTopicInUse, kerr.TopicDeletionDisabled},
	{broker.ErrFenced, kerr.NotController},
	{broker.ErrNotLeader, kerr.NotController},
	{broker.ErrReadOnly, kerr.NotController},
	{broker.ErrClosed, kerr.NotController},
	{broker.ErrCorrupt, kerr.KafkaStorageError},
	{broker.ErrNewer, kerr.KafkaStorageError},
	{broker.ErrStateFull, kerr.PolicyViolation},
	{broker.ErrOverBudget, kerr.ThrottlingQuotaExceeded},
}

// topicCode is the code of an error of changing a topic; what is not known may have happened or not.
func topicCode(err error) int16 {
	var invalid *broker.InvalidError
	if errors.As(err, &invalid) {
		switch invalid.Field {
		case "topic-name":
			return kerr.InvalidTopicException.Code
		case "partitions":
			return kerr.InvalidPartitions.Code
		case "settings":
			return kerr.InvalidConfig.Code
		}
		return kerr.InvalidRequest.Code
	}
	return codeIn(topicFaults, err, kerr.RequestTimedOut.Code)
}

// groupFaults is what changing and asking for a group's offsets may be answered with. What is not here is
// COORDINATOR_NOT_AVAILABLE, after which clients look for the coordinator and try again.
var groupFaults = []fault{
	{broker.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownGroup, kerr.GroupIDNotFound},
	{broker.ErrGroupActive, kerr.NonEmptyGroup},
	{broker.ErrFull, kerr.InvalidCommitOffsetSize}, // trying again does not help
	{broker.ErrStateFull, kerr.InvalidCommitOffsetSize},
	{broker.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{broker.ErrNotSent, kerr.RequestTimedOut},
	{broker.ErrFenced, kerr.NotCoordinator},
	{broker.ErrNotLeader, kerr.NotCoordinator},
	{broker.ErrReadOnly, kerr.NotCoordinator},
	{broker.ErrClosed, kerr.NotCoordinator},
	{context.Canceled, kerr.NotCoordinator}, // the end of the server, or nobody hears it
}

// groupCode is the code of an error of the broker about a group.
func groupCode(err error) int16 {
	var invalid *broker.InvalidError
	if errors.As(err, &invalid) {
		switch invalid.Field {
		case "group":
			return kerr.InvalidGroupID.Code
		case "metadata":
			return kerr.OffsetMetadataTooLarge.Code
		}
		return kerr.InvalidRequest.Code
	}
	return codeIn(groupFaults, err, kerr.CoordinatorNotAvailable.Code)
}

// memberCodes are the codes of what the core of groups and the coordinator answer.
var memberCodes = [...]*kerr.Error{
	group.RequestTimedOut:           kerr.RequestTimedOut,
	group.CoordinatorLoadInProgress: kerr.CoordinatorLoadInProgress,
	group.CoordinatorNotAvailable:   kerr.CoordinatorNotAvailable,
	group.NotCoordinator:            kerr.NotCoordinator,
	group.IllegalGeneration:         kerr.IllegalGeneration,
	group.InconsistentGroupProtocol: kerr.InconsistentGroupProtocol,
	group.InvalidGroupID:            kerr.InvalidGroupID,
	group.UnknownMemberID:           kerr.UnknownMemberID,
	group.InvalidSessionTimeout:     kerr.InvalidSessionTimeout,
	group.RebalanceInProgress:       kerr.RebalanceInProgress,
	group.InvalidRequest:            kerr.InvalidRequest,
	group.NonEmptyGroup:             kerr.NonEmptyGroup,
	group.GroupIDNotFound:           kerr.GroupIDNotFound,
	group.MemberIDRequired:          kerr.MemberIDRequired,
	group.GroupMaxSizeReached:       kerr.GroupMaxSizeReached,
	group.FencedInstanceID:          kerr.FencedInstanceID,
	group.FencedMemberEpoch:         kerr.FencedMemberEpoch,
	group.UnreleasedInstanceID:      kerr.UnreleasedInstanceID,
	group.UnsupportedAssignor:       kerr.UnsupportedAssignor,
	group.StaleMemberEpoch:          kerr.StaleMemberEpoch,
	group.InvalidRegularExpression:  kerr.InvalidRegularExpression,
}

// memberCode is the code of an answer of the coordinator.
func memberCode(c group.Code) int16 {
	if c == group.OK {
		return none
	}
	return memberCodes[c].Code
}

func codeIn(table []fault, err error, otherwise int16) int16 {
	if err == nil {
		return none
	}
	for _, f := range table {
		if errors.Is(err, f.err) {
			return f.code.Code
		}
	}
	return otherwise
}

// text is an error for people in an answer; nil of none.
func text(err error) *string {
	if err == nil {
		return nil
	}
	const longest = 500
	s := err.Error()
	if len(s) > longest {
		s = s[:longest]
	}
	return &s
}
