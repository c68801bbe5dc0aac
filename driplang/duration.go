package driplang

import (
	"strconv"
	"strings"
	"time"
)

// units in milliseconds; the names of one unit in a row, the first is the canonical one.
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

// duration takes "7 days", "2h" or "1h30m", in milliseconds. before is what the duration follows, for the message.
func (l *lexer) duration(before string) (int64, *Error) {
	var total int64
	var start place
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
				return 0, at.fault("expected a duration such as 7 days or 1h30m%s, found %v", before, t)
			}
			break
		}
		whole := l.takeWhile(isDigit)
		fraction := ""
		if l.peek() == '.' {
			l.advance()
			if fraction = l.takeWhile(isDigit); fraction == "" {
				return 0, at.fault("expected digits after the point of '%s.'", clip(whole))
			}
		}
		l.skipSpace()
		unit := l.takeWhile(isUnitLetter)
		millis, err := at.amount(whole, fraction, unit)
		if err != nil {
			return 0, err
		}
		if total += millis; total > MaxMillis {
			return 0, at.fault("the duration is longer than 10 years")
		}
		if r := l.peek(); startsWord(r) {
			return 0, at.fault("unknown unit '%s'", clip(unit+l.takeWhile(inWord)))
		}
	}
	if total == 0 {
		return 0, start.fault("a duration must be longer than zero")
	}
	return total, nil
}

// clip is s, or its beginning, for a message.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// amount is a number of units in milliseconds.
func (p place) amount(whole, fraction, unit string) (int64, *Error) {
	if unit == "" {
		return 0, p.fault("expected a unit after %s: ms, s, m, h, d or w", clip(whole))
	}
	per, ok := unitMillis(unit)
	if !ok {
		return 0, p.fault("unknown unit '%s': use ms, s, m, h, d or w", clip(unit))
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > MaxMillis/per {
		return 0, p.fault("the duration is longer than 10 years")
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
		return 0, p.fault("%s.%s%s is not a whole number of milliseconds", clip(whole), clip(fraction), unit)
	}
	return n*per + part*per/scale, nil
}

// formatMillis is the canonical form of a duration: 7d, 1h30m.
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

// parseDuration reads a duration that stands alone.
func parseDuration(text string, at place) (int64, *Error) {
	if len(text) > MaxName {
		return 0, at.fault("the duration is longer than %d bytes", MaxName)
	}
	l := lexer{text: text, line: 1, col: 1}
	millis, err := l.duration("")
	if err == nil {
		if l.skipSpace(); l.pos < len(l.text) {
			err = at.fault("expected the end of the duration, found '%s'", clip(l.text[l.pos:]))
		}
	}
	if err != nil {
		err = at.fault("%s", err.Message)
	}
	return millis, err
}

// ParseDuration reads a duration as it stands in expressions, such as "7 days" or "1h30m": whole milliseconds, more than 0, at
// most 10 years. Errors are *Error.
func ParseDuration(text string) (time.Duration, error) {
	millis, err := parseDuration(text, place{line: 1, col: 1})
	if err != nil {
		return 0, err
	}
	return time.Duration(millis) * time.Millisecond, nil
}

// FormatDuration is the canonical form of a duration, such as 7d or 1h30m, in whole milliseconds.
func FormatDuration(d time.Duration) string { return formatMillis(d.Milliseconds()) }
