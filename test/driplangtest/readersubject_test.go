package driplangtest_test

import (
	"strconv"
	"strings"
)

// subject is an event, perhaps with a condition.
type subject struct {
	name  string
	where string // filter; "" is none
	comma bool   // it ended with a comma
}

func (s subject) text() string {
	if s.where == "" {
		return s.name
	}
	return s.name + "[" + s.where + "]"
}

func (s subject) part() part {
	return part{text: s.text(), event: s.name}
}

// count compares the number of events. Expressions have no number above 1,000, but more than 1,000.
func (s subject) count(is string, n int) part {
	less := is == "<"
	if n == 1001 && is != "=" {
		n, is = 1000, map[string]string{"<": "<=", ">=": ">"}[is]
	}
	return part{text: "count(" + s.text() + ") " + is + " " + strconv.Itoa(n), absent: less, guard: less, maybe: less, bare: less}
}

func (r *reader) name() subject {
	name := r.next(wordName, "name")
	r.events = append(r.events, name)
	return subject{name: name}
}

// subject reads a name and its condition.
func (r *reader) subject() subject {
	s := r.name()
	switch {
	case r.accept("that matches"):
		s.where = strings.Trim(r.next(wordFilter, "filter"), "`")
	case r.accept("whose"):
		s.where, s.comma = r.condition()
	}
	return s
}

// condition reads a simple or a compound condition, which ends with a comma.
func (r *reader) condition() (text string, comma bool) {
	first, single := r.conditionPart()
	list := []string{first}
	op := ""
	if single {
		list, op = r.comparisons(list, "")
	}
	if len(list) > 1 || !r.continues("and") && !r.continues("or") {
		if !single {
			r.fail("a compound of one part")
		}
		return strings.Join(list, op), false
	}
	compound := !single
	for _, word := range []string{"and", "or"} {
		for r.continues(word) {
			r.take(", " + word)
			p, single := r.conditionPart()
			compound = compound || !single
			list, op = append(list, p), " "+strings.ToUpper(word)+" "
		}
		if len(list) > 1 {
			break
		}
	}
	if !compound {
		r.fail("a compound of comparisons")
	}
	r.take(",")
	return strings.Join(list, op), true
}

// continues reports whether a comma and a word continue a compound.
func (r *reader) continues(word string) bool {
	return r.sees(", "+word) && (r.peek(2).text == "either" || r.peek(2).text == "both" || r.comparesAt(2))
}

// comparesAt reports whether a comparison begins at a word.
func (r *reader) comparesAt(i int) bool {
	return r.peek(i).kind == wordName && r.peek(i+1).text == "is"
}

// comparisons reads more comparisons joined by and, or by or. one is the only word allowed, if it
// is not "".
func (r *reader) comparisons(list []string, one string) (all []string, op string) {
	for _, word := range []string{"and", "or"} {
		for (one == "" || one == word) && r.sees(word) && r.comparesAt(1) {
			r.take(word)
			list, op = append(list, r.comparison()), " "+strings.ToUpper(word)+" "
			one = word
		}
	}
	return list, op
}

// conditionPart reads a part of a compound. single: it is one comparison.
func (r *reader) conditionPart() (text string, single bool) {
	one := ""
	switch {
	case r.accept("either"):
		one = "or"
	case r.accept("both"):
		one = "and"
	default:
		return r.comparison(), true
	}
	list, op := r.comparisons([]string{r.comparison()}, one)
	if len(list) == 1 {
		r.fail("either or both with one comparison")
	}
	return "(" + strings.Join(list, op) + ")", false
}

// comparison reads a comparison of a property with a literal.
func (r *reader) comparison() string {
	path := r.next(wordName, "property")
	r.take("is")
	not := r.accept("not")
	sign := "="
	switch {
	case r.accept("less than"):
		sign = "<"
	case r.accept("at most"):
		sign = "<="
	case r.accept("more than"):
		sign = ">"
	case r.accept("at least"):
		sign = ">="
	case not:
		not, sign = false, "!="
	}
	w := r.peek(0)
	if r.words = r.words[min(1, len(r.words)):]; w.kind != wordNumber && w.kind != wordName {
		r.fail("expected a literal")
	}
	text := path + " " + sign + " " + w.text
	if not {
		return "(NOT (" + text + "))"
	}
	return text
}
