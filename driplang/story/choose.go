package story

import (
	"cmp"
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// maxWays bounds the ways through the form that are tried.
const maxWays = 16

// maxOthers bounds the stories of an expression for which none fires.
const maxOthers = 3

// stories finds and chooses the stories.
func (t *teller) stories() []Story {
	fire, other := t.ways()
	t.fired = len(fire) > 0
	base := append(slices.Clone(fire), other...)
	if len(base) == 0 {
		return []Story{}
	}
	t.found = append(t.found, base[0])
	if t.fired {
		for _, c := range fire[1:] {
			c.class = otherWay
			t.add(c)
		}
		for _, c := range fire[:min(3, len(fire))] {
			t.block(c)
		}
		t.move(base[0])
		t.wait(base[0])
		t.omit(base[0])
		t.swap(base[0])
		t.edge(t.found[:len(t.found):len(t.found)])
	} else {
		for _, c := range other[1:] {
			c.class = missing
			t.add(c)
		}
	}
	return t.told(choose(t.found))
}

// ways returns the histories that are built from the form: those that fire, and others. If none
// fires, it looks among all short ones.
func (t *teller) ways() (fire, other []*candidate) {
	take := func(h history) {
		switch c := t.try(plainest, h); {
		case c == nil:
		case c.end.fires:
			fire = append(fire, c)
		case len(other) < maxOthers:
			other = append(other, c)
		}
	}
	first, options := t.way(-1, 0)
	take(first)
	n := 1
	for _, op := range []form.Op{form.Or, form.And} {
		if op == form.And && len(fire) > 0 {
			break // in another order of events: see swap
		}
		for choice, o := range options {
			for i := 1; o.op == op && i < o.operands && n < maxWays; i++ {
				h, _ := t.way(choice, i)
				take(h)
				n++
			}
		}
	}
	if len(fire) == 0 {
		t.enumerate(take, func() bool { return len(fire) > 0 || t.work < 0 })
	}
	return fire, other
}

// enumerate tries all histories of few events, the shortest first.
func (t *teller) enumerate(take func(history), enough func() bool) {
	const most, letters = 4, 6
	var list []*sample
	for _, e := range t.kinds {
		if e != nil && len(list) < letters && !slices.ContainsFunc(list, e.same) {
			list = append(list, e)
		}
	}
	times := []int64{usual}
	for _, d := range t.windows[:min(2, len(t.windows))] {
		times = append(times, between(0, d), beyond(d))
	}
	level := []history{nil}
	for range most {
		var next []history
		for _, h := range level {
			for _, e := range list {
				for i, d := range times {
					if len(h) == 0 && i > 0 || enough() {
						break
					}
					at := int64(0)
					if len(h) > 0 {
						at = h[len(h)-1].at + d
					}
					longer := append(slices.Clone(h), happening{e, at})
					take(longer)
					next = append(next, longer)
				}
			}
		}
		level = next
	}
}

// turns are the classes in the order of their use.
var turns = []class{
	plainest, blocked, undecided, boundary, outside, otherData, otherWay, outside, renewed, missing, otherData, boundary, blocked, harmless, disorder, missing, harmless,
}

// few is the number of stories without more boundaries.
const few = 8

// choose returns at most MaxStories candidates in the order of an answer. It takes the classes in
// turns, and each candidate together with the one that it must be read with.
func choose(found []*candidate) (list []*candidate) {
	var byClass [classes][]*candidate
	for _, c := range found {
		byClass[c.class] = append(byClass[c.class], c)
	}
	has := func(c *candidate) bool { return slices.ContainsFunc(list, c.same) }
	for more := true; more; {
		more = false
		for _, turn := range turns {
			for i, c := range byClass[turn] {
				if turn == boundary && has(c) && c.with != nil { // the other one is missing
					byClass[turn][i] = c.with
				}
			}
			byClass[turn] = slices.DeleteFunc(byClass[turn], has)
			if len(byClass[turn]) == 0 {
				continue
			}
			c := byClass[turn][0]
			byClass[turn], more = byClass[turn][1:], true
			add := []*candidate{c}
			if c.with != nil && !has(c.with) {
				add = append(add, c.with)
			}
			most := few
			if turn == boundary {
				most = MaxStories
			}
			if len(list)+len(add) <= most {
				list = append(list, add...)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *candidate) int { return cmp.Compare(a.class, b.class) })
	return list
}

// same reports whether two candidates are the same story.
func (c *candidate) same(d *candidate) bool {
	return c.history.equal(d.history) && c.outcome() == d.outcome()
}
