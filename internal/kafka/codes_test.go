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
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
)

// TestAppendCodes: each error of an append has a code that producers handle, and never
// UNKNOWN_SERVER_ERROR. An unknown outcome and a refusal that may be retried have their own codes.
func TestAppendCodes(t *testing.T) {
	allowed := []int16{
		none, kerr.CorruptMessage.Code, kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.RequestTimedOut.Code, kerr.MessageTooLarge.Code, kerr.NotEnoughReplicas.Code, kerr.PolicyViolation.Code,
		kerr.InvalidRequiredAcks.Code, kerr.InvalidTimestamp.Code, kerr.UnsupportedForMessageFormat.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.InvalidProducerEpoch.Code,
		kerr.TransactionalIDAuthorizationFailed.Code, kerr.KafkaStorageError.Code, kerr.UnsupportedCompressionType.Code, kerr.InvalidRecord.Code, kerr.UnknownTopicID.Code,
		kerr.TopicAuthorizationFailed.Code,
	}
	late := fmt.Errorf("%w: %w", broker.ErrNotSent, context.DeadlineExceeded)
	for err, want := range map[error]int16{
		nil:                                    none,
		broker.ErrOutcomeUnknown:               kerr.RequestTimedOut.Code,
		&broker.FencedError{Epoch: 7}:          kerr.NotLeaderForPartition.Code,
		broker.ErrClosed:                       kerr.NotLeaderForPartition.Code,
		broker.ErrFull:                         kerr.NotEnoughReplicas.Code,
		&broker.StateFullError{}:               kerr.PolicyViolation.Code,
		&broker.StateFullError{Ranges: true}:   kerr.NotEnoughReplicas.Code,
		&budget.OverError{Wanted: 1, Limit: 2}: kerr.NotEnoughReplicas.Code,
		late:                                   kerr.NotEnoughReplicas.Code,
		broker.ErrStoreUnavailable:             kerr.NotEnoughReplicas.Code,
		broker.ErrSequenceGap:                  kerr.OutOfOrderSequenceNumber.Code,
		broker.ErrProducerFenced:               kerr.InvalidProducerEpoch.Code,
		io.ErrUnexpectedEOF:                    kerr.RequestTimedOut.Code, // outcome unknown
		context.Canceled:                       kerr.RequestTimedOut.Code,
		&record.InvalidError{Field: record.FieldBatchBytes}: kerr.MessageTooLarge.Code,
	} {
		check.Equalf(t, appendCode(err), want, "%v", err)
	}
	for _, f := range appendFaults {
		if !slices.Contains(allowed, f.code.Code) {
			t.Errorf("%v: %v is not allowed", f.err, f.code)
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

// TestCodesAreKnown: every code of package group has a protocol code, and no error maps to
// UNKNOWN_SERVER_ERROR.
func TestCodesAreKnown(t *testing.T) {
	for _, table := range [][]fault{appendFaults, readFaults, topicFaults, groupFaults} {
		for _, f := range table {
			if f.code == kerr.UnknownServerError {
				t.Errorf("%v: %v", f.err, f.code)
			}
		}
	}
	for c := group.OK + 1; c <= group.InvalidRegularExpression; c++ {
		if int(c) >= len(memberCodes) || memberCodes[c] == nil {
			t.Errorf("code %d of package group has no protocol code", c)
		}
	}
	for _, code := range []func(error) int16{appendCode, readCode, topicCode, groupCode} {
		if c := code(errors.New("anything")); c == none || c == -1 {
			t.Errorf("unknown error: code %d", c)
		}
	}
}
