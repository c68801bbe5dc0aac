package driplang

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// TextLike returns e in text form, in the notation of source, the text of a similar expression. A
// part of e that source has too is written as there, with its spaces, line breaks, capitals and
// parentheses. If all of e is the same, the result is source. Operators whose operands changed keep
// the text between these. New parts have the canonical form.
//
// Parsing the result returns e. If the notation of source does not allow this, for example because
// the text would be longer than MaxText, the result is the canonical form of e. Errors are those of
// Parse for source.
func (e Expr) TextLike(source string) (string, error) {
	parsed, err := Parse(source)
	if err != nil {
		return "", err
	}
	if e.root == nil {
		return "", nil
	}
	numbers := map[string]int{}
	old := (&notation{text: source, numbers: numbers}).term(parsed.root)
	w := writer{text: source, found: map[int][]*piece{}}
	old.walk(func(p *piece) { w.found[p.number] = append(w.found[p.number], p) })
	w.operand((&notation{numbers: numbers}).term(e.root), 0, part{from: 0, to: len(source), kid: old})
	if again, err := Parse(w.String()); err != nil || !again.Equal(e) {
		return e.String(), nil
	}
	return w.String(), nil
}

// piece is a term, or a filter of an event.
type piece struct {
	op       op
	parts    []part
	number   int    // equal pieces have the same number
	text     string // of events, counts and comparisons: the canonical form
	from, to int    // in the source
}

// part is an operand of a piece, with the parentheses around it, or a word, name, number or
// duration. The parts of a list are its operands.
type part struct {
	kid      *piece // nil: no operand
	text     string // without an operand: the canonical form
	from, to int    // in the source
}

func (p *piece) walk(f func(*piece)) {
	f(p)
	for _, part := range p.parts {
		if part.kid != nil {
			part.kid.walk(f)
		}
	}
}

// has reports whether part of p has a number.
func (p *piece) has(number int) bool {
	return slices.ContainsFunc(p.parts, func(part part) bool {
		return part.kid != nil && (part.kid.number == number || part.kid.has(number))
	})
}

// alike reports whether p is written in the form of old: not if the source has p elsewhere, nor if an
// edit put old into a new operator.
func (w *writer) alike(p, old *piece) bool {
	return p.number == old.number || p.op.like() == old.op.like() && len(w.found[p.number]) == 0 && !p.has(old.number)
}

// like returns an operator that is written like o.
func (o op) like() op {
	switch {
	case o.list():
		return opThen
	case o == opAfter:
		return opWithin
	}
	return o
}

func (o op) list() bool { return o == opAnd || o == opOr || o == opThen }

// closed reports whether an operand needs no parentheses, in canonical form.
func (p *piece) closed() bool { return p.op == opEvent || p.op == opCompare }

// bare reports whether an operand with this operator needs no parentheses within an operator.
func (o op) bare(around op) bool {
	strength := func(o op) int { return slices.Index([]op{opThen, opOr, opAnd, opNot, opWithin}, o) }
	switch inner, outer := strength(min(o, opWithin)), strength(min(around, opWithin)); {
	case inner < 0 || outer < 0:
		return true
	case around.list():
		return inner > outer
	default:
		return inner >= outer
	}
}

// writer writes a piece in the notation of a source.
type writer struct {
	strings.Builder
	text  string           // the source
	found map[int][]*piece // pieces of the source by number, in the order of the text
}

// put writes a text, after a space if it would continue a word.
func (w *writer) put(text string) {
	if last, _ := utf8.DecodeLastRuneInString(w.String()); w.Len() > 0 && text != "" && inWord(last) {
		if first, _ := utf8.DecodeRuneInString(text); inWord(first) {
			w.WriteByte(' ')
		}
	}
	w.WriteString(text)
}

// operand writes p in the place of an operand of an operator, or of the whole if around is 0. It keeps
// the parentheses, unless p is an event that takes the place of an operation.
func (w *writer) operand(p *piece, around op, place part) {
	old := place.kid
	before, after := w.text[place.from:old.from], w.text[old.to:place.to]
	alike := w.alike(p, old)
	switch open := strings.Contains(before, "("); {
	case open && p.closed() && !old.closed():
		before, after = before[:strings.Index(before, "(")], after[strings.LastIndex(after, ")")+1:]
	case !open && around != 0 && !p.closed() && (!alike || !p.op.bare(around)):
		before, after = before+"(", ")"+after
	}
	w.put(before)
	if alike {
		w.inPlace(p, old)
	} else {
		w.fresh(p, old)
	}
	w.put(after)
}

// inPlace writes p in the form of a piece that is alike.
func (w *writer) inPlace(p, old *piece) {
	switch {
	case p.number == old.number:
		w.put(w.text[old.from:old.to])
	case p.op.list():
		w.list(p, old)
	case len(p.parts) > len(old.parts): // a filter, where the event had none
		w.part(p.op, p.parts[0], old.parts[0])
		w.filter(p.parts[1].kid, old)
	case len(p.parts) < len(old.parts):
		w.part(p.op, p.parts[0], old.parts[0])
	default:
		at := old.from
		for i, place := range old.parts {
			w.put(w.text[at:place.from])
			w.part(p.op, p.parts[i], place)
			at = place.to
		}
		w.put(w.text[at:old.to])
	}
}

func (w *writer) part(around op, p, place part) {
	switch {
	case p.kid != nil && (around == opEvent || around == opCount):
		w.operand(p.kid, 0, place)
	case p.kid != nil:
		w.operand(p.kid, around, place)
	case p.text == place.text:
		w.put(w.text[place.from:place.to])
	default:
		w.put(p.text)
	}
}

// list writes a list with the words and spaces of another one between its operands.
func (w *writer) list(p, old *piece) {
	between := 0 // index of the operand before the words in old
	for i, j := range align(p.parts, old.parts) {
		if j > 0 {
			between = j - 1
		}
		if i > 0 {
			words := w.text[old.parts[between].to:old.parts[between+1].from]
			if word := strings.Trim(words, spaces); p.op != old.op {
				words = strings.Replace(words, word, opWords[p.op], 1)
			}
			w.put(words)
		}
		if j < 0 {
			w.freshOperand(p.parts[i].kid, old)
			continue
		}
		w.operand(p.parts[i].kid, p.op, old.parts[j])
		between = min(j, len(old.parts)-2)
	}
}

// fresh writes a piece as it is somewhere in the source, preferably in near, or else in canonical form.
func (w *writer) fresh(p, near *piece) {
	if list := w.found[p.number]; len(list) > 0 {
		i := sort.Search(len(list), func(i int) bool { return list[i].from >= near.from })
		if i == len(list) || list[i].to > near.to {
			i = 0
		}
		w.put(w.text[list[i].from:list[i].to])
		return
	}
	switch p.op {
	case opEvent:
		w.put(p.parts[0].text)
		for _, filter := range p.parts[1:] {
			w.filter(filter.kid, near)
		}
	case opCount:
		w.put("count(")
		w.fresh(p.parts[0].kid, near)
		w.put(") " + p.parts[1].text + " " + p.parts[2].text)
	case opNot:
		w.put("NOT ")
		w.freshOperand(p.parts[0].kid, near)
	case opWithin, opAfter:
		w.freshOperand(p.parts[0].kid, near)
		w.put(" " + p.parts[1].text + " " + p.parts[2].text)
	case opAnd, opOr, opThen:
		for i, part := range p.parts {
			if i > 0 {
				w.put(" " + opWords[p.op] + " ")
			}
			w.freshOperand(part.kid, near)
		}
	default:
		w.put(p.text)
	}
}

func (w *writer) filter(p, near *piece) {
	w.put("[")
	w.fresh(p, near)
	w.put("]")
}

func (w *writer) freshOperand(p, near *piece) {
	if p.closed() {
		w.fresh(p, near)
		return
	}
	w.put("(")
	w.fresh(p, near)
	w.put(")")
}
