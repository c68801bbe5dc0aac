package story

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang"
)

// ChangeKind is the kind of a difference of two stories.
type ChangeKind uint8

// The kinds. Times are relative to the events that are the same.
const (
	Added    ChangeKind = iota + 1 // one event more
	Removed                        // one event less
	Replaced                       // another name, or other data
	Moved                          // another time for one event
	Delayed                        // another time for one event and all later ones
	Earlier                        // the same events, at an earlier time
)

// Change is the only difference of a story from another one. From and To are the indexes of the
// event there and here; -1 if there is none.
type Change struct {
	Kind     ChangeKind
	From, To int
}

// equal reports whether the events and the times between them are the same.
func (h history) equal(other history) bool {
	for i := range h {
		if i >= len(other) || !h[i].same(other[i].sample) || h[i].at-h[0].at != other[i].at-other[0].at {
			return false
		}
	}
	return len(h) == len(other)
}

// change returns the only difference of two histories.
func change(from, to history) (Change, bool) {
	switch len(to) - len(from) {
	case 1:
		for j := len(to) - 1; j >= 0; j-- {
			if from.equal(to.without(j)) {
				return Change{Added, -1, j}, true
			}
		}
	case -1:
		for i := len(from) - 1; i >= 0; i-- {
			if to.equal(from.without(i)) {
				return Change{Removed, i, -1}, true
			}
		}
	case 0:
		return changeOf(from, to)
	}
	return Change{}, false
}

func changeOf(from, to history) (Change, bool) {
	for i := range from {
		if other := slices.Clone(from); !from[i].same(to[i].sample) {
			if other[i].sample = to[i].sample; to.equal(other) {
				return Change{Replaced, i, i}, true
			}
			break
		}
	}
	if len(from) < 2 {
		return Change{}, false
	}
	for j := len(to) - 1; j >= 0; j-- {
		rest := to.without(j)
		for i := len(from) - 1; i >= 0; i-- {
			if from[i].same(to[j].sample) && rest.equal(from.without(i)) {
				return Change{Moved, i, j}, true
			}
		}
	}
	for k := 1; k < len(from); k++ {
		if later := to[k].at - to[0].at - (from[k].at - from[0].at); later != 0 {
			other := slices.Clone(from)
			for i := k; i < len(from); i++ {
				other[i].at += later
			}
			return Change{Delayed, k, k}, to.equal(other)
		}
	}
	return Change{}, false
}

// shift returns how much later the changed event is.
func (c Change) shift(from, to history) int64 {
	at := func(h history, i int) int64 { // relative to another event
		if i == 0 && c.Kind == Moved && len(h) > 1 {
			return h[0].at - h[1].at
		}
		return h[i].at - h[0].at
	}
	if c.Kind == Moved && (c.From == 0) != (c.To == 0) {
		return 0 // it is before the others, or after some
	}
	return at(to, c.To) - at(from, c.From)
}

// text returns a change in English.
func (c Change) text(from, to history) string {
	switch c.Kind {
	case Removed:
		if e := from[c.From]; to.count(e.sample) > 0 {
			return "one " + e.subject() + " fewer"
		}
		return "without " + from[c.From].subject()
	case Added:
		e := to[c.To]
		if from.count(e.sample) > 0 {
			return "one " + e.subject() + " more, " + to.place(c.To)
		}
		return "with " + e.subject() + " " + to.place(c.To)
	case Replaced:
		return replaced(from[c.From].sample, to[c.To].sample)
	case Moved:
		switch {
		case c.To < c.From:
			return to.ref(c.To) + " comes before " + to.ref(c.To+1)
		case c.To > c.From:
			return to.ref(c.To) + " comes after " + to.ref(c.To-1)
		}
		return to.ref(c.To) + " comes " + later(c.shift(from, to))
	case Delayed:
		return to.ref(c.To) + " and the events after it come " + later(c.shift(from, to))
	}
	return ""
}

func later(millis int64) string {
	if millis < 0 {
		return words(-millis) + " earlier"
	}
	return words(millis) + " later"
}

// place says when an event is, relative to its neighbour.
func (h history) place(i int) string {
	if i == 0 {
		return words(h[1].at-h[0].at) + " before " + h.ref(1)
	}
	if h[i].at == h[i-1].at {
		return "at the same time as " + h.ref(i-1)
	}
	return words(h[i].at-h[i-1].at) + " after " + h.ref(i-1)
}

func (h history) count(e *sample) (n int) {
	for _, f := range h {
		if f.same(e) {
			n++
		}
	}
	return n
}

func replaced(from, to *sample) string {
	if from.name != to.name {
		return to.subject() + " instead of " + from.subject()
	}
	var list []string
	for _, p := range to.props {
		path := driplang.FormatPath(p.Path)
		switch was := from.value(p.Path); was {
		case p.JSON:
		case "":
			list = append(list, path+" is "+p.JSON)
		default:
			list = append(list, path+" is "+p.JSON+" instead of "+was)
		}
	}
	for _, p := range from.props {
		if to.value(p.Path) == "" {
			list = append(list, driplang.FormatPath(p.Path)+" is missing")
		}
	}
	return clip(strings.Join(list, ", "))
}
