package kafka

import (
	"context"
	"errors"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/record"
)

// The error codes that are used here, by their names in the protocol. UNKNOWN_SERVER_ERROR (-1) is none of them: the Java
// client writes records twice when a produce is answered so (KAFKA-14034), and nobody can tell what to do about it.
const (
	none                               int16 = 0
	offsetOutOfRange                   int16 = 1
	corruptMessage                     int16 = 2
	unknownTopicOrPartition            int16 = 3
	leaderNotAvailable                 int16 = 5
	notLeaderOrFollower                int16 = 6
	requestTimedOut                    int16 = 7
	messageTooLarge                    int16 = 10
	coordinatorLoadInProgress          int16 = 14
	invalidTopic                       int16 = 17
	notEnoughReplicas                  int16 = 19
	invalidRequiredAcks                int16 = 21
	invalidTimestamp                   int16 = 32
	unsupportedSASLMechanism           int16 = 33
	illegalSASLState                   int16 = 34
	unsupportedVersion                 int16 = 35
	topicAlreadyExists                 int16 = 36
	invalidPartitions                  int16 = 37
	invalidReplicationFactor           int16 = 38
	invalidConfig                      int16 = 40
	notController                      int16 = 41
	invalidRequest                     int16 = 42
	unsupportedForMessageFormat        int16 = 43
	policyViolation                    int16 = 44
	outOfOrderSequenceNumber           int16 = 45
	invalidProducerEpoch               int16 = 47
	transactionalIDAuthorizationFailed int16 = 53
	securityDisabled                   int16 = 54
	kafkaStorageError                  int16 = 56
	saslAuthenticationFailed           int16 = 58
	fetchSessionIDNotFound             int16 = 70
	topicDeletionDisabled              int16 = 73
	fencedLeaderEpoch                  int16 = 74
	unknownLeaderEpoch                 int16 = 75
	unsupportedCompressionType         int16 = 76
	electionNotNeeded                  int16 = 84
	invalidRecord                      int16 = 87
	throttlingQuotaExceeded            int16 = 89
	resourceNotFound                   int16 = 91
	unknownTopicID                     int16 = 100
	transactionalIDNotFound            int16 = 105
)

// fault is a line of a table from errors to codes; the first that matches counts.
type fault struct {
	err  error
	code int16
}

// appendFaults is what an append may be answered with, and all of it but none: a client decides by the code whether it has
// to send again, and may not learn that it need not when it does. What is rejected and may be tried again is
// NOT_ENOUGH_REPLICAS, which every client takes for "not appended, try again"; what may be there is REQUEST_TIMED_OUT, which an
// idempotent producer resolves by sending the same again.
var appendFaults = []fault{
	{broker.ErrOutcomeUnknown, requestTimedOut},
	{broker.ErrUnknownTopic, unknownTopicOrPartition},
	{broker.ErrUnknownPartition, unknownTopicOrPartition},
	{broker.ErrSequenceGap, outOfOrderSequenceNumber},
	{broker.ErrProducerFenced, invalidProducerEpoch},
	{broker.ErrFenced, notLeaderOrFollower},
	{broker.ErrNotLeader, notLeaderOrFollower},
	{broker.ErrReadOnly, notLeaderOrFollower},
	{broker.ErrClosed, notLeaderOrFollower},
	{broker.ErrTooLarge, messageTooLarge},
	{record.ErrTooLarge, messageTooLarge},
	{broker.ErrOverBudget, notEnoughReplicas}, // and ErrStateFull that will pass
	{broker.ErrStateFull, policyViolation},
	{budget.ErrOver, notEnoughReplicas},
	{broker.ErrStoreUnavailable, notEnoughReplicas},
	{broker.ErrNotSent, notEnoughReplicas},
	{broker.ErrCorrupt, kafkaStorageError},
	{broker.ErrNewer, kafkaStorageError},
	{broker.ErrInvalid, invalidRecord},
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
	return codeIn(appendFaults, err, requestTimedOut)
}

// batchCode is the code of what is wrong with a batch.
func batchCode(e *record.InvalidError) int16 {
	switch e.Field {
	case record.FieldCRC, record.FieldLength:
		return corruptMessage
	case record.FieldTimestamp:
		return invalidTimestamp
	case record.FieldMagic:
		return unsupportedForMessageFormat
	case record.FieldCompression:
		if e.Err == nil {
			return unsupportedCompressionType
		}
		return corruptMessage
	}
	return invalidRecord
}

// readFaults is what reading, and asking for offsets, may be answered with.
var readFaults = []fault{
	{broker.ErrUnknownTopic, unknownTopicOrPartition},
	{broker.ErrUnknownPartition, unknownTopicOrPartition},
	{broker.ErrBelowStart, offsetOutOfRange},
	{broker.ErrBeyondEnd, offsetOutOfRange},
	{broker.ErrFenced, notLeaderOrFollower},
	{broker.ErrNotLeader, notLeaderOrFollower},
	{broker.ErrReadOnly, notLeaderOrFollower},
	{broker.ErrClosed, notLeaderOrFollower},
	{broker.ErrCorrupt, kafkaStorageError},
	{broker.ErrNewer, kafkaStorageError},
	{record.ErrCorrupt, kafkaStorageError},
	{record.ErrTooLarge, kafkaStorageError},
	{broker.ErrOutcomeUnknown, requestTimedOut},
	{broker.ErrInvalid, invalidRequest},
	{context.Canceled, notLeaderOrFollower}, // the end of the server
}

// readCode is the code of an error of reading; what is not known may pass.
func readCode(err error) int16 { return codeIn(readFaults, err, requestTimedOut) }

// topicFaults is what changing topics may be answered with.
var topicFaults = []fault{
	{broker.ErrUnknownTopic, unknownTopicOrPartition},
	{broker.ErrTopicExists, topicAlreadyExists},
	{broker.ErrTopicInUse, topicDeletionDisabled},
	{broker.ErrFenced, notController},
	{broker.ErrNotLeader, notController},
	{broker.ErrReadOnly, notController},
	{broker.ErrClosed, notController},
	{broker.ErrCorrupt, kafkaStorageError},
	{broker.ErrNewer, kafkaStorageError},
	{broker.ErrStateFull, policyViolation},
	{broker.ErrOverBudget, throttlingQuotaExceeded},
}

// topicCode is the code of an error of changing a topic; what is not known may have happened or not.
func topicCode(err error) int16 {
	var invalid *broker.InvalidError
	if errors.As(err, &invalid) {
		switch invalid.Field {
		case "topic-name":
			return invalidTopic
		case "partitions":
			return invalidPartitions
		case "settings":
			return invalidConfig
		}
		return invalidRequest
	}
	return codeIn(topicFaults, err, requestTimedOut)
}

func codeIn(table []fault, err error, otherwise int16) int16 {
	if err == nil {
		return none
	}
	for _, f := range table {
		if errors.Is(err, f.err) {
			return f.code
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
