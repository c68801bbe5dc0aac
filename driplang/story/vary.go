package story

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// class is a kind of story, in the order of an answer.
type class uint8

const (
	plainest  class = iota // the first that fires
	otherWay               // another way to fire
	blocked                // with an event that prevents it
	outside                // an event outside its window
	otherData              // an event with other data
	missing                // an event less
	disorder               // two events in the other order
	harmless               // an event that does not prevent it
	undecided              // before the end of a window
	boundary               // at the end of a window, and a millisecond away
	classes
)

// candidate is a history that may become a story.
type candidate struct {
	class   class
	history history
	end     ending
	until   int64 // undecided: when the story ends
	from    *candidate
}

func (c *candidate) outcome() Outcome {
	switch {
	case c.class == undecided:
		return Pending
	case c.end.fires:
		return Fires
	}
	return DoesNotFire
}

// try evaluates a history that is not known yet. It returns nil if it is, or if no work is left.
func (t *teller) try(c class, h history, from *candidate) *candidate {
	size := 0
	var key strings.Builder
	for _, e := range h {
		size += len(e.data)
		key.WriteString(strconv.FormatInt(e.at-h[0].at, 36) + e.name + "\x00" + e.data + "\x00")
	}
	switch {
	case len(h) == 0 || t.seen[key.String()]:
		return nil
	case len(h) > MaxEvents || size > maxData:
		t.truncated = true
		return nil
	}
	end, ok := t.run(h)
	if !ok {
		return nil
	}
	t.seen[key.String()] = true
	return &candidate{class: c, history: h, end: end, from: from}
}

// add keeps a candidate. It accepts nil.
func (t *teller) add(c *candidate) {
	if c != nil {
		t.found = append(t.found, c)
	}
}

// insert returns a history with other events in order of time, after those of the same time.
func (h history) insert(list history) history {
	all := append(slices.Clone(h), list...)
	slices.SortStableFunc(all, func(a, b happening) int { return compare(a.at, b.at) })
	return all
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (h history) without(i int) history { return slices.Delete(slices.Clone(h), i, i+1) }

// blockers returns the parts of the expression that must not be true, as what they would be without
// their NOT.
func (t *teller) blockers() (list []*form.Form) {
	seen := map[string]bool{}
	t.root.Each(func(f *form.Form) {
		if !f.Not || f.Op == form.Not || len(list) == 8 {
			return
		}
		g := *f
		g.Not, g.After, g.Within = false, 0, 0
		if key := g.From.String() + strconv.Itoa(g.Need); !seen[key] {
			seen[key] = true
			list = append(list, &g)
		}
	})
	return list
}

// gap is a part of a history without events.
type gap struct{ from, to int64 }

// gaps returns those between the events and up to the end, and one before the first event.
func (c *candidate) gaps() (list []gap) {
	h := c.history
	for i := range h[:len(h)-1] {
		list = append(list, gap{h[i].at, h[i+1].at})
	}
	if end := c.end.at; end > h[len(h)-1].at {
		list = append(list, gap{h[len(h)-1].at, end})
	}
	return append(list, gap{h[0].at - usual, h[0].at})
}

// block inserts what must not happen.
func (t *teller) block(base *candidate) {
	for _, f := range t.blockers() {
		var block *candidate
		var list history
		for _, g := range base.gaps() {
			if list = t.in(f, g); list == nil {
				continue
			}
			c := t.try(blocked, base.history.insert(list), base)
			if c != nil && !c.end.fires {
				block = c
				break
			}
		}
		if block == nil {
			continue
		}
		t.add(block)
		if len(list) > 1 { // one event less does not block
			if c := t.try(harmless, base.history.insert(list[:len(list)-1]), block); c != nil && c.end.fires {
				t.add(c)
			}
			continue
		}
		for _, at := range []int64{base.history[0].at + beyond(base.end.at-base.history[0].at), base.history[0].at - usual} {
			if c := t.try(harmless, base.history.insert(history{{list[0].sample, at}}), block); c != nil && c.end.fires && c.end.at == base.end.at {
				t.add(c)
			}
		}
	}
}

// in returns the events of a form within a gap.
func (t *teller) in(f *form.Form, g gap) history {
	b := builder{samples: t.samples, steps: maxVisits, now: g.from, choice: -1, history: history{{at: g.from}}}
	if _, ok := b.make(f, g.from, span{math.MinInt64, g.to - 1}); !ok {
		return nil
	}
	return b.history[1:]
}

// move moves single events out of their windows, and swaps two.
func (t *teller) move(base *candidate) {
	h := base.history
	for j := 1; j < len(h); j++ {
		for i := range j {
			for _, d := range t.windows {
				for _, at := range []int64{h[i].at + beyond(d), h[i].at + between(0, d)} {
					moved := slices.Clone(h)
					for k := j; k < len(h); k++ { // and the events after it
						moved[k].at += at - h[j].at
					}
					if at <= h[j-1].at || at == h[j].at {
						continue
					}
					if c := t.try(outside, moved, base); c != nil && !c.end.fires {
						t.add(c)
					}
				}
			}
		}
	}
	for j := 1; j < len(h); j++ {
		at := h[0].at - usual
		if j > 1 {
			at = h[j-2].at + between(0, h[j-1].at-h[j-2].at)
		}
		if h[j].same(h[j-1].sample) {
			continue
		}
		c := t.try(disorder, h.without(j).insert(history{{h[j].sample, at}}), base)
		if c != nil && c.end.fires {
			c.class = otherWay
		}
		t.add(c)
	}
}

// omit removes events, or changes their data.
func (t *teller) omit(base *candidate) {
	h := base.history
	for j, e := range h {
		if j > 0 && e.same(h[j-1].sample) {
			continue
		}
		if c := t.try(missing, h.without(j), base); c != nil && !c.end.fires {
			t.add(c)
		}
		for k, match := range t.kinds {
			if match == nil || !match.same(e.sample) {
				continue
			}
			for _, miss := range t.misses[k][:min(3, len(t.misses[k]))] {
				other := slices.Clone(h)
				other[j].sample = miss
				if c := t.try(otherData, other, base); c != nil && !c.end.fires {
					t.add(c)
				}
			}
		}
	}
}

// wait ends a history before its value is decided.
func (t *teller) wait(base *candidate) {
	for n := len(base.history); n > 0; n-- {
		h := base.history[:n]
		last := h[n-1].at
		end, ok := base.end, true
		if n < len(base.history) {
			if end, ok = t.run(h); !ok {
				return
			}
		}
		if end.at <= last+1 || end.events < n {
			continue
		}
		until := last + between(0, end.at-last)
		if t.pending(h, until) {
			t.add(&candidate{class: undecided, history: h, end: end, until: until, from: base})
			return
		}
	}
}

// edge finds the millisecond at which an event decides, for each window.
func (t *teller) edge(bases []*candidate) {
	for _, d := range t.windows {
		for _, base := range bases {
			if t.edgeOf(base, d) {
				break
			}
		}
	}
}

func (t *teller) edgeOf(base *candidate, d int64) bool {
	h := base.history
	at := func(j int, time int64) *candidate {
		if j > 0 && time <= h[j-1].at || j < len(h)-1 && time >= h[j+1].at {
			return nil
		}
		moved := slices.Clone(h)
		moved[j].at = time
		end, ok := t.run(moved)
		if !ok {
			return nil
		}
		return &candidate{class: boundary, history: moved, end: end, from: base}
	}
	for j := 1; j < len(h); j++ {
		for i := range j {
			on := at(j, h[i].at+d)
			if on == nil {
				continue
			}
			for _, off := range []int64{1, -1} {
				if c := at(j, h[i].at+d+off); c != nil && c.end.fires != on.end.fires {
					c.from = on
					t.add(on)
					t.add(c)
					return true
				}
			}
		}
	}
	return false
}
