package driplangtest_test

import (
	"slices"
	"strconv"
	"strings"
)

// window is a window as it was read. The zero value is none.
type window struct {
	after, within string
	counted       string // counted from any event of this name
	absence       bool   // said of an absence
	placed        bool   // no window, but the place of an absence
	r             *reader
}

// of returns p within w.
func (w window) of(p part) part {
	if w.after != "" && w.within == "" && w.absence != p.absent {
		w.r.fail("%s: at least for an absence, or from for an event", p.text)
	}
	if w.counted != "" {
		w.r.fail("counted from any %s, without a count", w.counted)
	}
	p.bare = p.bare && w.after == "" && w.within == "" && !w.placed
	if w.after != "" {
		p.text = p.operand() + " AFTER " + w.after
	}
	if w.within != "" {
		p.text, p.guard, p.maybe = p.operand()+" WITHIN "+w.within, false, false
		p.several = p.several || p.mixed
	}
	return p
}

// optionalWindow reads a window if there is one.
func (r *reader) optionalWindow() window {
	if r.sees("within") || r.sees("between") || r.sees("at least") || r.sees("from") {
		return r.window()
	}
	return window{}
}

// window reads a window.
func (r *reader) window() window {
	w := window{r: r}
	switch {
	case r.accept("within"):
		w.within = r.duration().text()
		if r.accept(", counted from any") {
			w.counted = r.next(wordName, "name")
			if r.anchor != nil && !r.anchor.step.maybe {
				r.fail("counted from any %s after a step", w.counted)
			}
			return w
		}
		r.after()
	case r.accept("between"):
		d, e := r.durations()
		w.after, w.within = d.text(), e.text()
		r.after()
	case r.accept("at least"):
		w.after = r.duration().text()
		r.after()
	default:
		r.take("from")
		w.after, w.absence = r.duration().text(), true
		r.after()
		switch {
		case r.accept("until"):
			r.end()
		case r.accept(", by then"):
			r.until(byThen)
		default:
			r.take("on")
			r.until(forever)
		}
	}
	return w
}

// when reads a window or the place of an absence, if there is one.
func (r *reader) when() window {
	if r.sees("between") && r.peek(1).kind == wordNumber {
		return r.window()
	}
	if r.absent() {
		return window{placed: true}
	}
	w := r.optionalWindow()
	if next := r.peek(1).text; w.counted != "" && r.sees(",") && (next == "by" || next == "between" || next == "before" || next == "after") {
		r.take(",")
		w.placed = r.absent()
	}
	return w
}

// absent reads the place of an absence.
func (r *reader) absent() bool {
	switch {
	case r.accept("by then"):
		r.until(byThen)
	case r.accept("between"):
		r.anchored()
		r.take("and")
		r.end()
	case r.accept("before"):
		if r.anchor != nil {
			r.fail("before a step, but after another one")
		}
		r.end()
	case r.sees("after"):
		r.after()
		r.until(forever)
	default:
		return false
	}
	return true
}

// end is until when an absence without an end must be absent: a step, byThen or forever.
type end string

const (
	byThen  end = "by then" // until the list around it is complete
	forever end = "on"
)

func (r *reader) until(e end) { r.ends = append(r.ends, e) }

// end reads the step until which an absence lasts.
func (r *reader) end() {
	for _, words := range []string{"step", "the start of step", "the end of step"} {
		if r.accept(words) {
			r.until(end(words + " " + r.next(wordNumber, "number")))
			return
		}
	}
	r.fail("expected a step")
}

// forget forgets the absences that end with nothing in a negation, which may itself end.
func (r *reader) forget(from int) {
	all := r.ends
	r.ends = all[:from:from]
	for _, e := range all[from:] {
		if e != forever {
			r.ends = append(r.ends, e)
		}
	}
}

// checkPlace checks that the absences of a part say when.
func (r *reader) checkPlace(p part) {
	if p.bare && r.anchor != nil && !r.around.windowed {
		r.fail("an absence does not say when")
	}
}

// checkList checks that the absences of a part whose ends begin at from are in a list with AND, if
// they say by then.
func (r *reader) checkList(p part, from int) {
	if !p.and && !r.around.and && slices.Contains(r.ends[from:], byThen) {
		r.fail("by then, in no list")
	}
}

// closeEnds checks that the absences in earlier steps of a sequence, from the given one on, end with
// the step that was read from the given one.
func (r *reader) closeEnds(from, to int, number string, step part) {
	var open []end
	for _, e := range r.ends[from:to] {
		want := end("step " + number)
		switch {
		case step.absent:
			want = "the end of " + want
		case step.several, step.sequence && e == "the start of "+want:
			want = "the start of " + want
		}
		switch {
		case e == byThen:
		case step.guard:
			open = append(open, e)
		case e != want:
			r.fail("an absence ends with %q, expected %q", e, want)
		}
	}
	r.ends = append(append(r.ends[:from:from], open...), r.ends[to:]...)
}

func (r *reader) after() {
	r.take("after")
	r.anchored()
}

// anchored reads an anchor and checks it.
func (r *reader) anchored() {
	var want []string
	if r.anchor == nil {
		r.fail("nothing to measure from")
	}
	step := r.anchor.step
	switch n := r.anchor.number; {
	case n != "" && step.absent:
		want = append(want, "the end of step "+n)
	case n != "":
		want = append(want, "step "+n)
	case step.absent:
		want = append(want, "the end of that time")
	default:
		want = append(want, "that")
		if step.event != "" && r.peek(0).text == step.event {
			r.words = r.words[1:]
			r.named = append(r.named, step.event)
			return
		}
	}
	if !slices.ContainsFunc(want, r.accept) {
		r.fail("expected %q", want)
	}
}

// amounts of a duration: the number of each unit.
type amount struct {
	n    int
	unit int // index into durationUnits
}

type amounts []amount

var durationUnits = []string{"day", "hour", "minute", "second", "millisecond"}

var unitSigns = []string{"d", "h", "m", "s", "ms"}

func (list amounts) text() string {
	var b strings.Builder
	for _, a := range list {
		b.WriteString(strconv.Itoa(a.n) + unitSigns[a.unit])
	}
	return b.String()
}

func (list amounts) millis() (sum int) {
	for _, a := range list {
		sum += a.n * []int{24 * 3600_000, 3600_000, 60_000, 1000, 1}[a.unit]
	}
	return sum
}

// is reports whether the list is a duration: its units descend, and the last one follows an and.
func (list amounts) is(separators []string) bool {
	for i := 1; i < len(list); i++ {
		want := ","
		if i == len(list)-1 {
			want = "and"
		}
		if list[i].unit <= list[i-1].unit || separators[i-1] != want {
			return false
		}
	}
	return len(list) > 0
}

// amounts reads amounts and the separators between them.
func (r *reader) amounts() (list amounts, separators []string) {
	for {
		n := r.number(1)
		name := r.next(wordName, "unit")
		unit := slices.Index(durationUnits, strings.TrimSuffix(name, "s"))
		if unit < 0 || strings.HasSuffix(name, "s") != (n != 1) {
			r.fail("%d %s is no duration", n, name)
		}
		list = append(list, amount{n, unit})
		if s := r.peek(0).text; (s == "," || s == "and") && r.peek(1).kind == wordNumber {
			r.take(s)
			separators = append(separators, s)
			continue
		}
		return list, separators
	}
}

func (r *reader) duration() amounts {
	list, separators := r.amounts()
	if !list.is(separators) {
		r.fail("not a duration")
	}
	return list
}

// durations reads two durations joined by and, the first of which is at most the second.
func (r *reader) durations() (d, e amounts) {
	list, separators := r.amounts()
	for i := 1; i < len(list); i++ {
		first, second := list[:i], list[i:]
		if separators[i-1] != "and" || !first.is(separators[:i-1]) || !second.is(separators[i:]) || first.millis() > second.millis() {
			continue
		}
		if d != nil {
			r.fail("two readings of two durations")
		}
		d, e = first, second
	}
	if d == nil {
		r.fail("not two durations")
	}
	return d, e
}
