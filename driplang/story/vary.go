package story

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/driplang/internal/form"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// class is a kind of story, in the order of an answer.
type class uint8

const (
	plainest  class = iota // the first that fires
	otherWay               // another way to fire
	blocked                // with an event that prevents it, or postpones it
	outside                // an event outside its window
	otherData              // an event with other data
	missing                // an event less
	disorder               // two events in the other order
	harmless               // an event that does not prevent it
	renewed                // an event again, so that it fires after all
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
	// with is the story without which this one says little; nil: none.
	with *candidate
	// event is the index of an event whose time is told relative to that of another one, anchor; 0: none.
	event, anchor int
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

// perEvent is the work beside the monitor for an event of a history.
const perEvent = 10

// try evaluates a history that is not known yet. It returns nil if it is, or if no work is left.
func (t *teller) try(c class, h history) *candidate {
	if !t.spend(perEvent * len(h)) {
		return nil
	}
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
	return &candidate{class: c, history: h, end: end}
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
	sorting.Stable(all, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
	return all
}

func (h history) without(i int) history { return slices.Delete(slices.Clone(h), i, i+1) }

// maxBlockers bounds the parts of an expression that are tried as events that prevent a story.
const maxBlockers = 8

// blockers returns the parts of the expression that must not be true, as what they would be without
// their NOT.
func (t *teller) blockers() (list []*form.Form) {
	seen, looked := map[string]bool{}, 0
	t.root.Each(func(f *form.Form) {
		if !f.Not || f.Op == form.Not || len(list) == maxBlockers || looked == 8*maxBlockers {
			return
		}
		looked++
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

// gaps returns those between the events and up to the end with its halves, and one before the first
// event.
func (c *candidate) gaps() (list []gap) {
	h := c.history
	for i := range h[:len(h)-1] {
		list = append(list, gap{h[i].at, h[i+1].at})
	}
	if last, end := h[len(h)-1].at, c.end.at; end > last {
		middle := last + between(0, end-last)
		list = append(list, gap{last, end}, gap{middle, end}, gap{last, middle})
	}
	return append(list, gap{h[0].at - 2*usual, h[0].at})
}

// block inserts what must not happen.
func (t *teller) block(base *candidate) {
	h := base.history
	for _, f := range t.blockers() {
		block, list := t.blockBy(base, f)
		if block != nil {
			block.with = base
			t.add(block)
			next := slices.IndexFunc(block.history, func(e happening) bool { return e.at > list[len(list)-1].at })
			if next < 0 {
				next = len(block.history)
			}
			for _, e := range slices.Backward(h) {
				if t.renew(block, e.sample, next, 0) {
					break
				}
			}
		}
		switch {
		case len(list) == 0:
			continue
		case block != nil && len(list) > 1: // one event less does not block
			if c := t.try(otherWay, h.insert(list[:len(list)-1])); c != nil && c.end.fires {
				block.with = c
				t.add(c)
			}
			continue
		}
		late := h[0].at + beyond(base.end.at-h[0].at)
		if !base.end.byTime {
			late = base.end.at + usual
		}
		for _, at := range []int64{late, h[0].at - usual} {
			if block == nil && at < late {
				break // it says nothing
			}
			if c := t.try(harmless, h.insert(history{{list[0].sample, at}})); c != nil && c.end.fires && c.end.at == base.end.at {
				t.add(c)
			}
		}
	}
}

// blockBy inserts the events of a form where they prevent a story from firing, or postpone it. It
// returns the story, nil if there is no such place, and the events.
func (t *teller) blockBy(base *candidate, f *form.Form) (block *candidate, list history) {
	for _, g := range base.gaps() {
		events := t.in(f, g)
		if events == nil {
			continue
		}
		c := t.try(blocked, base.history.insert(events))
		if c != nil && !c.end.fires {
			return c, events
		}
		postponed := c != nil && c.end.at > base.end.at && g.from >= base.history[0].at
		if postponed && block == nil {
			block = c
		}
		if postponed || list == nil {
			list = events
		}
	}
	return block, list
}

// in returns the events of a form within a gap.
func (t *teller) in(f *form.Form, g gap) history {
	b := builder{samples: t.samples, steps: maxVisits, now: g.from, choice: -1, history: history{{at: g.from}}}
	if _, ok := b.make(f, g.from, span{math.MinInt64, g.to}); !ok || len(b.history) == 1 || b.history[len(b.history)-1].at >= g.to {
		return nil
	}
	return b.history[1:]
}

// move moves events out of their windows, each with the events after it.
func (t *teller) move(base *candidate) {
	for j := 1; j < len(base.history); j++ {
		if j+1 < len(base.history) && base.history[j].same(base.history[j+1].sample) {
			continue
		}
		t.add(t.moved(base, j, beyond))
		t.add(t.moved(base, j, func(d int64) int64 { return between(0, d) }))
	}
}

// moved moves event j to a time that follows from a duration of the expression, such that the history
// does not fire.
func (t *teller) moved(base *candidate, j int, to func(window int64) int64) *candidate {
	h := base.history
	for i := j - 1; i >= 0 && t.work >= 0; i-- {
		for _, d := range t.windows {
			at := h[i].at + to(d)
			if at <= h[j-1].at || at == h[j].at {
				continue
			}
			moved := slices.Clone(h)
			for k := j; k < len(h); k++ {
				moved[k].at += at - h[j].at
			}
			if c := t.try(outside, moved); c != nil && !c.end.fires {
				c.event, c.anchor = j, i
				t.renew(c, h[i].sample, j, h[j].at-h[j-1].at)
				return c
			}
		}
	}
	return nil
}

// renew inserts an event into a story that does not fire, before event i, and by a duration earlier if
// there is room. It reports whether the story fires then.
func (t *teller) renew(c *candidate, e *sample, i int, earlier int64) bool {
	if c.end.fires {
		return false
	}
	low := c.history[i-1].at
	at := low + usual
	if i < len(c.history) {
		if at = c.history[i].at - earlier; earlier == 0 || at <= low {
			at = t.middle(low, c.history[i].at)
		}
	}
	again := t.try(renewed, c.history.insert(history{{e, at}}))
	if again == nil || !again.end.fires {
		return false
	}
	again.with = c
	t.add(again)
	return true
}

// swap exchanges the order of two events.
func (t *teller) swap(base *candidate) {
	h := base.history
	for j := 1; j < len(h); j++ {
		at := h[0].at - usual
		if j > 1 {
			at = h[j-2].at + between(0, h[j-1].at-h[j-2].at)
		}
		if h[j].same(h[j-1].sample) {
			continue
		}
		c := t.try(disorder, h.without(j).insert(history{{h[j].sample, at}}))
		if c != nil && c.end.fires {
			if end, ok := t.run(h.without(j)); !ok || end.fires { // without it, too
				continue
			}
			c.class = otherWay
		}
		t.add(c)
	}
}

// omit removes events, the last first, or changes their data.
func (t *teller) omit(base *candidate) {
	h := base.history
	for j, e := range slices.Backward(h) {
		if j+1 < len(h) && e.same(h[j+1].sample) {
			continue
		}
		if c := t.try(missing, h.without(j)); c != nil && !c.end.fires {
			t.add(c)
		}
		for k, match := range t.kinds {
			if match == nil || !match.same(e.sample) {
				continue
			}
			for _, miss := range t.misses[k] {
				other := slices.Clone(h)
				other[j].sample = miss
				if c := t.try(otherData, other); c != nil && !c.end.fires {
					t.add(c)
				}
			}
		}
	}
}

// maxWaits is the number of beginnings of a history that are tried for an undecided one.
const maxWaits = 4

// wait ends a history, or its beginning, before its value is decided.
func (t *teller) wait(base *candidate) {
	for n := len(base.history); n > max(0, len(base.history)-maxWaits); n-- {
		c := base
		if n < len(base.history) {
			if c = t.try(missing, base.history[:n]); c == nil {
				continue
			}
		}
		if n == len(base.history)-1 && !c.end.fires {
			t.add(c)
		}
		last := base.history[n-1].at
		if !c.end.byTime && c.end.fires || c.end.at <= last+1 {
			continue
		}
		until := t.middle(last, c.end.at)
		if t.pending(c.history, until) {
			t.add(&candidate{class: undecided, history: c.history, end: c.end, until: until, with: c})
			return
		}
	}
}

// maxEdges is the number of windows whose ends are shown: as many as there is room for.
const maxEdges = 3

// edge finds the millisecond at which an event decides, for each window.
func (t *teller) edge(bases []*candidate) {
	found := 0
	for _, d := range t.ends {
		for _, base := range bases {
			if t.work < 0 || found == maxEdges {
				return
			}
			if base.class != undecided && t.edgeOf(base, d) {
				found++
				break
			}
		}
	}
}

func (t *teller) edgeOf(base *candidate, d int64) bool {
	h := base.history
	at := func(i, j int, time int64) *candidate {
		if j > 0 && time <= h[j-1].at || j < len(h)-1 && time >= h[j+1].at {
			return nil
		}
		moved := slices.Clone(h)
		moved[j].at = time
		end, ok := t.run(moved)
		if !ok {
			return nil
		}
		return &candidate{class: boundary, history: moved, end: end, event: j, anchor: i}
	}
	for j := 1; j < len(h); j++ {
		for i := j - 1; i >= 0 && t.work >= 0; i-- {
			on := at(i, j, h[i].at+d)
			if on == nil {
				continue
			}
			for _, off := range []int64{1, -1} {
				if c := at(i, j, h[i].at+d+off); c != nil && c.end.fires != on.end.fires {
					on.with = c
					t.add(on)
					return true
				}
			}
		}
	}
	return false
}
