package driplangtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Chooser makes choices from bytes, for example a fuzzer's. Without more bytes it chooses 0, which
// ends every choice.
type Chooser struct {
	Bytes []byte
	// Rich: expressions have any names, filters, counts and durations. Otherwise they have few names
	// and small times, so that events often coincide.
	Rich bool
}

// Random returns a chooser with some bytes of a seed.
func Random(seed uint64) *Chooser {
	r := rand.New(rand.NewPCG(seed, 6))
	b := make([]byte, 30+r.IntN(150))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return &Chooser{Bytes: b}
}

// Below returns a number from 0 to n-1; n is at most 256.
func (c *Chooser) Below(n int) int {
	if len(c.Bytes) == 0 || n < 2 {
		return 0
	}
	b := c.Bytes[0]
	c.Bytes = c.Bytes[1:]
	return int(b) % n
}

// Tree is an expression that writes itself in the forms of docs/reference/driplang.md, without package
// driplang. It can be invalid: a window may be empty, or a count always true.
type Tree struct {
	op     string  // event, count, not, and, or, then, within, after
	kids   []*Tree // count: an event
	name   string  // event: in text form
	where  *condition
	is     string
	n      int
	millis int64
}

// condition is a filter.
type condition struct {
	op            string // and, or, not, is
	kids          []*condition
	path, literal string // in text form
	is            string
}

// Expression returns the text of a random expression. anchored: it will be on the right of a THEN.
func (c *Chooser) Expression(depth int, anchored bool) string { return c.Tree(depth, anchored).Text() }

// Tree returns a random expression.
func (c *Chooser) Tree(depth int, anchored bool) *Tree {
	choice := c.Below(16)
	if depth <= 0 {
		choice = 0
	}
	sub := func(anchored bool) *Tree { return c.Tree(depth-1, anchored) }
	switch {
	case choice < 3:
		return c.event()
	case choice < 5:
		return &Tree{op: "not", kids: []*Tree{sub(anchored)}}
	case choice < 6:
		return c.count(anchored)
	case choice < 8:
		return c.joined("and", func(int) *Tree { return sub(anchored) })
	case choice < 10:
		return c.joined("or", func(int) *Tree { return sub(anchored) })
	case choice < 14 || !anchored:
		return c.joined("then", func(i int) *Tree { return sub(anchored || i > 0) })
	case choice < 15:
		return c.window("within", sub(anchored), 7)
	}
	return c.window("after", sub(anchored), 4)
}

func (c *Chooser) joined(op string, operand func(i int) *Tree) *Tree {
	t := &Tree{op: op, kids: make([]*Tree, 2+c.Below(7)/5)}
	for i := range t.kids {
		t.kids[i] = operand(i)
	}
	return t
}

func (c *Chooser) window(op string, kid *Tree, most int) *Tree {
	t := &Tree{op: op, kids: []*Tree{kid}, millis: int64(1 + c.Below(most))}
	if c.Rich {
		for _, unit := range []int64{1, 1000, 60_000, 3600_000, 24 * 3600_000} {
			if c.Below(3) == 0 {
				t.millis += unit * int64(c.Below(40))
			}
		}
	}
	return t
}

// Names and paths in text form. Those that are words of sentences need care in a sentence.
var (
	names = []string{
		`"order placed"`, `happens`, `"and"`, `é.b:c/d-1`, `a.`, `"\"q\" \\ \n"`, "\"`\"", `that`, `"step 1"`, `"B, and then C"`, `"within"`, `no`, `in`, `None`,
		`user_created`, `"7 days"`,
	}
	paths    = []string{`x`, `y`, `user.plan`, `user."first name"`, `"and".is`, `is`, `"a.b"`, `no`, `either`, `é`}
	literals = []string{`1`, `0`, `"p"`, `-1.5`, `1e+21`, `9007199254740993`, `"a, b and c"`, "\"` happens\"", `"\"\\\n, "`, `true`, `false`, `null`}
	compares = []string{">=", ">", "=", "<", "<=", "!="}
)

func (c *Chooser) event() *Tree {
	t := &Tree{op: "event", name: string(rune('A' + c.Below(4)))}
	if c.Rich && c.Below(3) == 0 {
		t.name = names[c.Below(len(names))]
	}
	switch choice := c.Below(12); {
	case choice > 8 && c.Rich:
		t.where = c.condition(4)
	case choice == 10:
		t.where = &condition{op: "is", path: "x", is: ">", literal: "0"}
	case choice == 11:
		t.where = &condition{op: "or", kids: []*condition{
			{op: "is", path: "x", is: "=", literal: "1"}, {op: "is", path: "y", is: "=", literal: "null"},
		}}
	}
	return t
}

func (c *Chooser) condition(depth int) *condition {
	choice := c.Below(6)
	if depth == 0 {
		choice = 0
	}
	switch choice {
	case 3:
		return &condition{op: "not", kids: []*condition{c.condition(depth - 1)}}
	case 4, 5:
		list := &condition{op: []string{"and", "or"}[choice-4]}
		for range 2 + c.Below(2) {
			list.kids = append(list.kids, c.condition(depth-1))
		}
		return list
	}
	is := &condition{op: "is", path: paths[c.Below(len(paths))], is: compares[c.Below(6)], literal: literals[c.Below(len(literals))]}
	if strings.Contains("true false null", is.literal) { // these have no order
		is.is = "="
	}
	return is
}

func (c *Chooser) count(anchored bool) *Tree {
	t := &Tree{op: "count", is: compares[c.Below(6)], kids: []*Tree{c.event()}, n: 1 + c.Below(3)}
	if c.Rich && c.Below(4) == 0 {
		t.n = []int{0, 1000, 17}[c.Below(3)]
	}
	if !anchored && c.Below(2) > 0 && t.is[0] == '>' {
		return c.window("within", t, 7)
	}
	return t
}

// Text returns the canonical text.
func (t *Tree) Text() string { return t.text(nil) }

// Loose returns a text with other spaces, parentheses and capitals.
func (t *Tree) Loose(c *Chooser) string { return c.gap() + t.text(c) + c.gap() }

func (c *Chooser) gap() string { return []string{"", "", "", " ", "\n\t"}[c.Below(5)] }

// keyword returns a word between spaces.
func (c *Chooser) keyword(word string) string {
	word = strings.ToUpper(word)
	if c == nil {
		return " " + word + " "
	}
	if c.Below(4) == 0 {
		word = strings.ToLower(word)
	}
	return c.gap() + " " + word + " " + c.gap()
}

// text returns the text. A chooser that is not nil makes it loose.
func (t *Tree) text(c *Chooser) string {
	switch t.op {
	case "event":
		if t.where == nil {
			return t.name
		}
		return t.name + "[" + t.where.text() + "]"
	case "count":
		return "count(" + t.kids[0].text(c) + ") " + t.is + " " + strconv.Itoa(t.n)
	case "not":
		return strings.TrimLeft(c.keyword("not"), " \n\t") + t.kids[0].operand(c)
	case "within", "after":
		return t.kids[0].operand(c) + c.keyword(t.op) + duration(t.millis)
	}
	operands := make([]string, len(t.kids))
	for i, k := range t.kids {
		operands[i] = k.operand(c)
	}
	return strings.Join(operands, c.keyword(t.op))
}

func (t *Tree) operand(c *Chooser) string {
	text := t.text(c)
	if t.op != "event" {
		text = "(" + text + ")"
	}
	for c != nil && c.Below(8) == 7 {
		text = "(" + c.gap() + text + c.gap() + ")"
	}
	return text
}

func (f *condition) text() string {
	if f.op == "is" {
		return f.path + " " + f.is + " " + f.literal
	}
	operands := make([]string, len(f.kids))
	for i, k := range f.kids {
		if operands[i] = k.text(); k.op != "is" {
			operands[i] = "(" + operands[i] + ")"
		}
	}
	if f.op == "not" {
		return "NOT " + operands[0]
	}
	return strings.Join(operands, " "+strings.ToUpper(f.op)+" ")
}

func duration(millis int64) (text string) {
	for _, unit := range []struct {
		millis int64
		name   string
	}{{24 * 3600_000, "d"}, {3600_000, "h"}, {60_000, "m"}, {1000, "s"}, {1, "ms"}} {
		if n := millis / unit.millis; n > 0 {
			text += strconv.FormatInt(n, 10) + unit.name
			millis -= n * unit.millis
		}
	}
	return text
}

// JSON returns the canonical JSON.
func (t *Tree) JSON() string {
	switch t.op {
	case "event":
		name := t.name
		if name[0] != '"' {
			name = `"` + name + `"`
		}
		if t.where == nil {
			return `{"event":` + name + `}`
		}
		return `{"event":` + name + `,"where":` + t.where.json() + `}`
	case "count":
		return fmt.Sprintf(`{"count":%s,"is":"%s","n":%d}`, t.kids[0].JSON(), t.is, t.n)
	case "not":
		return `{"not":` + t.kids[0].JSON() + `}`
	case "within":
		return fmt.Sprintf(`{"within":%s,"for":"%s"}`, t.kids[0].JSON(), duration(t.millis))
	case "after":
		return fmt.Sprintf(`{"after":%s,"by":"%s"}`, t.kids[0].JSON(), duration(t.millis))
	}
	operands := make([]string, len(t.kids))
	for i, k := range t.kids {
		operands[i] = k.JSON()
	}
	return `{"` + t.op + `":[` + strings.Join(operands, ",") + "]}"
}

func (f *condition) json() string {
	switch f.op {
	case "is":
		return fmt.Sprintf(`{"property":"%s","is":"%s","value":%s}`, strings.ReplaceAll(f.path, `"`, `\"`), f.is, f.literal)
	case "not":
		return `{"not":` + f.kids[0].json() + `}`
	}
	operands := make([]string, len(f.kids))
	for i, k := range f.kids {
		operands[i] = k.json()
	}
	return `{"` + f.op + `":[` + strings.Join(operands, ",") + "]}"
}

// Nodes returns t and its parts, each before its operands. The event of a count is not one.
func (t *Tree) Nodes() []*Tree {
	list := []*Tree{t}
	if t.op != "count" {
		for _, k := range t.kids {
			list = append(list, k.Nodes()...)
		}
	}
	return list
}
