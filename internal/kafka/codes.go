package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/auth"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/record"
)

// none is the code for success. The others are those of kerr. UNKNOWN_SERVER_ERROR (-1) is never
// used: it tells a client nothing, and the Java client writes records twice after such a produce
// answer (KAFKA-14034).
const none int16 = 0

// fault is a row of a table from errors to codes; the first match counts.
type fault struct {
	err  error
	code *kerr.Error
}

// appendFaults lists every error of an append. The table is complete, because the code decides
// whether a client sends again, and the client must not stop while the records are missing. A
// refusal that may pass is NOT_ENOUGH_REPLICAS, which every client treats as "not appended, retry".
// An unknown outcome is REQUEST_TIMED_OUT, after which an idempotent producer sends the same batch
// again.
var appendFaults = []fault{
	{broker.ErrUnauthorized, kerr.TopicAuthorizationFailed},
	{broker.ErrAuditTopic, kerr.TopicAuthorizationFailed},
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
	{broker.ErrOverBudget, kerr.NotEnoughReplicas}, // includes a temporary ErrStateFull
	{broker.ErrStateFull, kerr.PolicyViolation},
	{budget.ErrOver, kerr.NotEnoughReplicas},
	{broker.ErrStoreUnavailable, kerr.NotEnoughReplicas},
	{broker.ErrNotSent, kerr.NotEnoughReplicas},
	{broker.ErrCorrupt, kerr.KafkaStorageError},
	{broker.ErrNewer, kerr.KafkaStorageError},
	{broker.ErrInvalid, kerr.InvalidRecord},
}

// appendCode is the code of an append error. An error that is not in the table means that the
// outcome is unknown.
func appendCode(err error) int16 {
	if err == nil {
		return none
	}
	if batch, ok := errors.AsType[*record.InvalidError](err); ok && !errors.Is(err, record.ErrTooLarge) {
		return batchCode(batch)
	}
	return codeIn(appendFaults, err, kerr.RequestTimedOut.Code)
}

// batchCode is the code of an invalid batch.
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

// readFaults lists the errors of reading records and offsets.
var readFaults = []fault{
	{broker.ErrUnauthorized, kerr.TopicAuthorizationFailed},
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
	{context.Canceled, kerr.NotLeaderForPartition}, // the server stops
}

// readCode is the code of a read error. An error that is not in the table may pass.
func readCode(err error) int16 { return codeIn(readFaults, err, kerr.RequestTimedOut.Code) }

// errRule: a rule of Kafka that Seb does not have.
var errRule = errors.New("unsupported rule")

// accessFaults lists the errors of changing rules, passwords and quotas.
var accessFaults = []fault{
	{errRule, kerr.InvalidRequest},
	{errQuota, kerr.InvalidRequest},
	{errEntity, kerr.UnsupportedVersion}, // as in Kafka
	{broker.ErrUnauthorized, kerr.ClusterAuthorizationFailed},
	{broker.ErrNotAudited, kerr.PolicyViolation},
	{broker.ErrInvalid, kerr.InvalidRequest},
	{auth.ErrNoPassword, kerr.ResourceNotFound},
	{broker.ErrLevel, kerr.UnsupportedVersion},
	{broker.ErrFenced, kerr.NotController},
	{broker.ErrNotLeader, kerr.NotController},
	{broker.ErrReadOnly, kerr.NotController},
	{broker.ErrClosed, kerr.NotController},
	{broker.ErrCorrupt, kerr.KafkaStorageError},
	{broker.ErrNewer, kerr.KafkaStorageError},
	{broker.ErrStateFull, kerr.PolicyViolation},
	{broker.ErrOverBudget, kerr.ThrottlingQuotaExceeded},
}

// accessCode is the code of an error of changing rules, passwords and quotas.
func accessCode(err error) int16 {
	var invalid *broker.InvalidError
	if errors.As(err, &invalid) && (invalid.Field == "iterations" || invalid.Field == "salt" || invalid.Field == "salted password" || invalid.Field == "user") {
		return kerr.UnacceptableCredential.Code
	}
	return codeIn(accessFaults, err, kerr.RequestTimedOut.Code)
}

// topicFaults lists the errors of changing topics.
var topicFaults = []fault{
	{broker.ErrUnauthorized, kerr.TopicAuthorizationFailed},
	{broker.ErrNotAudited, kerr.PolicyViolation},
	{broker.ErrAuditTopic, kerr.PolicyViolation},
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

// topicCode is the code of an error of changing a topic. An error that is not in the table means
// that the outcome is unknown.
func topicCode(err error) int16 {
	if invalid, ok := errors.AsType[*broker.InvalidError](err); ok {
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

// groupFaults lists the errors of changing and reading a group's offsets. Other errors are
// COORDINATOR_NOT_AVAILABLE, after which clients find the coordinator and retry.
var groupFaults = []fault{
	{broker.ErrUnauthorized, kerr.GroupAuthorizationFailed},
	{broker.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{broker.ErrUnknownGroup, kerr.GroupIDNotFound},
	{broker.ErrGroupActive, kerr.NonEmptyGroup},
	{broker.ErrFull, kerr.InvalidCommitOffsetSize}, // a retry does not help
	{broker.ErrStateFull, kerr.InvalidCommitOffsetSize},
	{broker.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{broker.ErrNotSent, kerr.RequestTimedOut},
	{broker.ErrFenced, kerr.NotCoordinator},
	{broker.ErrNotLeader, kerr.NotCoordinator},
	{broker.ErrReadOnly, kerr.NotCoordinator},
	{broker.ErrClosed, kerr.NotCoordinator},
	{context.Canceled, kerr.NotCoordinator}, // the server stops, or the client is gone
}

// groupCode is the code of a broker error about a group.
func groupCode(err error) int16 {
	if invalid, ok := errors.AsType[*broker.InvalidError](err); ok {
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

// memberCodes maps the codes of packages group and coordinator.
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

// memberCode is the code of a coordinator answer.
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

// text is the error message of an answer; nil without an error.
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
