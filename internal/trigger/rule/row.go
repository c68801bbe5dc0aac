package rule

import (
	"encoding/binary"
	"errors"
)

const hasRetractable = 1 << 7 // in the byte of flags

var errRow = errors.New("invalid row")

// Encode encodes the row without Due: flags, Last, the retractable firing if there is one, and the
// monitor's state.
func (w *Row) Encode() []byte {
	flags := byte(w.Flags)
	if !w.Retractable.IsZero() {
		flags |= hasRetractable
	}
	b := binary.AppendVarint(append(make([]byte, 0, 40+len(w.State)), flags), w.Last)
	if flags&hasRetractable != 0 {
		b = append(b, w.Retractable[:]...)
	}
	return append(b, w.State...)
}

// Decode decodes the output of Encode. The row does not keep data.
func (w *Row) Decode(data []byte, due int64) error {
	if len(data) < 2 {
		return errRow
	}
	last, n := binary.Varint(data[1:])
	if n <= 0 {
		return errRow
	}
	flags, rest := data[0], data[1+n:]
	*w = Row{Due: due, Last: last, Flags: Flags(flags &^ hasRetractable)}
	if flags&hasRetractable != 0 {
		if len(rest) < len(w.Retractable) {
			return errRow
		}
		rest = rest[copy(w.Retractable[:], rest):]
	}
	if len(rest) > 0 {
		w.State = append([]byte(nil), rest...)
	}
	return nil
}
