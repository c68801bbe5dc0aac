package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/record"
)

// TestAppendCodes: whatever an append ends with, its code is one of those that a producer may be told, and never
// UNKNOWN_SERVER_ERROR; what may be there is told so, and what is not and may be tried again too.
func TestAppendCodes(t *testing.T) {
	allowed := []int16{
		none, corruptMessage, unknownTopicOrPartition, notLeaderOrFollower, requestTimedOut, messageTooLarge, notEnoughReplicas, policyViolation,
		invalidRequiredAcks, invalidTimestamp, unsupportedForMessageFormat, outOfOrderSequenceNumber, invalidProducerEpoch,
		transactionalIDAuthorizationFailed, kafkaStorageError, unsupportedCompressionType, invalidRecord, unknownTopicID,
	}
	late := fmt.Errorf("%w: %w", broker.ErrNotSent, context.DeadlineExceeded)
	for err, want := range map[error]int16{
		nil:                                    none,
		broker.ErrOutcomeUnknown:               requestTimedOut,
		&broker.FencedError{Epoch: 7}:          notLeaderOrFollower,
		broker.ErrClosed:                       notLeaderOrFollower,
		broker.ErrFull:                         notEnoughReplicas,
		&broker.StateFullError{}:               policyViolation,
		&broker.StateFullError{Ranges: true}:   notEnoughReplicas,
		&budget.OverError{Wanted: 1, Limit: 2}: notEnoughReplicas,
		late:                                   notEnoughReplicas,
		broker.ErrStoreUnavailable:             notEnoughReplicas,
		broker.ErrSequenceGap:                  outOfOrderSequenceNumber,
		broker.ErrProducerFenced:               invalidProducerEpoch,
		io.ErrUnexpectedEOF:                    requestTimedOut, // nobody knows what it stands for
		context.Canceled:                       requestTimedOut,
		&record.InvalidError{Field: record.FieldBatchBytes}: messageTooLarge,
	} {
		if got := appendCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	for _, f := range appendFaults {
		if !slices.Contains(allowed, f.code) {
			t.Errorf("%v: %d is not allowed", f.err, f.code)
		}
	}
	for _, field := range []string{
		record.FieldMagic, record.FieldLength, record.FieldCRC, record.FieldAttributes, record.FieldCompression, record.FieldCount,
		record.FieldTimestamp, record.FieldProducer, record.FieldSequence, record.FieldRecord, record.FieldOffsetDelta,
		record.FieldHeaders, record.FieldBatchBytes, record.FieldDecompressed, record.FieldCompressionRatio, "another",
	} {
		for _, inner := range []error{nil, io.ErrUnexpectedEOF} {
			if c := appendCode(&record.InvalidError{Field: field, Err: inner}); c == none || !slices.Contains(allowed, c) {
				t.Errorf("%s: %d", field, c)
			}
		}
	}
}

// TestCodesAreKnown: every code in a table has a name in the protocol, and none is UNKNOWN_SERVER_ERROR.
func TestCodesAreKnown(t *testing.T) {
	for _, table := range [][]fault{appendFaults, readFaults, topicFaults} {
		for _, f := range table {
			if err := kerr.ErrorForCode(f.code); err == nil || errors.Is(err, kerr.UnknownServerError) {
				t.Errorf("%v: code %d is %v", f.err, f.code, err)
			}
		}
	}
	for _, code := range []func(error) int16{appendCode, readCode, topicCode} {
		if c := code(errors.New("anything")); c == none || c == -1 {
			t.Errorf("an error that nobody knows has code %d", c)
		}
	}
}
