package input

import (
	"fmt"
	"time"
)

// TimeExample is a time for messages.
const TimeExample = "2026-03-01T12:00:00Z"

// A TimeError is a text that is no time. Its message quotes the start of the text.
type TimeError struct{ Text string }

func (e *TimeError) Error() string {
	return fmt.Sprintf("want RFC 3339, such as %s, given %.60q", TimeExample, e.Text)
}

// Time parses a time in RFC 3339, sections 5.6 and 5.8, such as 2026-03-01T12:00:00.5+01:00. T and Z
// may be lower-case. A fraction has any number of digits; those after the ninth are dropped. A leap
// second, 23:59:60 UTC on the last day of a month, is the first second of the next day, as in POSIX.
// It does not allocate for a time in UTC. Errors: *TimeError.
func Time[T string | []byte](text T) (time.Time, error) {
	s := scanner[T]{text: text}
	year, month, day := s.number(4, 0, 9999), s.after('-', 1, 12), s.after('-', 1, 31)
	s.letter('T')
	hour, minute, second := s.number(2, 0, 23), s.after(':', 0, 59), s.after(':', 0, 60)
	nanos := s.fraction()
	zone := s.zone()
	if s.bad || s.at != len(text) {
		return time.Time{}, &TimeError{string(text)}
	}
	at := time.Date(year, time.Month(month), day, hour, minute, min(second, 59), nanos, zone)
	leap := second == 60
	if utc := at.UTC(); at.Day() != day || leap && (utc.Hour() != 23 || utc.Minute() != 59 || utc.AddDate(0, 0, 1).Day() != 1 || utc.Year() == 9999) {
		return time.Time{}, &TimeError{string(text)}
	}
	if leap {
		at = at.Add(time.Second)
	}
	return at, nil
}

// scanner reads the parts of a time. Without one of them it is bad.
type scanner[T string | []byte] struct {
	text T
	at   int
	bad  bool
}

// take reads a character and reports whether it is there.
func (s *scanner[T]) take(c byte) bool {
	there := s.at < len(s.text) && s.text[s.at] == c
	if there {
		s.at++
	}
	return there
}

// letter reads a letter of any case.
func (s *scanner[T]) letter(c byte) { s.bad = !s.take(c) && !s.take(c|' ') || s.bad }

// after reads a character and a number of two digits.
func (s *scanner[T]) after(c byte, least, most int) int {
	s.bad = !s.take(c) || s.bad
	return s.number(2, least, most)
}

func (s *scanner[T]) number(digits, least, most int) (n int) {
	for range digits {
		n = 10*n + s.digit()
	}
	s.bad = s.bad || n < least || n > most
	return n
}

func (s *scanner[T]) isDigit() bool {
	return s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9'
}

func (s *scanner[T]) digit() int {
	if !s.isDigit() {
		s.bad = true
		return 0
	}
	s.at++
	return int(s.text[s.at-1] - '0')
}

// fraction returns the nanoseconds of an optional fraction.
func (s *scanner[T]) fraction() (nanos int) {
	if !s.take('.') {
		return 0
	}
	s.bad = s.bad || !s.isDigit()
	for unit := int(time.Second / 10); s.isDigit(); unit /= 10 {
		nanos += unit * s.digit()
	}
	return nanos
}

func (s *scanner[T]) zone() *time.Location {
	sign := 1
	switch {
	case s.take('+'):
	case s.take('-'):
		sign = -1
	default:
		s.letter('Z')
		return time.UTC
	}
	offset := 60 * (60*s.number(2, 0, 23) + s.after(':', 0, 59))
	if offset == 0 || s.bad {
		return time.UTC
	}
	return time.FixedZone("", sign*offset)
}
