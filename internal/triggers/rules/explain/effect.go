package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang/monitor"
)

// Kind is the kind of an effect.
type Kind string

// The kinds. The last two are those of an instant at which a window ends.
const (
	NoEffect Kind = "none"   // the expression did not wait for the event at that time
	True     Kind = "true"   // the expression became true
	False    Kind = "false"  // it was true, and no longer is
	Begins   Kind = "begins" // the left side of a THEN is complete
	Counts   Kind = "counts" // one of the events that must come
	Ends     Kind = "ends"   // an event that must not come: what began before it is over
	Missed   Kind = "missed" // the part did not come in time: what began before it is over
	Passed   Kind = "passed" // the part did not come in time, as the expression demands
)

// Effect is what an event, or the end of a window, did to an expression.
type Effect struct {
	Kind Kind
	// Part is the part of the expression for which the event counted, or whose window ended. Its Name
	// is "" if there is none. Its Expr is cut to PartMax bytes.
	Part monitor.AwaitedEvent
}

// PartMax bounds the text of a part in an effect.
const PartMax = 200

// effectParts bounds the parts of an expression among which an effect is looked for.
const effectParts = 256

// sight is what can be seen of a monitor.
type sight struct {
	value monitor.Value
	open  int // instances
	parts []monitor.AwaitedEvent
}

func (f *follower) look() sight {
	return sight{f.m.Value(), f.m.Instances(), f.m.AwaitedEvents(nil, effectParts)}
}

// effect compares the monitor with an earlier sight of it: what an event with a name did or, with
// "", the instant at.
func (f *follower) effect(before *sight, name string, at int64) Effect {
	after := f.look()
	part := changed(before.parts, after.parts, name, at)
	if len(part.Expr) > PartMax {
		part.Expr = strings.ToValidUTF8(part.Expr[:PartMax-3], "") + "..."
	}
	e := Effect{Part: part}
	switch known := part.Name != ""; {
	case after.value == monitor.True && before.value != monitor.True:
		e.Kind = True
	case after.value != monitor.True && before.value == monitor.True:
		e.Kind = False
	case name == "" && known && part.Absent:
		e.Kind = Passed
	case name == "" && known:
		e.Kind = Missed
	case known && part.Absent:
		e.Kind = Ends
	case name != "" && (after.open > before.open || known && part.Begins):
		e.Kind = Begins
	case known:
		e.Kind = Counts
	case name != "" && !slices.Equal(before.parts, after.parts):
		e.Kind = Begins // a later start replaces the one before
	default:
		e.Kind = NoEffect
	}
	f.sight = after
	return e
}

// changed returns the part that an event with a name counted for, or with "" one whose window ends
// at an instant. An event that must not come is preferred, then one that must.
func changed(before, after []monitor.AwaitedEvent, name string, at int64) (found monitor.AwaitedEvent) {
	type identity struct {
		expr           string
		absent, begins bool
		from, until    int64
	}
	of := func(w *monitor.AwaitedEvent) identity { return identity{w.Expr, w.Absent, w.Begins, w.From, w.Until} }
	left := map[identity][]int{}
	for i := range after {
		left[of(&after[i])] = append(left[of(&after[i])], i)
	}
	rank := 0 // of found
	for i := range before {
		w, has := before[i], left[of(&before[i])]
		if len(has) > 0 {
			left[of(&w)] = has[1:]
		}
		switch {
		case name != "" && w.Name != name, name == "" && (w.Until > at || w.Begins):
			continue
		case len(has) > 0 && after[has[0]].Have == w.Have:
			continue
		case len(has) > 0:
			w = after[has[0]]
		case name != "":
			w.Have = min(w.Have+1, w.Need)
		}
		is := 3
		switch {
		case w.Begins:
			is = 1
		case !w.Absent:
			is = 2
		}
		if is > rank {
			found, rank = w, is
		}
	}
	return found
}

// due returns the next instant, up to an instant, at which the value changes or a window ends.
func (f *follower) due(to int64) (at int64, ok bool) {
	at, ok = f.m.Next()
	if f.trace == nil {
		return at, ok && at <= to
	}
	for i := range f.sight.parts {
		if w := &f.sight.parts[i]; !w.Begins && w.Until < monitor.MaxTime && (!ok || w.Until < at) && w.Until > f.passed {
			at, ok = w.Until, true
		}
	}
	return at, ok && at <= to
}

// Text describes the effect in words, after the name of the event; "" if there is nothing to say.
// name is "" for the end of a window.
func (e *Effect) Text() string {
	w := &e.Part
	switch e.Kind {
	case True:
		return "makes it true" + e.because()
	case False:
		return "makes it false" + e.because()
	case Begins:
		return "begins it"
	case Counts:
		if w.Need > 1 {
			return fmt.Sprintf("counts: %d of %d for %s", w.Have, w.Need, w.Expr)
		}
		return "counts for " + w.Expr
	case Ends:
		return "ends it: " + w.Expr + " must not come" + until(w.Until)
	case Missed:
		text := w.Expr + " did not come" + until(w.Until)
		if w.Need > 1 {
			text += fmt.Sprintf(" (%d so far)", w.Have)
		}
		return text
	case Passed:
		return w.Expr + " did not come" + until(w.Until) + ", as it must"
	}
	return "has no effect: the expression did not wait for it then"
}

// because names the part of an effect on the value.
func (e *Effect) because() string {
	w := &e.Part
	switch {
	case w.Name == "" || !w.Absent:
		return ""
	case e.Kind == False:
		return ": " + w.Expr + " must not come" + until(w.Until)
	}
	return ": " + w.Expr + " did not come" + until(w.Until)
}

func until(at int64) string {
	if at == math.MaxInt64 {
		return ""
	}
	return " until " + Time(at)
}
