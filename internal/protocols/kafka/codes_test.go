package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestAppendCodes: each error of an append has a code that producers handle, and never
// UNKNOWN_SERVER_ERROR. An unknown outcome and a refusal that may be retried have their own codes.
func TestAppendCodes(t *testing.T) {
	allowed := []int16{
		0, kerr.CorruptMessage.Code, kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.RequestTimedOut.Code, kerr.MessageTooLarge.Code, kerr.NotEnoughReplicas.Code, kerr.PolicyViolation.Code,
		kerr.InvalidRequiredAcks.Code, kerr.InvalidTimestamp.Code, kerr.UnsupportedForMessageFormat.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.InvalidProducerEpoch.Code,
		kerr.TransactionalIDAuthorizationFailed.Code, kerr.KafkaStorageError.Code, kerr.UnsupportedCompressionType.Code, kerr.InvalidRecord.Code, kerr.UnknownTopicID.Code,
		kerr.TopicAuthorizationFailed.Code,
	}
	late := fmt.Errorf("%w: %w", broker.ErrNotSent, context.DeadlineExceeded)
	for err, want := range map[error]int16{
		nil:                                    0,
		state.ErrUnauthorized:                  kerr.TopicAuthorizationFailed.Code,
		broker.ErrInternalTopic:                kerr.TopicAuthorizationFailed.Code,
		state.ErrUnknownTopic:                  kerr.UnknownTopicOrPartition.Code,
		state.ErrUnknownPartition:              kerr.UnknownTopicOrPartition.Code,
		state.ErrNotLeader:                     kerr.NotLeaderForPartition.Code,
		state.ErrReadOnly:                      kerr.NotLeaderForPartition.Code,
		broker.ErrTooLarge:                     kerr.MessageTooLarge.Code,
		state.ErrCorrupt:                       kerr.KafkaStorageError.Code,
		state.ErrNewer:                         kerr.KafkaStorageError.Code,
		state.ErrInvalid:                       kerr.InvalidRecord.Code,
		state.ErrOutcomeUnknown:                kerr.RequestTimedOut.Code,
		&state.FencedError{Epoch: 7}:           kerr.NotLeaderForPartition.Code,
		broker.ErrClosed:                       kerr.NotLeaderForPartition.Code,
		state.ErrFull:                          kerr.NotEnoughReplicas.Code,
		&state.StateFullError{}:                kerr.PolicyViolation.Code,
		&broker.QueueFullError{Topic: "q"}:     kerr.NotEnoughReplicas.Code,
		&state.StateFullError{Ranges: true}:    kerr.NotEnoughReplicas.Code,
		&budget.OverError{Wanted: 1, Limit: 2}: kerr.NotEnoughReplicas.Code,
		late:                                   kerr.NotEnoughReplicas.Code,
		state.ErrStoreUnavailable:              kerr.NotEnoughReplicas.Code,
		state.ErrSequenceGap:                   kerr.OutOfOrderSequenceNumber.Code,
		state.ErrProducerFenced:                kerr.InvalidProducerEpoch.Code,
		state.ErrTransactionEnded:              kerr.InvalidProducerEpoch.Code,
		state.ErrUnknownTransaction:            kerr.InvalidProducerIDMapping.Code,
		state.ErrTransactionState:              kerr.InvalidTxnState.Code,
		state.ErrTransactionsFull:              kerr.NotEnoughReplicas.Code,
		&state.LevelError{Needs: 10, Has: 9}:   kerr.TransactionalIDAuthorizationFailed.Code,
		io.ErrUnexpectedEOF:                    kerr.RequestTimedOut.Code, // outcome unknown
		context.Canceled:                       kerr.RequestTimedOut.Code,
		&record.InvalidError{Field: record.FieldBatchBytes}: kerr.MessageTooLarge.Code,
	} {
		check.Equalf(t, kafka.AppendCode(err), want, "%v", err)
	}
	for _, field := range []string{
		record.FieldMagic, record.FieldLength, record.FieldCRC, record.FieldAttributes, record.FieldCompression, record.FieldCount,
		record.FieldTimestamp, record.FieldProducer, record.FieldSequence, record.FieldRecord, record.FieldOffsetDelta,
		record.FieldHeaders, record.FieldBatchBytes, record.FieldDecompressed, record.FieldCompressionRatio, "another",
	} {
		for _, inner := range []error{nil, io.ErrUnexpectedEOF} {
			if c := kafka.AppendCode(&record.InvalidError{Field: field, Err: inner}); c == 0 || !slices.Contains(allowed, c) {
				t.Errorf("%s: %d", field, c)
			}
		}
	}
}

// TestTransactionCodes: an error of the coordinator of transactions has the code that Kafka gives, and one whose
// outcome is unknown a code after which clients ask again.
func TestTransactionCodes(t *testing.T) {
	for err, want := range map[error]int16{
		nil:                                  0,
		state.ErrUnauthorized:                kerr.TransactionalIDAuthorizationFailed.Code,
		&state.LevelError{Needs: 10, Has: 9}: kerr.TransactionalIDAuthorizationFailed.Code,
		state.ErrUnknownTransaction:          kerr.InvalidProducerIDMapping.Code,
		state.ErrTransactionFenced:           kerr.ProducerFenced.Code,
		state.ErrTransactionEnded:            kerr.InvalidProducerEpoch.Code,
		state.ErrTransactionState:            kerr.InvalidTxnState.Code,
		state.ErrTransactionsFull:            kerr.PolicyViolation.Code,
		state.ErrOverBudget:                  kerr.CoordinatorNotAvailable.Code,
		state.ErrOutcomeUnknown:              kerr.CoordinatorNotAvailable.Code,
		broker.ErrNotSent:                    kerr.CoordinatorNotAvailable.Code,
		state.ErrStoreUnavailable:            kerr.CoordinatorNotAvailable.Code,
		&state.FencedError{Epoch: 7}:         kerr.NotCoordinator.Code,
		state.ErrNotLeader:                   kerr.NotCoordinator.Code,
		state.ErrReadOnly:                    kerr.NotCoordinator.Code,
		broker.ErrClosed:                     kerr.NotCoordinator.Code,
		&state.StateFullError{}:              kerr.PolicyViolation.Code,
		&state.StateFullError{Ranges: true}:  kerr.CoordinatorNotAvailable.Code,
		&state.InvalidError{Field: "id"}:     kerr.InvalidRequest.Code,
		io.ErrUnexpectedEOF:                  kerr.CoordinatorNotAvailable.Code,
	} {
		check.Equalf(t, kafka.TransactionCode(err), want, "%v", err)
	}
}

// TestMemberCodes: every code of package group has a protocol code.
func TestMemberCodes(t *testing.T) {
	check.Equal(t, kafka.MemberCode(group.OK), 0)
	for c := group.OK + 1; c <= group.InvalidRegularExpression; c++ {
		check.Equalf(t, kafka.MemberCode(c) > 0, true, "code %d of package group has no protocol code", c)
	}
}

// TestNoUnknownServerError: an error that is in no table has a code too, and neither the tables nor
// the handlers use UNKNOWN_SERVER_ERROR.
func TestNoUnknownServerError(t *testing.T) {
	for _, code := range []func(error) int16{kafka.AppendCode, kafka.ReadCode, kafka.TopicCode, kafka.GroupCode, kafka.TransactionCode} {
		check.Equal(t, code(nil), 0)
		check.Equalf(t, code(errors.New("anything")) > 0, true, "unknown error: code %d", code(errors.New("anything")))
	}
	for _, file := range must.Get(filepath.Glob("*.go"))(t) {
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(must.Get(os.ReadFile(file))(t)), "UnknownServerError") {
			t.Errorf("%s uses UNKNOWN_SERVER_ERROR", file)
		}
	}
}
