package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// harmless returns a writer to w. If w is a terminal, control characters of records and names cannot
// move its cursor, set its title or type for its user: they become visible as \x1b, except newlines
// and tabs. Files and pipes get each byte as it is.
func harmless(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	return &visible{w: w}
}

// visible is the writer of harmless to a terminal.
type visible struct {
	w    io.Writer
	last byte
	buf  []byte
}

func (v *visible) Write(b []byte) (int, error) {
	v.buf = v.buf[:0]
	for _, c := range b {
		// U+0080 to U+009F are control characters too; in UTF-8 they begin with 0xc2.
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f || v.last == 0xc2 && c >= 0x80 && c < 0xa0 {
			v.buf = fmt.Appendf(v.buf, `\x%02x`, c)
		} else {
			v.buf = append(v.buf, c)
		}
		v.last = c
	}
	if _, err := v.w.Write(v.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}
