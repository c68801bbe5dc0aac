package story

import (
	"slices"
)

// maxWays bounds the ways through the form that are tried.
const maxWays = 64

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
		t.block(base[0])
		t.move(base[0])
		t.omit(base[0])
		t.wait(base[0])
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
		switch c := t.try(plainest, h, nil); {
		case c == nil:
		case c.end.fires:
			fire = append(fire, c)
		case len(other) < MaxStories:
			other = append(other, c)
		}
	}
	first, options := t.way(t.root, -1, 0)
	take(first)
	n := 1
	for choice, operands := range options {
		for i := 1; i < operands && n < maxWays; i++ {
			h, _ := t.way(t.root, choice, i)
			take(h)
			n++
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

// choose returns at most MaxStories candidates in the order of an answer: the first of each class,
// then the second, and so on. The two of a boundary stay together.
func choose(found []*candidate) (list []*candidate) {
	var byClass [classes][]*candidate
	for _, c := range found {
		byClass[c.class] = append(byClass[c.class], c)
	}
	n := [classes]int{}
	total := 0
	for more := true; more && total < MaxStories; {
		more = false
		for _, c := range []class{plainest, blocked, boundary, undecided, outside, otherData, otherWay, missing, disorder, harmless} {
			take := 1
			if c == boundary {
				take = 2
			}
			if n[c]+take <= len(byClass[c]) && total+take <= MaxStories {
				n[c] += take
				total += take
				more = true
			}
		}
	}
	for c := range classes {
		list = append(list, byClass[c][:n[c]]...)
	}
	return list
}
