package driplang

import (
	"strconv"
	"strings"
)

// subject returns the event of a clause with its filter in words. One that ends in a comma is a
// compound, so that the next word of the sentence is not part of it.
func (c *clause) subject() string {
	if c.event.where == nil {
		return name(c.event.name)
	}
	text, compound, ok := c.event.where.words(false, 0)
	if !ok {
		var b strings.Builder
		printFilter(&b, c.event.where)
		return name(c.event.name) + " that matches `" + b.String() + "`"
	}
	if compound {
		text += ","
	}
	return name(c.event.name) + " whose " + text
}

// comma returns the comma after a subject, unless it has one.
func comma(subject string) string {
	if strings.HasSuffix(subject, ",") {
		return ""
	}
	return ","
}

// formWords are the words of sentences that could be mistaken for a name.
var formWords = " after all and any at before between both by does each either exactly fewer from happen happens in is it matches " +
	"neither no none nor not of on or step that the then these unless until whose with within "

func formWord(s string) bool { return strings.Contains(formWords, " "+strings.ToLower(s)+" ") }

// name returns the name of an event or property. It is quoted if the sentence could be misread.
func name(s string) string {
	if plainName(s) && !formWord(s) && !strings.ContainsAny(s[len(s)-1:], ".:/-") {
		return s
	}
	return quote(s)
}

func property(path []string) string {
	if len(path) == 1 && formWord(path[0]) {
		return quote(path[0])
	}
	return FormatPath(path)
}

var compareWords = [...]string{
	equal: "is", unequal: "is not", less: "is less than", atMost: "is at most", greater: "is more than", atLeast: "is at least",
}

// words returns a filter, or its NOT, in words. compound: it has parts in commas. words reports
// false for a filter that is too deep.
func (f *filter) words(not bool, depth int) (text string, compound, ok bool) {
	switch f.op {
	case filterIs:
		return f.comparison(not), false, true
	case filterNot:
		return f.kids[0].words(!not, depth)
	}
	if depth > 1 {
		return "", false, false
	}
	word, before := " and ", "both "
	if f.op == filterOr != not {
		word, before = " or ", "either "
	}
	var plain, nested []string
	for _, k := range f.kids {
		text, _, ok := k.words(not, depth+1)
		switch {
		case !ok:
			return "", false, false
		case k.list():
			nested = append(nested, text)
		default:
			plain = append(plain, text)
		}
	}
	switch {
	case depth > 0 && len(nested) > 0:
		return "", false, false
	case depth > 0:
		return before + strings.Join(plain, word), false, true
	case len(nested) > 0:
		return strings.Join(append(plain, nested...), ","+word), true, true
	}
	return strings.Join(plain, word), false, true
}

// list reports whether f is an AND or OR, or the NOT of one.
func (f *filter) list() bool {
	for f.op == filterNot {
		f = f.kids[0]
	}
	return f.op != filterIs
}

// comparison returns a comparison, or its NOT, in words.
func (f *filter) comparison(not bool) string {
	verb := compareWords[f.cmp]
	switch {
	case !not:
	case f.cmp == equal || f.cmp == unequal:
		verb = compareWords[equal+unequal-f.cmp]
	default: // also true of other types
		verb = "is not" + strings.TrimPrefix(verb, "is")
	}
	return property(f.path) + " " + verb + " " + f.want.String()
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
