package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// The functions of this file map errors of the broker and answers of the coordinator to error codes,
// by what is asked for. UNKNOWN_SERVER_ERROR (-1) is never used: it tells a client nothing, and the Java client
// writes records twice after such a produce answer (KAFKA-14034).

// none is the code for success. The others are those of kerr.
const none int16 = 0

// faults maps errors to codes; the first match counts.
type faults []struct {
	err  error
	code *kerr.Error
}

// appendFaults lists every error of an append. The table is complete, because the code decides
// whether a client sends again, and the client must not stop while the records are missing. A
// refusal that may pass is NOT_ENOUGH_REPLICAS, which every client treats as "not appended, retry".
// An unknown outcome is REQUEST_TIMED_OUT, after which an idempotent producer sends the same batch
// again.
var appendFaults = faults{
	{state.ErrUnauthorized, kerr.TopicAuthorizationFailed},
	{broker.ErrInternalTopic, kerr.TopicAuthorizationFailed},
	{state.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{state.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{state.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{state.ErrSequenceGap, kerr.OutOfOrderSequenceNumber},
	{state.ErrProducerFenced, kerr.InvalidProducerEpoch},
	{state.ErrTransactionEnded, kerr.InvalidProducerEpoch},
	{state.ErrTransactionFenced, kerr.InvalidProducerEpoch},
	{state.ErrUnknownTransaction, kerr.InvalidProducerIDMapping},
	{state.ErrTransactionState, kerr.InvalidTxnState},
	{state.ErrLevel, kerr.TransactionalIDAuthorizationFailed}, // producers stop at it
	{state.ErrFenced, kerr.NotLeaderForPartition},
	{state.ErrNotLeader, kerr.NotLeaderForPartition},
	{state.ErrReadOnly, kerr.NotLeaderForPartition},
	{broker.ErrClosed, kerr.NotLeaderForPartition},
	{broker.ErrTooLarge, kerr.MessageTooLarge},
	{record.ErrTooLarge, kerr.MessageTooLarge},
	{broker.ErrQueueFull, kerr.NotEnoughReplicas},
	{state.ErrOverBudget, kerr.NotEnoughReplicas}, // includes a temporary ErrStateFull
	{state.ErrStateFull, kerr.PolicyViolation},
	{budget.ErrOver, kerr.NotEnoughReplicas},
	{state.ErrStoreUnavailable, kerr.NotEnoughReplicas},
	{broker.ErrNotSent, kerr.NotEnoughReplicas},
	{state.ErrCorrupt, kerr.KafkaStorageError},
	{state.ErrNewer, kerr.KafkaStorageError},
	{state.ErrInvalid, kerr.InvalidRecord},
}

// AppendCode is the code of an append error. An error that is not in the table means that the
// outcome is unknown.
func AppendCode(err error) int16 {
	if err == nil {
		return none
	}
	if batch, ok := errors.AsType[*record.InvalidError](err); ok && !errors.Is(err, record.ErrTooLarge) {
		return batchCode(batch)
	}
	return appendFaults.find(err, kerr.RequestTimedOut.Code)
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
var readFaults = faults{
	{state.ErrUnauthorized, kerr.TopicAuthorizationFailed},
	{state.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{state.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{broker.ErrBelowStart, kerr.OffsetOutOfRange},
	{state.ErrBeyondEnd, kerr.OffsetOutOfRange},
	{state.ErrFenced, kerr.NotLeaderForPartition},
	{state.ErrNotLeader, kerr.NotLeaderForPartition},
	{state.ErrReadOnly, kerr.NotLeaderForPartition},
	{broker.ErrClosed, kerr.NotLeaderForPartition},
	{state.ErrCorrupt, kerr.KafkaStorageError},
	{state.ErrNewer, kerr.KafkaStorageError},
	{record.ErrCorrupt, kerr.KafkaStorageError},
	{record.ErrTooLarge, kerr.KafkaStorageError},
	{state.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{state.ErrInvalid, kerr.InvalidRequest},
	{context.Canceled, kerr.NotLeaderForPartition}, // the server stops
}

// ReadCode is the code of a read error. An error that is not in the table may pass.
func ReadCode(err error) int16 { return readFaults.find(err, kerr.RequestTimedOut.Code) }

// topicFaults lists the errors of changing topics.
var topicFaults = faults{
	{state.ErrUnauthorized, kerr.TopicAuthorizationFailed},
	{state.ErrNotAudited, kerr.PolicyViolation},
	{state.ErrAuditTopic, kerr.PolicyViolation},
	{state.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{broker.ErrInternalTopic, kerr.UnknownTopicOrPartition}, // no record creates it
	{state.ErrTopicExists, kerr.TopicAlreadyExists},
	{broker.ErrTopicInUse, kerr.TopicDeletionDisabled},
	{state.ErrFenced, kerr.NotController},
	{state.ErrNotLeader, kerr.NotController},
	{state.ErrReadOnly, kerr.NotController},
	{broker.ErrClosed, kerr.NotController},
	{state.ErrCorrupt, kerr.KafkaStorageError},
	{state.ErrNewer, kerr.KafkaStorageError},
	{state.ErrStateFull, kerr.PolicyViolation},
	{state.ErrOverBudget, kerr.ThrottlingQuotaExceeded},
}

// TopicCode is the code of an error of changing a topic. An error that is not in the table means
// that the outcome is unknown.
func TopicCode(err error) int16 {
	if invalid, ok := errors.AsType[*state.InvalidError](err); ok {
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
	return topicFaults.find(err, kerr.RequestTimedOut.Code)
}

// groupFaults lists the errors of changing and reading a group's offsets. Other errors are
// COORDINATOR_NOT_AVAILABLE, after which clients find the coordinator and retry.
var groupFaults = faults{
	{state.ErrUnauthorized, kerr.GroupAuthorizationFailed},
	{state.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{state.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{state.ErrUnknownGroup, kerr.GroupIDNotFound},
	{broker.ErrGroupActive, kerr.NonEmptyGroup},
	{state.ErrFull, kerr.InvalidCommitOffsetSize}, // a retry does not help
	{state.ErrStateFull, kerr.InvalidCommitOffsetSize},
	{state.ErrOutcomeUnknown, kerr.RequestTimedOut},
	{broker.ErrNotSent, kerr.RequestTimedOut},
	{state.ErrFenced, kerr.NotCoordinator},
	{state.ErrNotLeader, kerr.NotCoordinator},
	{state.ErrReadOnly, kerr.NotCoordinator},
	{broker.ErrClosed, kerr.NotCoordinator},
	{context.Canceled, kerr.NotCoordinator}, // the server stops, or the client is gone
}

// GroupCode is the code of a broker error about a group.
func GroupCode(err error) int16 {
	if invalid, ok := errors.AsType[*state.InvalidError](err); ok {
		switch invalid.Field {
		case "group":
			return kerr.InvalidGroupID.Code
		case "metadata":
			return kerr.OffsetMetadataTooLarge.Code
		}
		return kerr.InvalidRequest.Code
	}
	return groupFaults.find(err, kerr.CoordinatorNotAvailable.Code)
}

// txnFaults lists the errors of requests to the coordinator of transactions. Other errors are
// COORDINATOR_NOT_AVAILABLE, after which clients find the coordinator and ask again: the outcome is unknown, or the
// refusal may pass. A transaction that the broker has aborted is INVALID_PRODUCER_EPOCH and not INVALID_TXN_STATE,
// which kills a thread of Kafka Streams (KAFKA-20785).
var txnFaults = faults{
	{state.ErrUnauthorized, kerr.TransactionalIDAuthorizationFailed},
	{state.ErrLevel, kerr.TransactionalIDAuthorizationFailed},
	{state.ErrUnknownTransaction, kerr.InvalidProducerIDMapping},
	{state.ErrTransactionFenced, kerr.ProducerFenced},
	{state.ErrTransactionEnded, kerr.InvalidProducerEpoch},
	{state.ErrTransactionState, kerr.InvalidTxnState},
	{errUnseenBegin, kerr.UnknownProducerID},
	{state.ErrInvalid, kerr.InvalidRequest},
	{state.ErrOutcomeUnknown, kerr.CoordinatorNotAvailable},
	{state.ErrTransactionsFull, kerr.PolicyViolation},
	{state.ErrFenced, kerr.NotCoordinator},
	{state.ErrNotLeader, kerr.NotCoordinator},
	{state.ErrReadOnly, kerr.NotCoordinator},
	{broker.ErrClosed, kerr.NotCoordinator},
	{state.ErrOverBudget, kerr.CoordinatorNotAvailable}, // includes a temporary ErrStateFull
	{state.ErrStateFull, kerr.PolicyViolation},
}

// TransactionCode is the code of an error of the coordinator of transactions.
func TransactionCode(err error) int16 {
	return txnFaults.find(err, kerr.CoordinatorNotAvailable.Code)
}

// txnCode is TransactionCode for a client that knows PRODUCER_FENCED from a version on.
func (c *call) txnCode(err error, knows int16) int16 {
	code := TransactionCode(err)
	if code == kerr.ProducerFenced.Code && c.version < knows {
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}

// stagedFaults lists the errors of TxnOffsetCommit that are about the transaction. Clients expect
// INVALID_PRODUCER_EPOCH there in every version.
var stagedFaults = faults{
	{state.ErrUnknownTransaction, kerr.InvalidProducerIDMapping},
	{state.ErrTransactionFenced, kerr.InvalidProducerEpoch},
	{state.ErrTransactionEnded, kerr.InvalidProducerEpoch},
	{state.ErrTransactionState, kerr.InvalidTxnState},
	{state.ErrUnauthorized, kerr.TransactionalIDAuthorizationFailed},
}

// stageCode is the code of a TxnOffsetCommit.
func stageCode(err error) int16 { return stagedFaults.find(err, GroupCode(err)) }

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

// MemberCode is the code of a coordinator answer.
func MemberCode(c group.Code) int16 {
	if c == group.OK {
		return none
	}
	return memberCodes[c].Code
}

// find is the code of an error, or otherwise if the table has none.
func (table faults) find(err error, otherwise int16) int16 {
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
