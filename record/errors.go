package record

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is what every *InvalidError is: the sender's bytes are refused.
	ErrInvalid = errors.New("invalid batch")
	// ErrTooLarge is what an *InvalidError also is when a size limit was the reason.
	ErrTooLarge = errors.New("too large")
	// ErrCorrupt is what every *CorruptError is: stored bytes are not what was written (rule R9).
	ErrCorrupt = errors.New("corrupt data")
	// ErrVersion1: the bytes begin like a file of version 1, where version 2 was expected. It is ErrCorrupt as well, for
	// whoever expects nothing but version 2.
	ErrVersion1 = fmt.Errorf("version 1 file: %w", ErrCorrupt)
	// ErrUnknownVersion: the magic is right, the version is neither 1 nor 2; a newer program may have written it. It is
	// ErrCorrupt as well, for whoever has to stop in front of it.
	ErrUnknownVersion = fmt.Errorf("unknown version: %w", ErrCorrupt)
)

// The fields an InvalidError names.
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

// InvalidError says why incoming batches are refused. It matches ErrInvalid, and ErrTooLarge where Field is one of
// FieldBatchBytes, FieldDecompressed and FieldCompressionRatio.
type InvalidError struct {
	// Batch is the index of the batch within the input.
	Batch int
	// Field is one of the Field constants.
	Field string
	// Reason is a short phrase for people.
	Reason string
	// Limit and Given are what was allowed or expected and what was found, where numbers say it.
	Limit, Given int64
	// Err is the error of a decompressor, or nil.
	Err error
}

// Error returns the fault in one line.
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

// Is reports whether target is ErrInvalid, or ErrTooLarge where a size was the reason.
func (e *InvalidError) Is(target error) bool {
	if target == ErrTooLarge {
		return e.Field == FieldBatchBytes || e.Field == FieldDecompressed || e.Field == FieldCompressionRatio
	}
	return target == ErrInvalid
}

// Unwrap returns the decompressor's error.
func (e *InvalidError) Unwrap() error { return e.Err }

// CorruptError says what is wrong with stored bytes. It matches ErrCorrupt.
type CorruptError struct {
	// What names the part, like "head checksum" or "index".
	What string
	// Pos is where the part begins, in bytes from the start of the input.
	Pos int64
	// Want and Got are what was expected and what was found, where numbers say it.
	Want, Got int64
	// Err is the error found inside, or nil.
	Err error
}

// Error returns the fault in one line.
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

// Unwrap returns the error found inside.
func (e *CorruptError) Unwrap() error { return e.Err }
