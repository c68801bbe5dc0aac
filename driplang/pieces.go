package driplang

import (
	"strconv"
	"strings"
)

// opCompare is the operator of a comparison in a filter, only in a [piece].
const opCompare = opAfter + 1

// notation makes pieces from the terms of a source. Without its text, they have no positions.
type notation struct {
	text    string
	numbers map[string]int // of pieces, by their form
}

// next returns the token at a byte or after it, and its end. Outside the text it is tokEnd.
func (n *notation) next(at int) (token, int) {
	l := lexer{text: n.text, pos: min(at, len(n.text))}
	t, _ := l.next() // the text was parsed
	return t, l.pos
}

// closed returns the end of the parentheses that close after a byte, the next token and its end.
func (n *notation) closed(at int) (int, token, int) {
	for {
		t, end := n.next(at)
		if !t.is(")") {
			return at, t, end
		}
		at = end
	}
}

func (n *notation) start(at int) int {
	t, _ := n.next(at)
	return t.from
}

// numbered gives p its number.
func (n *notation) numbered(p *piece) *piece {
	var b strings.Builder
	b.WriteString(opForms[p.op] + p.text)
	for _, part := range p.parts {
		switch {
		case p.text != "":
		case part.kid != nil:
			b.WriteString(" " + strconv.Itoa(part.kid.number))
		default:
			b.WriteString(" " + part.text)
		}
	}
	form := b.String()
	number, ok := n.numbers[form]
	if !ok {
		number = len(n.numbers)
		n.numbers[form] = number
	}
	p.number = number
	return p
}

// opForms distinguish the forms of pieces.
var opForms = [...]string{
	opEvent: "event ", opCount: "count ", opNot: "not", opAnd: "and", opOr: "or", opThen: "then", opWithin: "within", opAfter: "after", opCompare: "is ",
}

func (n *notation) term(t *term) *piece {
	p := &piece{op: t.op, from: int(t.from), to: int(t.to)}
	switch t.op {
	case opEvent:
		p = n.event(t.event, p.from)
	case opCount:
		n.count(p, t)
	case opWithin, opAfter:
		kid := n.term(t.kids[0])
		end, word, wordEnd := n.closed(kid.to)
		p.parts = []part{
			{kid: kid, from: p.from, to: end},
			{text: opWords[t.op], from: word.from, to: wordEnd},
			{text: formatMillis(t.millis), from: n.start(wordEnd), to: p.to},
		}
	default:
		kids := make([]*piece, len(t.kids))
		for i, k := range t.kids {
			kids[i] = n.term(k)
		}
		n.operands(p, kids)
	}
	return n.numbered(p)
}

// operands makes the operands of a list or a NOT parts of p.
func (n *notation) operands(p *piece, kids []*piece) {
	from := p.from
	if p.op == opNot {
		_, word := n.next(from)
		from = n.start(word)
	}
	for _, kid := range kids {
		end, _, word := n.closed(kid.to)
		p.parts = append(p.parts, part{kid: kid, from: from, to: min(end, p.to)})
		from = n.start(word)
	}
}

// event returns the piece of an event whose name is at a byte.
func (n *notation) event(k eventKind, from int) *piece {
	_, end := n.next(from)
	p := &piece{op: opEvent, from: from, to: end, text: key(k)}
	p.parts = []part{{text: key(eventKind{name: k.name}), from: from, to: end}}
	if k.where != nil {
		filter := n.filter(k.where)
		_, bracket := n.next(end)
		place := part{kid: filter, from: n.start(bracket)}
		place.to, _, p.to = n.closed(filter.to)
		p.parts = append(p.parts, place)
	}
	return n.numbered(p)
}

// count adds the parts of a count to p.
func (n *notation) count(p *piece, t *term) {
	_, word := n.next(p.from)
	_, bracket := n.next(word)
	event := n.event(t.event, n.start(bracket))
	_, is, isEnd := n.closed(event.to)
	p.text = t.String()
	p.parts = []part{
		{kid: event, from: event.from, to: event.to},
		{text: t.is.String(), from: is.from, to: isEnd},
		{text: strconv.Itoa(t.n), from: n.start(isEnd), to: p.to},
	}
}

// filterOps are the operators of a filter as those of a term.
var filterOps = [...]op{filterAnd: opAnd, filterOr: opOr, filterNot: opNot, filterIs: opCompare}

func (n *notation) filter(f *filter) *piece {
	p := &piece{op: filterOps[f.op], from: int(f.from), to: int(f.to)}
	if f.op == filterIs {
		path, end := p.from, p.from
		sign, next := n.next(path)
		for sign.kind != tokEnd && (sign.kind != tokSign || sign.is(".")) {
			end = next
			sign, next = n.next(end)
		}
		p.parts = []part{
			{text: FormatPath(f.path), from: path, to: end},
			{text: f.cmp.String(), from: sign.from, to: next},
			{text: f.want.String(), from: n.start(next), to: p.to},
		}
		var b strings.Builder
		printFilter(&b, f)
		p.text = b.String()
		return n.numbered(p)
	}
	kids := make([]*piece, len(f.kids))
	for i, k := range f.kids {
		kids[i] = n.filter(k)
	}
	n.operands(p, kids)
	return n.numbered(p)
}

// align returns, for each operand of a list, the index of its place in another list; -1: a new one.
// The places are in order. Equal operands have the same place, if possible. Others take the places of
// those that are gone.
func align(list, old []part) []int {
	same := func(i, j int) bool { return list[i].kid.number == old[j].kid.number }
	places := make([]int, len(list))
	from := 0
	for from < min(len(list), len(old)) && same(from, from) {
		places[from] = from
		from++
	}
	end, oldEnd := len(list), len(old)
	for end > from && oldEnd > from && same(end-1, oldEnd-1) {
		end, oldEnd = end-1, oldEnd-1
		places[end] = oldEnd
	}
	common := commonest(end-from, oldEnd-from, func(i, j int) bool { return same(from+i, from+j) })
	next, oldNext := from, from
	for _, pair := range append(common, [2]int{end - from, oldEnd - from}) {
		for ; next < from+pair[0]; next++ {
			places[next] = -1
			if oldNext < from+pair[1] {
				places[next] = oldNext
				oldNext++
			}
		}
		if next < end {
			places[next] = from + pair[1]
		}
		next, oldNext = from+pair[0]+1, from+pair[1]+1
	}
	return places
}

// commonest returns a longest common subsequence of two lists with a and b elements, as pairs of
// indexes. It returns nil if it would need too much memory.
func commonest(a, b int, same func(i, j int) bool) (pairs [][2]int) {
	const most = 1 << 18
	if a*b > most {
		return nil
	}
	length := make([]uint16, (a+1)*(b+1)) // of those that begin at i, j
	at := func(i, j int) *uint16 { return &length[i*(b+1)+j] }
	for i := a - 1; i >= 0; i-- {
		for j := b - 1; j >= 0; j-- {
			if *at(i, j) = max(*at(i+1, j), *at(i, j+1)); same(i, j) {
				*at(i, j) = *at(i+1, j+1) + 1
			}
		}
	}
	for i, j := 0, 0; i < a && j < b; {
		switch {
		case same(i, j):
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case *at(i+1, j) >= *at(i, j+1):
			i++
		default:
			j++
		}
	}
	return pairs
}
