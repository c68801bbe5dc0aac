package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// CutLine returns the first line of a text, without its end, and the rest. A line ends with LF or
// CRLF; the last one needs no end.
func CutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// Lines reads lines, as CutLine cuts them, in bounded memory. It belongs to one goroutine.
type Lines struct {
	in     *bufio.Reader
	limit  int
	number int
}

// NewLines reads r. limit bounds the bytes of a line.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{in: bufio.NewReaderSize(r, min(64<<10, limit)), limit: limit}
}

// Number is the number of the last line that was returned, from 1.
func (l *Lines) Number() int { return l.number }

// Next returns the next line, which the caller owns, or io.EOF. It refuses UTF-16, but a byte order
// mark of UTF-8 is part of the first line: lines of any bytes are data.
func (l *Lines) Next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if line = append(line, part...); len(line) > l.limit+len("\r\n") {
			return nil, l.fault(fmt.Errorf("more than %d bytes", l.limit))
		}
		switch {
		case err == io.EOF && len(line) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull):
			return nil, l.fault(err)
		case err == nil || err == io.EOF:
			if l.number++; l.number == 1 {
				if _, err := Unmarked(line); err != nil {
					return nil, err
				}
			}
			if line, _ = CutLine(line); len(line) > l.limit {
				return nil, fmt.Errorf("line %d: more than %d bytes", l.number, l.limit)
			}
			return line, nil
		}
	}
}

// NextValue returns the next line that is not blank, without a byte order mark: the next value of
// NDJSON.
func (l *Lines) NextValue() ([]byte, error) {
	for {
		line, err := l.Next()
		if err != nil {
			return nil, err
		}
		if l.number == 1 {
			line, _ = Unmarked(line) // refused by Next
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

// fault is the fault of the line after the last one.
func (l *Lines) fault(err error) error { return fmt.Errorf("line %d: %w", l.number+1, err) }
