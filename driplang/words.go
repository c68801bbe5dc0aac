package driplang

import (
	"strconv"
	"strings"
)

// subject returns the event of a clause with its filter in words.
func (c *clause) subject() string {
	if c.event.where == nil {
		return name(c.event.name)
	}
	text, ok := c.event.where.words(false, 0)
	if !ok {
		var b strings.Builder
		printFilter(&b, c.event.where)
		return name(c.event.name) + " that matches `" + b.String() + "`"
	}
	if strings.Contains(text, ", ") {
		text += ","
	}
	return name(c.event.name) + " whose " + text
}

func name(s string) string {
	if plainName(s) {
		return s
	}
	return quote(s)
}

var compareWords = [...]string{
	equal: "is", unequal: "is not", less: "is less than", atMost: "is at most", greater: "is more than", atLeast: "is at least",
}

// words returns a filter, or its NOT, in words. It reports false for a filter that is too deep.
func (f *filter) words(not bool, depth int) (string, bool) {
	switch f.op {
	case filterIs:
		verb := compareWords[f.cmp]
		switch {
		case !not:
		case f.cmp == equal || f.cmp == unequal:
			verb = compareWords[equal+unequal-f.cmp]
		default: // also true of other types
			verb = "is not" + strings.TrimPrefix(verb, "is")
		}
		return FormatPath(f.path) + " " + verb + " " + f.want.String(), true
	case filterNot:
		return f.kids[0].words(!not, depth)
	}
	if depth > 1 {
		return "", false
	}
	word, before := "and", "both "
	if f.op == filterOr != not {
		word, before = "or", "either "
	}
	var plain, nested []string
	for _, k := range f.kids {
		text, ok := k.words(not, depth+1)
		if !ok {
			return "", false
		}
		if strings.HasPrefix(text, "either ") || strings.HasPrefix(text, "both ") {
			nested = append(nested, text)
		} else {
			plain = append(plain, text)
		}
	}
	switch {
	case depth > 0 && len(nested) > 0:
		return "", false
	case depth > 0:
		return before + strings.Join(plain, " "+word+" "), true
	}
	return strings.Join(append(plain, nested...), map[bool]string{true: ", " + word + " ", false: " " + word + " "}[len(nested) > 0]), true
}

// phrase returns a duration in words.
func phrase(millis int64) string {
	var parts []string
	for i, u := range units[1:] {
		n := millis / u.millis
		if n == 0 {
			continue
		}
		millis -= n * u.millis
		unit := [...]string{"day", "hour", "minute", "second", "millisecond"}[i]
		if n > 1 {
			unit += "s"
		}
		parts = append(parts, strconv.FormatInt(n, 10)+" "+unit)
	}
	return list(parts, "and")
}
