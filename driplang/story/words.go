package story

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// told returns the stories of candidates, each with its difference from an earlier one.
func (t *teller) told(list []*candidate) []Story {
	stories := make([]Story, len(list))
	for i, c := range list {
		stories[i] = t.tell(c)
		t.compare(c, &stories[i], list[:i])
	}
	return stories
}

func (t *teller) tell(c *candidate) Story {
	first := c.history[0].at
	s := Story{Outcome: c.outcome(), End: c.end.at - first, DiffersFrom: -1, Text: t.text(c)}
	if c.class == undecided {
		s.End = c.until - first
	}
	for i, e := range c.history {
		event := Event{Name: e.name, After: e.at - first}
		if t.filter[e.name] {
			event.Data = json.RawMessage(e.data)
			if e.data == "" {
				event.Data = json.RawMessage("{}")
			}
		}
		if i > 0 {
			event.Words = words(event.After)
		}
		s.Events = append(s.Events, event)
	}
	return s
}

// compare finds the nearest of some earlier stories: with another outcome, and the smallest change.
func (t *teller) compare(c *candidate, s *Story, earlier []*candidate) {
	best := int64(-1)
	for i, k := range earlier {
		if k.outcome() == Pending {
			continue
		}
		var how Change
		var cost int64
		if c.outcome() == Pending {
			if !k.history.equal(c.history) {
				continue
			}
			how = Change{Earlier, -1, -1}
		} else {
			var ok bool
			if how, ok = change(k.history, c.history, earlier[0].history); !ok {
				continue
			}
			switch {
			case how.Kind == Delayed, how.Kind == Moved && how.From == how.To:
				cost = max(how.shift(k.history, c.history), -how.shift(k.history, c.history))
			case how.Kind == Moved:
				cost = 1 << 58
			default:
				cost = 1 << 57
			}
		}
		if k.outcome() == c.outcome() {
			cost += 1 << 60
		}
		if best < 0 || cost < best {
			best, s.DiffersFrom, s.Change = cost, i, how
			s.Difference = how.text(k.history, c.history)
			if how.Kind == Earlier {
				s.Difference = "the same, seen " + t.since(c, c.until)
			}
		}
	}
}

// text returns a story in English.
func (t *teller) text(c *candidate) string {
	h, end := c.history, c.end
	text := t.events(c)
	last := len(h) - 1
	quiet := func(until int64) string { return text + ", and nothing for " + words(until-h[last].at) + ": " }
	switch {
	case c.class == undecided:
		return quiet(c.until) + "not decided yet"
	case end.fires && end.byTime && end.at == h[last].at:
		return text + ": fires " + t.since(c, end.at)
	case end.fires && end.byTime && end.events == len(h) && c.class == boundary:
		return text + ", and nothing more: fires " + t.since(c, end.at)
	case end.fires && end.byTime && end.events == len(h):
		return quiet(end.at) + "fires " + t.since(c, end.at)
	case end.fires && end.byTime:
		return text + ": fires " + t.since(c, end.at) + ", before " + h.ref(end.events)
	case end.fires && last == 0:
		return text + ": fires at once"
	case end.fires && end.events == len(h):
		return text + ": fires at " + h.ref(last)
	case end.fires:
		return text + ": fires at " + h.ref(end.events-1) + ", before " + h.ref(end.events)
	case c.class != boundary && slices.Contains(t.windows, end.at-h[last].at):
		return quiet(end.at) + "does not fire"
	case last == 0 || c.class != boundary && end.at > h[last].at:
		return text + ", and nothing more: does not fire"
	}
	return text + ": does not fire"
}

// since says how long after which event an instant is. It prefers a duration of the expression.
func (t *teller) since(c *candidate, at int64) string {
	h := c.history
	applied := c.end.events
	from := applied - 1
	for i := applied - 1; i >= 0; i-- {
		if slices.Contains(t.ends, at-h[i].at) {
			from = i
			break
		}
	}
	if len(h) == 1 && c.class != undecided {
		return words(at-h[0].at) + " after it"
	}
	return words(at-h[from].at) + " after " + h.ref(from)
}

// events returns the events of a history in English.
func (t *teller) events(c *candidate) string {
	h := c.history
	var b strings.Builder
	for i := 0; i < len(h); {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(h[i].subject())
		n := h.run(i)
		switch { // an event whose time is told
		case i == c.event && i > 0:
			n = 1
		case i < c.event && c.event < i+n:
			n = c.event - i
		}
		if n > 1 {
			times := "twice"
			if n > 2 {
				times = strconv.Itoa(n) + " times"
			}
			b.WriteString(" " + times + ", " + words(h[i+1].at-h[i].at) + " apart")
			if i > 0 {
				b.WriteString(", the first")
			}
		}
		if i > 0 {
			b.WriteString(" " + t.when(c, i))
		}
		i += n
	}
	return b.String()
}

// run returns the number of equal events from i on with the same time between them.
func (h history) run(i int) int {
	n := 1
	for i+n < len(h) && h[i+n].same(h[i].sample) && h[i+n].at-h[i+n-1].at == h[i+1].at-h[i].at {
		n++
	}
	return n
}

// when says when an event is.
func (t *teller) when(c *candidate, i int) string {
	h := c.history
	from := i - 1
	if c.event == i {
		from = c.anchor
	}
	gap := h[i].at - h[from].at
	text := words(gap)
	switch {
	case gap == 0:
		return "at the same time"
	case c.class == boundary && c.event == i && slices.Contains(t.ends, gap):
		text = "exactly " + text
	}
	switch {
	case from != i-1:
		return text + " after " + h.ref(from)
	case i == 1:
		return text + " later"
	}
	return text + " after that"
}

var ordinals = [...]string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"}

// ref returns a name for an event that is unique in the history.
func (h history) ref(i int) string {
	nth, n := 0, 0
	for j, e := range h {
		if e.name == h[i].name {
			if n++; j <= i {
				nth = n
			}
		}
	}
	name := (&sample{name: h[i].name}).subject()
	switch {
	case n == 1:
		return name
	case nth <= len(ordinals):
		return "the " + ordinals[nth-1] + " " + name
	}
	return name + " number " + strconv.Itoa(nth)
}
