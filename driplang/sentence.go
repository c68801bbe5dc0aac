package driplang

import (
	"strconv"
	"strings"
)

// Sentence returns e in English, for a reader who does not know the operators:
//
//	user_created THEN (NOT use_x WITHIN 7 days)
//	7 days after user_created, unless use_x happens in that time.
//
// Every time limit names the instant from which it counts. An expression that is too deep for a
// sentence is a numbered outline of several lines, whose items refer to each other. Expressions with
// the same sentence have the same meaning. docs/reference/sentences.md lists the forms; they may
// change between versions.
func (e Expr) Sentence() string {
	if e.root == nil {
		return ""
	}
	c := newClause(e.root, false, around{})
	if text, ok := c.unless(); ok {
		return text + "."
	}
	if c.flat() {
		return capital(c.inline(setting{})) + "."
	}
	var o outline
	o.WriteString(capital(c.header(setting{})) + ":")
	o.items(c, "", setting{})
	return o.String()
}

// capital returns a sentence with a capital letter, unless it begins with a name.
func capital(s string) string {
	if word, _, _ := strings.Cut(s, " "); formWord(word) {
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return s
}

// setting is the surroundings of a clause in a sentence.
type setting struct {
	anchor   string // instant from which windows count; "" is the beginning
	until    string // end of an absence that has none
	byThen   bool   // an absence without an end is true when the clause completes
	windowed bool   // a window around the clause says when
}

// of returns the setting of the parts of a list.
func (s setting) of(c *clause) setting {
	s.windowed = s.windowed || c.within > 0 || c.after > 0
	if c.kind == all && s.until != "" && !c.guard() {
		s.until, s.byThen = "", true // the other parts have an instant
	}
	return s
}

// unless returns the sentence of X THEN (NOT Y WITHIN d), for an event X and events Y.
func (c *clause) unless() (string, bool) {
	if c.kind != sequence || c.not || len(c.kids) != 2 || c.kids[0].not || !c.kids[0].once() {
		return "", false
	}
	absent := c.kids[1]
	events := absent.kind == happens && absent.not || absent.kind == all && absent.each((*clause).absentOnce)
	if !events || absent.within == 0 || absent.after > 0 {
		return "", false
	}
	comes := &clause{kind: some}
	for _, k := range absent.list() {
		comes.kids = append(comes.kids, &clause{kind: happens, event: k.event, need: k.need})
	}
	left := c.kids[0].subject()
	return phrase(absent.within) + " after " + left + comma(left) + " unless " + comes.single().inline(setting{windowed: true}) + " in that time", true
}

// list returns the parts of c, or c alone if it is an event.
func (c *clause) list() []*clause {
	if c.kind == happens {
		return []*clause{c}
	}
	return c.kids
}

// inline returns a flat clause as one sentence.
func (c *clause) inline(s setting) string {
	switch c.kind {
	case happens:
		return c.happens() + c.when(s, "")
	case sequence:
		return c.steps(s)
	}
	inner := s.of(c)
	switch {
	case c.each((*clause).plain):
		return c.names(s)
	case c.kind == all && c.each((*clause).plainAbsence):
		if len(c.kids) == 2 {
			return "neither " + c.subjects("nor") + " happens" + c.when(s, "")
		}
		return "none of " + c.subjects("and") + " happens" + c.when(s, "")
	}
	var parts, absent []string
	for _, k := range c.kids {
		if text := k.inline(inner); k.not {
			absent = append(absent, text)
		} else {
			parts = append(parts, text)
		}
	}
	parts = append(parts, absent...)
	if c.kind == some {
		return list(parts, "or") + c.window(s, ", in any case ")
	}
	text := list(parts, "and")
	if !inner.byThen || c.present() > 1 {
		text += ", in any order"
	}
	return text + c.window(s, ", each ")
}

// names is inline for events that happen.
func (c *clause) names(s setting) string {
	switch {
	case c.kind == some:
		return c.subjects("or") + " happens" + c.window(s, " ")
	case len(c.kids) == 2:
		return c.subjects("and") + " both happen, in any order" + c.window(s, ", each ")
	}
	return c.subjects("and") + " all happen, in any order" + c.window(s, ", each ")
}

func (c *clause) subjects(word string) string {
	names := make([]string, len(c.kids))
	for i, k := range c.kids {
		names[i] = k.subject()
	}
	return list(names, word)
}

// list joins parts with commas, and the last with a word.
func list(parts []string, word string) string {
	last := len(parts) - 1
	if word == "nor" || last == 0 {
		return strings.Join(parts, " "+word+" ")
	}
	return strings.Join(parts[:last], ", ") + " " + word + " " + parts[last]
}

// happens returns subject and verb of an event.
func (c *clause) happens() string {
	n := strconv.Itoa(c.need)
	switch {
	case c.exactly && c.need == 1:
		return c.subject() + " happens exactly once"
	case c.exactly:
		return c.subject() + " happens exactly " + n + " times"
	case c.need == 1 && c.not:
		return c.subject() + " does not happen"
	case c.need == 1:
		return c.subject() + " happens"
	case c.not:
		return c.subject() + " happens fewer than " + n + " times"
	}
	return c.subject() + " happens at least " + n + " times"
}

// when returns the time of a clause with one subject: its window, or the bounds of an absence.
func (c *clause) when(s setting, before string) string {
	until := ""
	if c.absence() && !s.windowed {
		until = s.bounds()
	}
	switch {
	case c.sliding > 0:
		if until != "" {
			until = "," + until
		}
		return " within " + phrase(c.sliding) + ", counted from any " + name(c.event.name) + until
	case c.within > 0 || c.after > 0:
		return c.window(s, before+" ")
	}
	return until
}

// bounds returns the time of an absence that has no window.
func (s setting) bounds() string {
	switch {
	case s.byThen:
		return " by then"
	case s.until != "" && s.anchor != "":
		return " between " + s.anchor + " and " + s.until
	case s.until != "":
		return " before " + s.until
	case s.anchor != "":
		return " after " + s.anchor
	}
	return ""
}

// window returns the window of a clause after some words, "" if there is none.
func (c *clause) window(s setting, before string) string {
	from := " after " + s.anchor
	switch {
	case c.within > 0 && c.after > 0:
		return before + "between " + phrase(c.after) + " and " + phrase(c.within) + from
	case c.within > 0:
		return before + "within " + phrase(c.within) + from
	case c.after == 0:
		return ""
	case !c.absence():
		return before + "at least " + phrase(c.after) + from
	case s.byThen:
		return before + "from " + phrase(c.after) + from + ", by then"
	case s.until != "":
		return before + "from " + phrase(c.after) + from + " until " + s.until
	}
	return before + "from " + phrase(c.after) + from + " on"
}

// steps returns a flat sequence.
func (c *clause) steps(s setting) string {
	var b strings.Builder
	if c.not {
		b.WriteString("it does not happen" + c.when(s, "") + " that ")
	}
	step := setting{anchor: s.anchor, windowed: s.windowed && s.anchor == ""}
	var guards []string
	first := true
	for i, k := range c.kids {
		last := i == len(c.kids)-1
		if !last && k.guard() {
			guards = append(guards, k.guards())
			continue
		}
		if !first {
			b.WriteString(", and then ")
		}
		step.byThen = !last && k.kind == all
		if last && !c.not {
			step.until, step.byThen = s.until, s.byThen
		}
		b.WriteString(k.inline(step))
		if len(guards) > 0 {
			b.WriteString(", with " + strings.Join(guards, " and ") + k.between(first && s.anchor == ""))
		}
		guards, first = nil, false
		step = setting{anchor: c.anchor(k)}
	}
	if !c.not {
		b.WriteString(c.window(s, ", all of it "))
	}
	return b.String()
}

// anchor returns a name for the instant at which a step of a flat sequence completes.
func (c *clause) anchor(step *clause) string {
	if step.absence() {
		return "the end of that time"
	}
	if step.kind != happens || step.need > 1 {
		return "that"
	}
	same := 0
	c.walk(func(k *clause) {
		if k.kind == happens && k.event.name == step.event.name {
			same++
		}
	})
	if same > 1 {
		return "that"
	}
	return name(step.event.name)
}

func (c *clause) walk(f func(*clause)) {
	f(c)
	for _, k := range c.kids {
		k.walk(f)
	}
}

// guards returns a flat guard, for use after "with".
func (c *clause) guards() string {
	if c.kind == happens {
		if c.need == 1 {
			return "no " + c.subject()
		}
		return c.subject() + " fewer than " + strconv.Itoa(c.need) + " times"
	}
	parts := make([]string, len(c.kids))
	for i, k := range c.kids {
		parts[i] = k.guards()
	}
	if c.kind == some {
		return "either " + strings.Join(parts, " or ")
	}
	return strings.Join(parts, " and ")
}

// present returns the number of parts that are no absence.
func (c *clause) present() (n int) {
	for _, k := range c.kids {
		if !k.absence() {
			n++
		}
	}
	return n
}

// between says until when the guards of a step must be true: until its first event, or the last that
// a count needs. initial: from the start of the history.
func (c *clause) between(initial bool) string {
	switch {
	case c.several():
		return " before the first of them"
	case initial:
		return " before"
	}
	return " in between"
}

// outline is a sentence of several lines.
type outline struct {
	strings.Builder
}

// header returns the first line of a clause that is an outline.
func (c *clause) header(s setting) string {
	switch {
	case c.kind == some:
		return "at least one of these" + c.window(s, ", in any case ")
	case c.kind == all:
		return "all of these, in any order" + c.window(s, ", each ")
	case c.not:
		return "it does not happen" + c.when(s, "") + " that these steps happen in this order"
	}
	return "these steps, in this order" + c.window(s, ", all of it ")
}

func (o *outline) item(c *clause, number string, s setting) {
	o.WriteString("\n" + strings.Repeat("   ", strings.Count(number, ".")) + number + ". ")
	if c.flat() {
		o.WriteString(c.inline(s))
		return
	}
	o.WriteString(c.header(s) + ":")
	o.items(c, number+".", s)
}

// items writes the parts of a clause with numbers that begin with a prefix.
func (o *outline) items(c *clause, prefix string, s setting) {
	if c.kind != sequence {
		s = s.of(c)
		for i, k := range c.kids {
			o.item(k, prefix+strconv.Itoa(i+1), s)
		}
		return
	}
	number := func(i int) string { return "step " + prefix + strconv.Itoa(i+1) }
	end := func(i int) string { // the instant at which a step completes
		if c.kids[i].absence() {
			return "the end of " + number(i)
		}
		return number(i)
	}
	step, next := setting{anchor: s.anchor}, 0 // next is the first step after i that is no guard
	for i, k := range c.kids {
		for next = max(next, i+1); next < len(c.kids) && c.kids[next].guard(); {
			next++
		}
		step.until, step.byThen = "", false
		if next < len(c.kids) {
			step.until = end(next) // a guard lasts until the first event of that step
			if c.kids[next].several() {
				step.until = "the start of " + number(next)
			}
		} else if !c.not {
			step.until, step.byThen = s.until, s.byThen
		}
		o.item(k, prefix+strconv.Itoa(i+1), step)
		if !k.guard() {
			step.anchor = end(i)
		}
	}
}
