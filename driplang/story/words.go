package story

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// told returns the stories of candidates, each with its difference from an earlier one.
func (t *teller) told(list []*candidate) []Story {
	var kept []*candidate
	stories := []Story{}
	for _, c := range list {
		if slices.ContainsFunc(kept, func(k *candidate) bool {
			return k.history.equal(c.history) && k.outcome() == c.outcome()
		}) {
			continue
		}
		s := t.tell(c)
		t.compare(c, &s, kept)
		kept, stories = append(kept, c), append(stories, s)
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
			if how, ok = change(k.history, c.history); !ok {
				continue
			}
			if cost = 2 * day; how.Kind == Moved || how.Kind == Delayed {
				cost = max(how.shift(k.history, c.history), -how.shift(k.history, c.history))
			}
		}
		if k.outcome() == c.outcome() {
			cost += 1 << 60
		}
		if best < 0 || cost < best {
			best, s.DiffersFrom, s.Change = cost, i, how
			s.Difference = how.text(k.history, c.history)
			if how.Kind == Earlier {
				s.Difference = "the same, " + t.since(c, c.until)
			}
		}
	}
}

// text returns a story in English.
func (t *teller) text(c *candidate) string {
	h, end := c.history, c.end
	text := t.events(h)
	last := len(h) - 1
	quiet := func(until int64) string { return ", and nothing for " + words(until-h[last].at) + ": " }
	switch {
	case c.class == undecided:
		return text + quiet(c.until) + "not decided yet"
	case end.fires && !end.byTime && last == 0:
		return text + ": fires at once"
	case end.fires && !end.byTime && end.events == len(h):
		return text + ": fires at " + h.ref(last)
	case end.fires && !end.byTime:
		return text + ": fires at " + h.ref(end.events-1) + ", before " + h.ref(end.events)
	case end.fires && end.events == len(h):
		return text + quiet(end.at) + "fires " + t.since(c, end.at)
	case end.fires:
		return text + ": fires " + t.since(c, end.at) + ", before " + h.ref(end.events)
	case end.at > h[last].at:
		return text + quiet(end.at) + "does not fire"
	case last == 0:
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
		if slices.Contains(t.windows, at-h[i].at) {
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
func (t *teller) events(h history) string {
	var b strings.Builder
	for i := 0; i < len(h); {
		if i > 0 {
			b.WriteString(", ")
		}
		n := h.run(i)
		b.WriteString(h[i].subject())
		switch {
		case n > 2:
			b.WriteString(" " + strconv.Itoa(n) + " times, " + words(h[i+1].at-h[i].at) + " apart")
			if i > 0 {
				b.WriteString(", the first " + t.when(h, i))
			}
			i += n
			continue
		case i > 0:
			b.WriteString(" " + t.when(h, i))
		}
		i++
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

// when says when an event is: after the one before, or after the first if that is a duration of the
// expression.
func (t *teller) when(h history, i int) string {
	gap, total := h[i].at-h[i-1].at, h[i].at-h[0].at
	switch {
	case gap == 0:
		return "at the same time"
	case i > 1 && !t.close(gap) && t.close(total):
		return t.exactly(total) + " after " + h.ref(0)
	}
	return t.exactly(gap) + " later"
}

func (t *teller) exactly(millis int64) string {
	if slices.Contains(t.windows, millis) {
		return "exactly " + words(millis)
	}
	return words(millis)
}

// close reports whether a duration is one of the expression, or a millisecond away.
func (t *teller) close(millis int64) bool {
	return slices.ContainsFunc(t.windows, func(d int64) bool { return d-1 <= millis && millis <= d+1 })
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
