package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Marks returns the lines around a section that a program writes into a document.
func Marks(program, name string) (begin, end string) {
	return "<!-- begin: " + name + " (written by " + program + ") -->\n", "<!-- end: " + name + " -->\n"
}

// ErrMarks means that a document has no such section.
var ErrMarks = errors.New("no section")

// Replace replaces the text between the marks of a section.
func Replace(document []byte, program, name, text string) ([]byte, error) {
	begin, end := Marks(program, name)
	before, rest, ok := bytes.Cut(document, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return nil, fmt.Errorf("%w %q: want the lines %q and %q", ErrMarks, name, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return []byte(string(before) + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + string(after)), nil
}
