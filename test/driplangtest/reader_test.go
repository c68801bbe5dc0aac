package driplangtest_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/driplang"
)

// readSentence is the second reader of sentences: it returns the expression that a sentence says,
// following docs/reference/sentences.md alone. It checks that every anchor is the one that the
// position says. seen, if it is not nil, gets the words of the forms that it has.
func readSentence(sentence string, seen map[string]bool) (e driplang.Expr, err error) {
	r := &reader{lines: strings.Split(sentence, "\n"), seen: seen}
	defer func() {
		if p := recover(); p != nil {
			fault, ok := p.(unreadable)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("line %d, %s, before %q", r.line+1, string(fault), r.rest())
		}
	}()
	r.begin(r.lines[0], true)
	var p part
	switch {
	case len(r.lines) > 1:
		p = r.outline("", 0)
	case r.words[0].kind == wordNumber:
		p = r.unless()
		r.take(".")
	default:
		p = r.wholeLine()
		r.take(".")
	}
	r.endOfLine()
	if r.line != len(r.lines)-1 {
		r.fail("a line too many")
	}
	for _, e := range r.ends {
		if e != forever {
			r.fail("nothing after an absence that ends with %q", e)
		}
	}
	return driplang.Parse(p.text)
}

// unreadable is a panic of a reader: what is not in the forms.
type unreadable string

type reader struct {
	seen   map[string]bool
	lines  []string
	line   int
	around surroundings
	words  []word // the rest of the line
	anchor *anchor
	events []string // of the line
	named  []string // anchors of the line that are names
	ends   []end    // of absences, until their step is read
}

// surroundings are the lists around a line.
type surroundings struct {
	and      bool // one has AND
	windowed bool // one within the same sequence has a window
}

// anchor is a step from which windows are measured.
type anchor struct {
	number string // of an item; "" in the same line
	step   part
}

// part is an expression that was read.
type part struct {
	text   string
	event  string // the expression is this event, perhaps with a condition and a window
	absent bool   // it consists only of absences
	// guard: it is an absence without an end. maybe: one of its alternatives is.
	guard, maybe bool
	bare         bool // it has an absence that does not say when
	and          bool // it is a list with AND
	several      bool // it completes after its first event, and is no count
	sequence     bool // it has steps
	mixed        bool // it has an event, and an absence that a window would give an end
}

func (p part) operand() string { return "(" + p.text + ")" }

func (p part) not() part {
	return part{text: "NOT " + p.operand(), absent: true, guard: true, maybe: true, bare: true}
}

// joined joins parts with AND, OR or THEN.
func joined(op string, list []part) part {
	if len(list) == 1 {
		return list[0]
	}
	all := part{absent: true, guard: true, maybe: op != "OR", and: op == "AND"}
	operands := make([]string, len(list))
	parts := 0 // that are events or last a time
	for i, p := range list {
		operands[i] = p.operand()
		all.several = all.several || p.several
		all.mixed = all.mixed || p.mixed || op == "AND" && p.guard
		all.sequence = all.sequence || p.sequence || op == "THEN"
		if !p.guard {
			parts++
		}
		all.absent = all.absent && p.absent && (p.guard || op != "THEN" || i == len(list)-1)
		all.guard = all.guard && p.guard
		all.bare = all.bare || p.bare && op != "THEN"
		if op == "OR" {
			all.maybe = all.maybe || p.maybe
		} else {
			all.maybe = all.maybe && p.maybe
		}
	}
	all.several = (all.several || op != "OR" && parts > 1) && !all.absent
	all.mixed = all.mixed && !all.absent
	all.text = strings.Join(operands, " "+op+" ")
	return all
}

func (r *reader) fail(format string, args ...any) { panic(unreadable(fmt.Sprintf(format, args...))) }

func (r *reader) rest() string {
	var b strings.Builder
	for _, w := range r.words {
		b.WriteString(w.text + " ")
	}
	return b.String()
}

// begin starts a line.
func (r *reader) begin(text string, first bool) {
	list, err := wordsOf(text, first)
	if err != nil {
		r.fail("%v", err)
	}
	if len(list) == 0 {
		r.fail("empty line")
	}
	r.words, r.events, r.named = list, nil, nil
}

// endOfLine checks the end of a line and the names that its anchors use.
func (r *reader) endOfLine() {
	if len(r.words) > 0 {
		r.fail("expected the end of the line")
	}
	for _, name := range r.named {
		n := 0
		for _, event := range r.events {
			if event == name {
				n++
			}
		}
		if n != 1 {
			r.fail("the anchor %s is %d events of the line", name, n)
		}
	}
}

// sees reports whether the next words and signs are these. Signs are separated by spaces too.
func (r *reader) sees(text string) bool {
	want := strings.Fields(text)
	for i, w := range want {
		if r.peek(i).text != w {
			return false
		}
	}
	return true
}

// accept skips the next words if they are these.
func (r *reader) accept(text string) bool {
	if !r.sees(text) {
		return false
	}
	if r.seen != nil {
		r.seen[text] = true
	}
	r.words = r.words[len(strings.Fields(text)):]
	return true
}

func (r *reader) take(text string) {
	if !r.accept(text) {
		r.fail("expected %q", text)
	}
}

// peek returns a word, or the zero word after the last one.
func (r *reader) peek(i int) word {
	if i < len(r.words) {
		return r.words[i]
	}
	return word{}
}

func (r *reader) next(kind wordKind, what string) string {
	w := r.peek(0)
	if w.kind != kind || kind == wordName && what == "name" && !w.isEvent() {
		r.fail("expected a %s", what)
	}
	r.words = r.words[1:]
	return w.text
}

// number reads a whole number of at least the given one.
func (r *reader) number(least int) int {
	text := r.next(wordNumber, "number")
	n, err := strconv.Atoi(text)
	if err != nil || n < least || strconv.Itoa(n) != text {
		r.fail("number %s, expected one from %d", text, least)
	}
	return n
}

// outline reads a header and its items. The number of the header begins those of its items.
func (r *reader) outline(number string, depth int) part {
	op, windowed, whole := r.header()
	r.take(":")
	r.endOfLine()
	outer, around := r.anchor, r.around
	switch {
	case op == "THEN":
		r.around.windowed = false
	case op == "AND":
		r.around.and = true
		fallthrough
	default:
		r.around.windowed = r.around.windowed || windowed
	}
	ends := len(r.ends)
	var items []part
	for {
		n := number + strconv.Itoa(len(items)+1)
		text, ok := "", false
		if r.line+1 < len(r.lines) {
			text, ok = strings.CutPrefix(r.lines[r.line+1], strings.Repeat("   ", depth)+n+". ")
		}
		if !ok {
			break
		}
		r.line++
		r.begin(text, false)
		before := len(r.ends)
		items = append(items, r.item(n, depth))
		if op != "THEN" {
			continue
		}
		item := items[len(items)-1]
		if !item.guard {
			r.anchor = &anchor{n, item}
		}
		r.closeEnds(ends, before, n, item)
	}
	if len(items) < 2 {
		r.fail("fewer than two items")
	}
	r.around, r.anchor = around, outer
	p := whole(joined(op, items))
	r.checkPlace(p)
	return p
}

// item reads a line or an outline.
func (r *reader) item(number string, depth int) part {
	if r.words[len(r.words)-1].text == ":" {
		return r.outline(number+".", depth+1)
	}
	p := r.wholeLine()
	r.endOfLine()
	return p
}

// header returns the operator of an outline, whether it has a window, and a function for what the
// header says about all of it.
func (r *reader) header() (op string, windowed bool, whole func(part) part) {
	var w window
	before := ""
	switch {
	case r.accept("at least one of these"):
		op, before = "OR", ", in any case"
	case r.accept("all of these , in any order"):
		op, before = "AND", ", each"
	case r.accept("these steps , in this order"):
		op, before = "THEN", ", all of it"
	default:
		r.take("it does not happen")
		ends := len(r.ends)
		w = r.when()
		r.take("that these steps happen in this order")
		return "THEN", false, func(p part) part {
			r.forget(ends)
			return w.of(p.not())
		}
	}
	if windowed = r.accept(before); windowed {
		w = r.window()
	}
	return op, windowed, w.of
}

// wholeLine reads a clause, steps or a negation.
func (r *reader) wholeLine() part {
	outer := r.anchor
	defer func() { r.anchor = outer }()
	if r.accept("it does not happen") {
		ends := len(r.ends)
		w := r.when()
		r.take("that")
		list := r.steps()
		if len(list) == 1 {
			r.fail("a negation of a step without guards")
		}
		r.forget(ends)
		r.anchor = outer
		p := w.of(joined("THEN", list).not())
		r.checkList(p, ends)
		r.checkPlace(p)
		return p
	}
	list := r.steps()
	if len(list) == 1 {
		return list[0]
	}
	all := joined("THEN", list)
	if r.accept(", all of it") {
		r.anchor = outer
		return r.window().of(all)
	}
	return all
}

// steps reads steps with their guards.
func (r *reader) steps() (list []part) {
	for ends := len(r.ends); ; {
		before := len(r.ends)
		step := r.clause()
		r.checkList(step, before)
		r.checkPlace(step)
		if r.accept(", with") {
			guards, place := r.guards()
			if want := placeOf(step, r.anchor == nil); place != want {
				r.fail("guards %s, expected %s", place, want)
			}
			list = append(list, guards...)
		}
		list = append(list, step)
		if !step.guard {
			r.anchor = &anchor{"", step}
		}
		r.closeEnds(ends, before, "in the line", step)
		if !r.accept(", and then") {
			return list
		}
	}
}

// placeOf returns the words for the place of guards.
func placeOf(step part, first bool) string {
	switch {
	case step.several:
		return "before the first of them"
	case first:
		return "before"
	}
	return "in between"
}

// guards reads the guards of a step.
func (r *reader) guards() (list []part, place string) {
	for {
		if r.accept("either") {
			either := []part{r.absence()}
			for r.accept("or") {
				either = append(either, r.absence())
			}
			if len(either) == 1 {
				r.fail("either without or")
			}
			list = append(list, joined("OR", either))
		} else {
			list = append(list, r.absence())
		}
		if !r.accept("and") {
			break
		}
	}
	for _, place := range []string{"before the first of them", "before", "in between"} {
		if r.accept(place) {
			return list, place
		}
	}
	r.fail("expected before or in between")
	return nil, ""
}

func (r *reader) absence() part {
	if r.accept("no") {
		return r.subject().part().not()
	}
	s := r.subject()
	r.take("fewer than")
	n := r.number(2)
	r.take("times")
	return s.count("<", n)
}

// clause reads a happening, names or a list.
func (r *reader) clause() part {
	if r.sees("neither") || r.sees("none") {
		return r.noneOf()
	}
	s := r.subject()
	if s.where == "" && (r.sees(",") || r.sees("and") || r.sees("or")) {
		return r.names(s)
	}
	return r.list(s)
}

// noneOf reads neither A nor B, and none of A, B and C.
func (r *reader) noneOf() part {
	var list []part
	if r.accept("neither") {
		list = append(list, r.name().part().not())
		r.take("nor")
		list = append(list, r.name().part().not())
	} else {
		r.take("none of")
		list = append(list, r.name().part().not())
		for r.accept(",") {
			list = append(list, r.name().part().not())
		}
		r.take("and")
		list = append(list, r.name().part().not())
	}
	r.take("happens")
	return r.when().of(joined("AND", list))
}

// names reads the rest of A, B and C all happen, and of A, B or C happens.
func (r *reader) names(s subject) part {
	list := []part{s.part()}
	for r.accept(",") {
		list = append(list, r.name().part())
	}
	if r.accept("or") {
		list = append(list, r.name().part())
		r.take("happens")
		return r.optionalWindow().of(joined("OR", list))
	}
	r.take("and")
	if list = append(list, r.name().part()); len(list) == 2 {
		r.take("both happen , in any order")
	} else {
		r.take("all happen , in any order")
	}
	if r.accept(", each") {
		return r.window().of(joined("AND", list))
	}
	return joined("AND", list)
}

// list reads the rest of a happening, or of a list of them.
func (r *reader) list(s subject) part {
	list := []part{r.happening(s)}
	for r.sees(",") && r.peek(1).isEvent() {
		r.take(",")
		list = append(list, r.happening(r.subject()))
	}
	switch {
	case r.accept("and"):
		list = append(list, r.happening(r.subject()))
		all := joined("AND", list)
		r.accept(", in any order")
		if r.accept(", each") {
			return r.window().of(all)
		}
		return all
	case r.accept("or"):
		list = append(list, r.happening(r.subject()))
		if r.accept(", in any case") {
			return r.window().of(joined("OR", list))
		}
		return joined("OR", list)
	case len(list) > 1:
		r.fail("expected and, or")
	}
	return list[0]
}

// happening reads what a subject does.
func (r *reader) happening(s subject) part {
	if r.accept("does not happen") {
		return r.when().of(s.part().not())
	}
	r.take("happens")
	p, n := s.part(), 0
	switch {
	case r.sees("at least") && r.peek(3).text == "times":
		r.take("at least")
		n = r.number(2)
		r.take("times")
		p = s.count(">=", n)
	case r.accept("fewer than"):
		n = r.number(2)
		r.take("times")
		p = s.count("<", n)
	case r.accept("exactly once"):
		p = s.count("=", 1)
		p.event = s.name
	case r.accept("exactly"):
		p = s.count("=", r.number(2))
		r.take("times")
	}
	w := r.when()
	if w.counted == "" {
		return w.of(p)
	}
	if w.counted != s.name || n == 0 {
		r.fail("counted from any %s", w.counted)
	}
	all := part{text: s.count(">=", n).operand() + " WITHIN " + w.within, several: true}
	if p.absent {
		return window{placed: w.placed}.of(all.not())
	}
	return all
}

// unless reads A, and then no B in a time.
func (r *reader) unless() part {
	d := r.duration()
	r.take("after")
	s := r.subject()
	if !s.comma {
		r.take(",")
	}
	r.take("unless")
	clause := r.clause()
	if clause.absent {
		r.fail("unless with an absence")
	}
	r.take("in that time")
	return part{text: s.part().operand() + " THEN ((" + clause.not().text + ") WITHIN " + d.text() + ")"}
}
