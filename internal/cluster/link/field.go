package link

import (
	"fmt"

	"github.com/sebbroker/seb/record"
	"google.golang.org/protobuf/encoding/protowire"
)

// field is a field of a message: a varint or bytes, which are part of the message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	n      uint64
	bytes  []byte
}

// fields calls f with each varint and each bytes field of a message, and skips other fields.
func fields(b []byte, f func(field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("message: %w", protowire.ParseError(n))
		}
		b = b[n:]
		v := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		b = b[n:]
		if kind == protowire.VarintType || kind == protowire.BytesType {
			if err := f(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *field) want(name string, kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("%s: wire type %d, want %d", name, f.kind, kind)
	}
	return nil
}

// fill copies a field of exactly len(to) bytes.
func (f *field) fill(name string, to []byte) error {
	if err := f.want(name, protowire.BytesType); err != nil {
		return err
	}
	if len(f.bytes) != len(to) {
		return fmt.Errorf("%s: %d bytes, want %d", name, len(f.bytes), len(to))
	}
	copy(to, f.bytes)
	return nil
}

func (f *field) id(name string) (id record.ID, err error) {
	err = f.fill(name, id[:])
	return id, err
}

func (f *field) text(name string) (string, error) {
	return string(f.bytes), f.want(name, protowire.BytesType)
}

func (f *field) uint(name string, limit uint64) (uint64, error) {
	if err := f.want(name, protowire.VarintType); err != nil {
		return 0, err
	}
	if f.n > limit {
		return 0, fmt.Errorf("%s: %d, at most %d is allowed", name, f.n, limit)
	}
	return f.n, nil
}

func (f *field) flag(name string) (bool, error) {
	n, err := f.uint(name, 1)
	return n == 1, err
}
