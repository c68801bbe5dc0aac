package driplang

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is an error in an expression. Parsing stops at the first one.
type Error struct {
	// Line and Col locate the error in a text, both from 1; Col counts characters, not bytes. They
	// are zero for JSON, unless the JSON syntax is wrong.
	Line, Col int
	// Pointer locates the error in a JSON document (RFC 6901). "" means the whole document, or a
	// text.
	Pointer string
	// Message describes the error and, if known, the expected input.
	Message string
}

// Error returns "line:col: message", or "pointer: message".
func (e *Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Message)
	case e.Pointer != "":
		return e.Pointer + ": " + e.Message
	}
	return e.Message
}

// caretWidth is the number of characters of a long line that Caret shows on each side of the error.
const caretWidth = 60

// Caret returns the line with the error, and a caret below its position, for a terminal:
//
//	A THEN (B WITHIN 2 parsecs)
//	                 ^
//
// It returns "" if the position is unknown or outside text. It shortens long lines, and shows
// unprintable characters as dots.
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

// position is the source of a part of an expression.
type position struct {
	line, col int
	pointer   *pointer
}

func (p position) errorf(format string, args ...any) *Error {
	return &Error{Line: p.line, Col: p.col, Pointer: p.pointer.String(), Message: fmt.Sprintf(format, args...)}
}

// pointer is a JSON Pointer as a path to the root. Its text is built only for an error.
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

// Suggest returns the name in known that is the most similar to name: few letters are changed,
// missing, added or swapped. It returns "" if none is similar, or if name is in known.
func Suggest(name string, known []string) string {
	limit, best, suggestion := (utf8.RuneCountInString(name)+2)/4, 0, ""
	for _, k := range known {
		if k == name {
			return ""
		}
		if len(k) > MaxName {
			continue
		}
		d := distance([]rune(strings.ToLower(name)), []rune(strings.ToLower(k)))
		if d <= limit && (suggestion == "" || d < best || d == best && k < suggestion) {
			best, suggestion = d, k
		}
	}
	return suggestion
}

// distance is the number of letters that are changed, missing, added or swapped with the next one.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
