package record

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid matches every *InvalidError: bytes from a client are refused.
	ErrInvalid = errors.New("invalid batch")
	// ErrTooLarge matches an *InvalidError with a size limit as the reason.
	ErrTooLarge = errors.New("too large")
	// ErrCorrupt matches every *CorruptError: stored bytes are not the written ones (rule R9).
	ErrCorrupt = errors.New("corrupt data")
	// ErrVersion1: the bytes start like a file of version 1, but version 2 was expected. It matches
	// ErrCorrupt too, for callers that accept only version 2.
	ErrVersion1 = fmt.Errorf("version 1 file: %w", ErrCorrupt)
	// ErrUnknownVersion: the magic is right, but the version is neither 1 nor 2. A newer program
	// may have written it. It matches ErrCorrupt too, for callers that must stop there.
	ErrUnknownVersion = fmt.Errorf("unknown version: %w", ErrCorrupt)
)

// Values of InvalidError.Field.
const (
	FieldMagic            = "magic"
	FieldLength           = "length"
	FieldCRC              = "crc"
	FieldAttributes       = "attributes"
	FieldCompression      = "compression"
	FieldCount            = "record count"
	FieldTimestamp        = "timestamp"
	FieldProducer         = "producer"
	FieldSequence         = "sequence"
	FieldRecord           = "record"
	FieldOffsetDelta      = "offset delta"
	FieldHeaders          = "headers"
	FieldBatchBytes       = "batch bytes"
	FieldDecompressed     = "decompressed bytes"
	FieldCompressionRatio = "compression ratio"
)

// InvalidError is the reason why incoming batches are refused. It matches ErrInvalid, and also
// ErrTooLarge if Field is FieldBatchBytes, FieldDecompressed or FieldCompressionRatio.
type InvalidError struct {
	// Batch is the index of the batch in the input.
	Batch int
	// Field is one of the Field constants.
	Field string
	// Reason is a short phrase for people.
	Reason string
	// Limit is the allowed or expected number, Given the actual one, if there are numbers.
	Limit, Given int64
	// Err is the error of the decompressor, or nil.
	Err error
}

// Error returns the error in one line.
func (e *InvalidError) Error() string {
	s := fmt.Sprintf("batch %d: %s: %s", e.Batch, e.Field, e.Reason)
	if e.Limit != 0 || e.Given != 0 {
		s += fmt.Sprintf(" (want %d, given %d)", e.Limit, e.Given)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrInvalid, or ErrTooLarge if a size was the reason.
func (e *InvalidError) Is(target error) bool {
	if target == ErrTooLarge {
		return e.Field == FieldBatchBytes || e.Field == FieldDecompressed || e.Field == FieldCompressionRatio
	}
	return target == ErrInvalid
}

// Unwrap returns the decompressor's error.
func (e *InvalidError) Unwrap() error { return e.Err }

// CorruptError describes damage in stored bytes. It matches ErrCorrupt.
type CorruptError struct {
	// What names the part, such as "head checksum" or "index".
	What string
	// Pos is the start of the part, in bytes from the start of the input.
	Pos int64
	// Want and Got are the expected and the actual number, if there are numbers.
	Want, Got int64
	// Err is the underlying error, or nil.
	Err error
}

// Error returns the error in one line.
func (e *CorruptError) Error() string {
	s := fmt.Sprintf("corrupt data at byte %d: %s", e.Pos, e.What)
	if e.Want != 0 || e.Got != 0 {
		s += fmt.Sprintf(" (want %d, got %d)", e.Want, e.Got)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the underlying error.
func (e *CorruptError) Unwrap() error { return e.Err }
