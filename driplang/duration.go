package driplang

import (
	"strconv"
	"strings"
	"time"
)

// units has the units in milliseconds with their names, the canonical name first.
var units = []struct {
	millis int64
	names  string
}{
	{7 * 24 * 3600 * 1000, "w week weeks"},
	{24 * 3600 * 1000, "d day days"},
	{3600 * 1000, "h hr hrs hour hours"},
	{60 * 1000, "m min mins minute minutes"},
	{1000, "s sec secs second seconds"},
	{1, "ms"},
}

func unitMillis(name string) (int64, bool) {
	for _, u := range units {
		for known := range strings.FieldsSeq(u.names) {
			if strings.EqualFold(name, known) {
				return u.millis, true
			}
		}
	}
	return 0, false
}

func isUnitLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// duration parses "7 days", "2h" or "1h30m" and returns milliseconds. before is the preceding text,
// for the message.
func (l *lexer) duration(before string) (int64, *Error) {
	var total int64
	var start position
	for first := true; ; first = false {
		l.skipSpace()
		at := l.here()
		if first {
			start = at
		}
		if !isDigit(l.peek()) {
			if first {
				t, err := l.next()
				if err != nil {
					return 0, err
				}
				return 0, at.errorf("expected a duration such as 7 days or 1h30m%s, found %v", before, t)
			}
			break
		}
		whole := l.takeWhile(isDigit)
		fraction := ""
		if l.peek() == '.' {
			l.advance()
			if fraction = l.takeWhile(isDigit); fraction == "" {
				return 0, at.errorf("expected digits after the point of '%s.'", clip(whole))
			}
		}
		l.skipSpace()
		unit := l.takeWhile(isUnitLetter)
		millis, err := at.amount(whole, fraction, unit)
		if err != nil {
			return 0, err
		}
		if total += millis; total > MaxMillis {
			return 0, at.errorf("the duration is longer than 10 years")
		}
		if r := l.peek(); startsWord(r) {
			return 0, at.errorf("unknown unit '%s'", clip(unit+l.takeWhile(inWord)))
		}
	}
	if total == 0 {
		return 0, start.errorf("a duration must be longer than zero")
	}
	return total, nil
}

// clip shortens s for a message.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// amount converts a number of units to milliseconds.
func (p position) amount(whole, fraction, unit string) (int64, *Error) {
	if unit == "" {
		return 0, p.errorf("expected a unit after %s: ms, s, m, h, d or w", clip(whole))
	}
	per, ok := unitMillis(unit)
	if !ok {
		return 0, p.errorf("unknown unit '%s': use ms, s, m, h, d or w", clip(unit))
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > MaxMillis/per {
		return 0, p.errorf("the duration is longer than 10 years")
	}
	fraction = strings.TrimRight(fraction, "0")
	if fraction == "" {
		return n * per, nil
	}
	scale := int64(1)
	for range min(len(fraction), 9) {
		scale *= 10
	}
	part, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil || len(fraction) > 9 || part*per%scale != 0 {
		return 0, p.errorf("%s.%s%s is not a whole number of milliseconds", clip(whole), clip(fraction), unit)
	}
	return n*per + part*per/scale, nil
}

// formatMillis returns the canonical form of a duration, such as 7d or 1h30m.
func formatMillis(millis int64) string {
	var b strings.Builder
	for _, u := range units[1:] {
		if n := millis / u.millis; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10))
			name, _, _ := strings.Cut(u.names, " ")
			b.WriteString(name)
			millis -= n * u.millis
		}
	}
	return b.String()
}

// parseDuration parses a text that is only a duration.
func parseDuration(text string, at position) (int64, *Error) {
	if len(text) > MaxName {
		return 0, at.errorf("the duration is longer than %d bytes", MaxName)
	}
	l := lexer{text: text, line: 1, col: 1}
	millis, err := l.duration("")
	if err == nil {
		if l.skipSpace(); l.pos < len(l.text) {
			err = at.errorf("expected the end of the duration, found '%s'", clip(l.text[l.pos:]))
		}
	}
	if err != nil {
		err = at.errorf("%s", err.Message)
	}
	return millis, err
}

// ParseDuration parses a duration in the form of expressions, such as "7 days" or "1h30m". It must
// be whole milliseconds, more than 0 and at most 10 years. Errors are *Error.
func ParseDuration(text string) (time.Duration, error) {
	millis, err := parseDuration(text, position{line: 1, col: 1})
	if err != nil {
		return 0, err
	}
	return time.Duration(millis) * time.Millisecond, nil
}

// FormatDuration returns the canonical form of a duration in whole milliseconds, such as 7d or
// 1h30m.
func FormatDuration(d time.Duration) string { return formatMillis(d.Milliseconds()) }

// DurationInWords returns a duration in whole milliseconds in English, such as 1 hour and 30 minutes.
func DurationInWords(d time.Duration) string {
	if d < time.Millisecond {
		return "0 milliseconds"
	}
	return phrase(d.Milliseconds())
}
