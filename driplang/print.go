package driplang

import (
	"slices"
	"strconv"
	"strings"
)

// String returns e in canonical text form: keywords in capitals, every operand that is an operation
// in parentheses, durations as 7d or 1h30m. Parsing it returns e.
func (e Expr) String() string {
	if e.root == nil {
		return ""
	}
	return e.root.String()
}

func printTerm(b *strings.Builder, t *term) {
	switch t.op {
	case opEvent:
		printEvent(b, t.event)
	case opCount:
		b.WriteString("count(")
		printEvent(b, t.event)
		b.WriteString(") " + t.is.String() + " " + strconv.Itoa(t.n))
	case opNot:
		b.WriteString("NOT ")
		printOperand(b, t.kids[0])
	case opWithin, opAfter:
		printOperand(b, t.kids[0])
		b.WriteString(" " + opWords[t.op] + " " + formatMillis(t.millis))
	default:
		for i, k := range t.kids {
			if i > 0 {
				b.WriteString(" " + opWords[t.op] + " ")
			}
			printOperand(b, k)
		}
	}
}

func printOperand(b *strings.Builder, t *term) {
	if t.op == opEvent {
		printEvent(b, t.event)
		return
	}
	b.WriteByte('(')
	printTerm(b, t)
	b.WriteByte(')')
}

func printEvent(b *strings.Builder, k eventKind) {
	if plainName(k.name) {
		b.WriteString(k.name)
	} else {
		b.WriteString(quote(k.name))
	}
	if k.where != nil {
		b.WriteByte('[')
		printFilter(b, k.where)
		b.WriteByte(']')
	}
}

// plainName reports whether an event name needs no quotes.
func plainName(name string) bool {
	for i, r := range name {
		if i == 0 && !startsWord(r) || !inWord(r) {
			return false
		}
	}
	return name != "" && !isKeyword(name)
}

var filterWords = [...]string{filterAnd: " AND ", filterOr: " OR "}

func printFilter(b *strings.Builder, f *filter) {
	switch f.op {
	case filterIs:
		b.WriteString(FormatPath(f.path) + " " + f.cmp.String() + " " + f.want.String())
	case filterNot:
		b.WriteString("NOT ")
		printFilterOperand(b, f.kids[0])
	default:
		for i, k := range f.kids {
			if i > 0 {
				b.WriteString(filterWords[f.op])
			}
			printFilterOperand(b, k)
		}
	}
}

func printFilterOperand(b *strings.Builder, f *filter) {
	if f.op == filterIs {
		printFilter(b, f)
		return
	}
	b.WriteByte('(')
	printFilter(b, f)
	b.WriteByte(')')
}

// FormatName returns an event name in text form, in quotes if it needs them.
func FormatName(name string) string {
	if plainName(name) {
		return name
	}
	return quote(name)
}

// FormatPath returns the path of a property in text form, such as user."first name".
func FormatPath(path []string) string {
	members := make([]string, len(path))
	for i, m := range path {
		if members[i] = m; !plainMember(m) {
			members[i] = quote(m)
		}
	}
	return strings.Join(members, ".")
}

// compare is a comparison in a filter or of a count.
type compare uint8

// The comparisons: =, !=, <, <=, > and >=.
const (
	equal compare = iota + 1
	unequal
	less
	atMost
	greater
	atLeast
)

var compareSigns = [...]string{equal: "=", unequal: "!=", less: "<", atMost: "<=", greater: ">", atLeast: ">="}

func (c compare) String() string { return compareSigns[c] }

// parseCompare returns the comparison with this sign.
func parseCompare(sign string) (compare, bool) {
	i := slices.Index(compareSigns[:], sign)
	return compare(max(i, 0)), i > 0
}

// holds reports whether the comparison holds for two values with this order: negative, zero or
// positive.
func (c compare) holds(order int) bool {
	switch c {
	case equal:
		return order == 0
	case unequal:
		return order != 0
	case less:
		return order < 0
	case atMost:
		return order <= 0
	case greater:
		return order > 0
	}
	return order >= 0
}
