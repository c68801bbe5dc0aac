package driplang

import (
	"fmt"
	"strings"
)

// Error is a fault in an expression. The first one found is reported, alone.
type Error struct {
	// Line and Col are where the fault is in a text, both from 1; Col counts characters, not bytes. Zero if the
	// expression is JSON and the fault is not one of its syntax.
	Line, Col int
	// Pointer is where the fault is in a JSON document (RFC 6901); "" is the whole document, or no JSON.
	Pointer string
	// Message says what is wrong and, where that is known, what was expected.
	Message string
}

// Error is "line:col: message", or "pointer: message".
func (e *Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Message)
	case e.Pointer != "":
		return e.Pointer + ": " + e.Message
	}
	return e.Message
}

// caretWidth is how many characters of a long line Caret shows on either side of the fault.
const caretWidth = 60

// Caret is the line of text that the fault is in, with a caret below the place, for a terminal:
//
//	A THEN (B WITHIN 2 parsecs)
//	                 ^
//
// It is "" if the place is not known or not in text. Long lines are cut; what does not print is shown as a dot.
func (e *Error) Caret(text string) string {
	if e.Line < 1 || e.Col < 1 {
		return ""
	}
	for range e.Line - 1 {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	text, _, _ = strings.Cut(text, "\n")
	line := []rune(strings.TrimSuffix(text, "\r"))
	at := e.Col - 1
	if at > len(line) {
		return ""
	}
	from, to := max(0, at-caretWidth), min(len(line), at+caretWidth)
	var b strings.Builder
	for _, r := range line[from:to] {
		if r == '\t' {
			r = ' '
		} else if !printable(r) {
			r = '.'
		}
		b.WriteRune(r)
	}
	return b.String() + "\n" + strings.Repeat(" ", at-from) + "^"
}

// place is where a part of an expression came from.
type place struct {
	line, col int
	pointer   *pointer
}

func (p place) fault(format string, args ...any) *Error {
	return &Error{Line: p.line, Col: p.col, Pointer: p.pointer.String(), Message: fmt.Sprintf(format, args...)}
}

// pointer is a JSON Pointer as a path to the root, so that one costs nothing until there is a fault.
type pointer struct {
	up   *pointer
	step string
}

func (p *pointer) String() string {
	if p == nil || p.up == nil {
		return ""
	}
	return p.up.String() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p.step)
}
