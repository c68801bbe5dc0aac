package encoding

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

const (
	// HeadMax bounds the bytes before the first boundary, those of one part's headers, and those
	// after the last boundary.
	HeadMax = 8 << 10
	// boundaryMax is the limit of RFC 2046.
	boundaryMax = 70
)

// MultipartReader reads the body of a multipart produce: two parts, "sizes" with a JSON array of
// lengths and "records" with the concatenated records. The lengths determine the end of the second
// part, so the records are not searched for the boundary. Call ReadSizes, read exactly the sum of
// the sizes from R, then call End.
type MultipartReader struct {
	R    *bufio.Reader // positioned at the first record after ReadSizes
	dash []byte        // "--" and the boundary
}

// CheckBoundary returns what is wrong with the boundary of a multipart/form-data content type, or
// nil.
func CheckBoundary(b string) *api.Problem {
	if b == "" || len(b) > boundaryMax || strings.ContainsAny(b, "\r\n") {
		return problem.BadField("Content-Type", "multipart/form-data needs a boundary of 1 to %d bytes, given %d", boundaryMax, len(b))
	}
	return nil
}

// NewMultipartReader reads from r, whose buffer must hold HeadMax bytes.
func NewMultipartReader(r *bufio.Reader, boundary string) *MultipartReader {
	m := new(MultipartReader)
	m.Reset(r, boundary)
	return m
}

// Reset makes m read from r, like NewMultipartReader, and reuses its memory.
func (m *MultipartReader) Reset(r *bufio.Reader, boundary string) {
	m.R, m.dash = r, append(append(m.dash[:0], "--"...), boundary...)
}

// ReadSizes reads everything before the first byte of the first record.
func (m *MultipartReader) ReadSizes(p *Sizes) error {
	if err := m.open(); err != nil {
		return err
	}
	if err := m.partHead(fieldSizes); err != nil {
		return err
	}
	if err := m.parseSizes(p); err != nil {
		return err
	}
	if closed, err := m.delimiter(); err != nil || closed {
		return orProblem(err, problem.BadField("records", "the part is missing"))
	}
	return m.partHead("records")
}

func orProblem(err error, p *api.Problem) error {
	if err != nil {
		return err
	}
	return p
}

// open skips the preamble and the first boundary's line.
func (m *MultipartReader) open() error {
	for left := HeadMax; ; {
		line, err := m.line(&left)
		if err != nil {
			return err
		}
		if rest, ok := bytes.CutPrefix(line, m.dash); ok {
			switch rest = bytes.TrimLeft(rest, " \t"); {
			case string(rest) == "\r\n":
				return nil
			case bytes.HasPrefix(rest, []byte("--")):
				return problem.BadField(fieldSizes, "the part is missing")
			}
		}
	}
}

// line reads a line including its end. left is the remaining limit.
func (m *MultipartReader) line(left *int) ([]byte, error) {
	line, err := m.R.ReadSlice('\n')
	if *left -= len(line); *left < 0 || errors.Is(err, bufio.ErrBufferFull) {
		return nil, problem.BadField("body", "a part's headers, or what is before the first boundary, are over %d bytes", HeadMax)
	}
	if errors.Is(err, io.EOF) {
		return nil, problem.BadField("body", "ends within the multipart framing; is the boundary the one of the Content-Type header?")
	}
	return line, err
}

// partHead reads a part's headers and checks its name.
func (m *MultipartReader) partHead(want string) error {
	var disposition string
	inDisposition := false
	for left := HeadMax; ; {
		line, err := m.line(&left)
		if err != nil {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		if bytes.ContainsFunc(line, isControl) {
			return problem.BadField(want, "a control character in a part's header line")
		}
		if line[0] == ' ' || line[0] == '\t' { // a folded line continues the header before it
			if inDisposition {
				disposition += " " + string(bytes.TrimSpace(line))
			}
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return problem.BadField(want, "a part's header line without a colon")
		}
		value = bytes.TrimSpace(value)
		if inDisposition = isName(name, "content-disposition"); inDisposition {
			disposition = dispositionText(value)
		} else if isName(name, "content-transfer-encoding") {
			if e := strings.ToLower(string(value)); e != "binary" && e != "8bit" && e != "7bit" {
				return problem.BadField(want, "Content-Transfer-Encoding %q is not supported", e)
			}
		}
	}
	if name, ok := partName(disposition); !ok || name != want {
		return problem.BadField(want, "want the form-data parts sizes and records in this order, found part %q instead of %q", name, want)
	}
	return nil
}

// isName reports whether a header has a name, given in lower case. At equal length only ASCII
// letters fold.
func isName(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

// The usual dispositions.
const (
	sizesDisposition   = `form-data; name="sizes"`
	recordsDisposition = `form-data; name="records"`
)

// dispositionText is string(value), without a copy for the usual values.
func dispositionText(value []byte) string {
	switch string(value) {
	case sizesDisposition:
		return sizesDisposition
	case recordsDisposition:
		return recordsDisposition
	}
	return string(value)
}

// isControl reports characters that a header line must not contain. A tab is white space.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func partName(disposition string) (string, bool) {
	switch disposition {
	case sizesDisposition:
		return fieldSizes, true
	case recordsDisposition:
		return "records", true
	}
	kind, params, err := mime.ParseMediaType(disposition)
	return params["name"], err == nil && kind == "form-data"
}

// parseSizes reads the array and the white space after it, including the line end before the next
// boundary.
func (m *MultipartReader) parseSizes(p *Sizes) error {
	for done := false; !done; {
		if _, err := m.R.Peek(1); err != nil {
			return Ended(err, problem.BadField(fieldSizes, "ends within the array"))
		}
		b, _ := m.R.Peek(m.R.Buffered())
		n, end, fault := p.Feed(b)
		if fault != nil {
			return fault
		}
		_, _ = m.R.Discard(n) // the bytes are buffered
		done = end
	}
	last, before := byte(0), byte(0)
	for {
		c, err := m.R.ReadByte()
		if err != nil {
			return Ended(err, problem.BadField(fieldSizes, "no boundary after the array"))
		}
		if c == '-' && last == '\n' && before == '\r' {
			_ = m.R.UnreadByte() // the byte just read
			return nil
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return problem.BadField(fieldSizes, "found %q after the array", c)
		}
		before, last = last, c
	}
}

// delimiter reads a boundary's line after its leading CRLF and reports whether it is the closing
// one.
func (m *MultipartReader) delimiter() (closed bool, err error) {
	line, err := m.R.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = problem.BadField("body", "no boundary where a part must end")
		}
		return false, err
	}
	rest, ok := bytes.CutPrefix(line, m.dash)
	if !ok {
		return false, problem.BadField("body", "no boundary where a part must end")
	}
	rest, closed = bytes.CutPrefix(rest, []byte("--"))
	rest = bytes.TrimLeft(rest, " \t")
	if string(rest) == "\r\n" || closed && len(rest) == 0 {
		return closed, nil
	}
	return false, problem.BadField("body", "no boundary where a part must end")
}

// End reads the closing boundary after the records. Anything else means that the sizes are wrong.
func (m *MultipartReader) End(sum int64) error {
	mismatch := func() *api.Problem {
		return problem.BadField("records", "the part must have %d bytes, the sum of the sizes", sum)
	}
	for _, want := range []byte("\r\n") {
		if c, err := m.R.ReadByte(); err != nil || c != want {
			return Ended(err, mismatch())
		}
	}
	switch closed, err := m.delimiter(); {
	case err != nil:
		return Ended(err, mismatch())
	case !closed:
		return problem.BadField("body", "more than the parts sizes and records")
	}
	// The rest is an epilogue, normally empty. Reading it lets the connection be reused.
	if _, err := m.R.Peek(1); err == io.EOF {
		return nil
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(m.R, HeadMax+1)); err != nil || n > HeadMax {
		return orProblem(err, problem.BadField("body", "more than %d bytes after the last boundary", HeadMax))
	}
	return nil
}

// Ended returns p if the body was read to its end or has a fault of form. Otherwise it returns err,
// the error of reading, which may be a problem too if a limit was exceeded.
func Ended(err error, p *api.Problem) error {
	var inner *api.Problem
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &inner) && inner.Code == api.BadRequest {
		return p
	}
	return err
}
