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
func (h history) equal(other history) bool { return h.equalBut(-1, other, -1) }

// equalBut is equal without event i of h and event j of other; -1: with all.
func (h history) equalBut(i int, other history, j int) bool {
	a, b, shift, first := 0, 0, int64(0), true
	for {
		if a == i {
			a++
		}
		if b == j {
			b++
		}
		if a >= len(h) || b >= len(other) {
			return a >= len(h) && b >= len(other)
		}
		if first {
			shift, first = other[b].at-h[a].at, false
		}
		if !h[a].same(other[b].sample) || other[b].at-h[a].at != shift {
			return false
		}
		a++
		b++
	}
}

// change returns the only difference of two histories. If either of two events could have moved, it is
// the one that is not in the plainest history, or later in it.
func change(from, to, plainest history) (Change, bool) {
	switch len(to) - len(from) {
	case 1:
		for j := len(to) - 1; j >= 0; j-- {
			if from.equalBut(-1, to, j) {
				return Change{Added, -1, j}, true
			}
		}
	case -1:
		for i := len(from) - 1; i >= 0; i-- {
			if to.equalBut(-1, from, i) {
				return Change{Removed, i, -1}, true
			}
		}
	case 0:
		return changeOf(from, to, plainest)
	}
	return Change{}, false
}

func changeOf(from, to, plainest history) (Change, bool) {
	differ := 0 // the first place with another event
	for differ < len(from) && from[differ].same(to[differ].sample) {
		differ++
	}
	if differ == len(from) {
		return changeOfTime(from, to)
	}
	other := slices.Clone(from)
	if other[differ].sample = to[differ].sample; to.equal(other) {
		return Change{Replaced, differ, differ}, true
	}
	best, rank := Change{}, -1
	try := func(i, j int) { // moves to another place
		if r := plainest.rank(to[j].sample); r > rank && from[i].same(to[j].sample) && from.equalBut(i, to, j) {
			best, rank = Change{Moved, i, j}, r
		}
	}
	for k := range from {
		try(differ, k)
		try(k, differ)
	}
	return best, rank >= 0
}

// changeOfTime is change for the same events in the same order.
func changeOfTime(from, to history) (Change, bool) {
	for j := len(to) - 1; j > 0; j-- {
		if from.equalBut(j, to, j) {
			return Change{Moved, j, j}, true
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

// rank returns the place of the first such event, or the length if there is none.
func (h history) rank(e *sample) int {
	for i := range h {
		if h[i].same(e) {
			return i
		}
	}
	return len(h)
}

// shift returns how much later the changed event is, if it is at the same place of the order.
func (c Change) shift(from, to history) int64 {
	return to[c.To].at - to[0].at - (from[c.From].at - from[0].at)
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
		return to.ref(c.To) + " comes " + later(c.shift(from, to)) + ", with the events after it"
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
