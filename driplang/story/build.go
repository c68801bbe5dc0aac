package story

import (
	"math"
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
	"github.com/sebbroker/seb/driplang/monitor"
)

// happening is an event at a time.
type happening struct {
	*sample
	at int64
}

// history is in the order of the log, and its times do not decrease.
type history []happening

// span is a range of times, both inclusive.
type span struct{ low, high int64 }

// builder makes a history for which a form should be true. It takes one way through the form:
// the first operand of each OR, and the operands of each AND in their order, except at one choice.
type builder struct {
	*samples
	history history
	now     int64 // end of the history so far
	steps   int   // forms that may still be visited
	// choice is the number of the AND or OR that takes another operand first, in the order of visits,
	// and other is that operand. options has those that were visited.
	choice, other int
	options       []option
	long          bool // it has too many events
}

// option is an AND or OR with several operands.
type option struct {
	op       form.Op
	operands int
}

// maxVisits bounds the visits of one way through a form.
const maxVisits = 4096

// make appends events that make f true. Its windows count from the anchor. It returns the time at
// which f completes, and false if the events exceed the window or their limit.
func (b *builder) make(f *form.Form, anchor int64, in span) (done int64, ok bool) {
	if b.steps--; b.steps < 0 {
		return 0, false
	}
	if f.After > 0 {
		in.low = max(in.low, anchor+f.After)
	}
	if f.Within > 0 {
		in.high = min(in.high, anchor+f.Within)
	}
	if f.Not {
		if f.Within > 0 && in.high >= b.now {
			b.now = in.high
		}
		return b.now, true
	}
	switch f.Op {
	case form.Leaf:
		return b.events(f, in)
	case form.Then:
		if done, ok = b.make(f.Kids[0], anchor, in); !ok {
			return done, false
		}
		return b.make(f.Kids[1], done, in)
	case form.Or:
		return b.make(f.Kids[b.choose(form.Or, len(f.Kids))], anchor, in)
	}
	return b.all(f, anchor, in)
}

// choose returns the operand to take, or to take first.
func (b *builder) choose(op form.Op, n int) int {
	b.options = append(b.options, option{op, n})
	if len(b.options)-1 == b.choice {
		return b.other % n
	}
	return 0
}

// all is make for an AND: first the operands that need events, and then the absences.
func (b *builder) all(f *form.Form, anchor int64, in span) (done int64, ok bool) {
	var events, absent []*form.Form
	for _, k := range f.Kids {
		if k.Not {
			absent = append(absent, k)
		} else {
			events = append(events, k)
		}
	}
	if len(events) > 1 {
		i := b.choose(form.And, len(events))
		events = append(slices.Clone(events[i:]), events[:i]...)
	}
	for _, k := range append(events, absent...) {
		at, ok := b.make(k, anchor, in)
		if !ok {
			return 0, false
		}
		done = max(done, at)
	}
	return done, true
}

// events appends the events of a leaf.
func (b *builder) events(f *form.Form, in span) (done int64, ok bool) {
	e := b.kinds[f.Kind]
	b.long = b.long || len(b.history)+f.Need > MaxEvents
	if e == nil || b.long {
		return 0, false
	}
	step := int64(0) // between two of them
	for i := range f.Need {
		at, ok := b.next(in, int64(f.Need-i))
		if last := b.now; i > 0 {
			if step == 0 {
				step = at - last
			}
			if last+step < in.high {
				at = last + step
			}
		} else if len(b.history) > 0 && in.high < math.MaxInt64 {
			step = at - b.history[len(b.history)-1].at
		}
		if !ok {
			return 0, false
		}
		b.history, b.now = append(b.history, happening{e, at}), at
	}
	return b.now, true
}

// next returns a time in the window for the first of some events, after the events so far.
func (b *builder) next(in span, left int64) (at int64, ok bool) {
	if len(b.history) == 0 && in.low <= b.now {
		return b.now, b.now <= in.high
	}
	last := b.now
	if len(b.history) > 0 {
		last = b.history[len(b.history)-1].at
	}
	low := max(in.low, b.now) // the event is later, if it can be
	switch {
	case low > in.high, low == in.high && low == b.now:
		return 0, false
	case in.high < math.MaxInt64:
		return last + plain(low-last, low-last+(in.high-low)/(left+1), in.high-last), true
	case low == last:
		return last + usual, true
	}
	return last + beyond(low-last), true
}

// anyTime is an unbounded window.
var anyTime = span{math.MinInt64, math.MaxInt64}

// way returns the history of one way through the form, and its options.
func (t *teller) way(choice, other int) (history, []option) {
	b := builder{samples: t.samples, steps: maxVisits, choice: choice, other: other}
	if _, ok := b.make(t.root, 0, anyTime); !ok {
		b.history = nil
		t.truncated = t.truncated || b.long || b.steps < 0
	}
	return b.history, b.options
}

// sample is an event without its time.
type sample struct {
	name  string
	props []form.Property
	data  string
	kinds monitor.Kinds
}

// samples are the events of the histories of an expression.
type samples struct {
	kinds  []*sample   // by kind: the plainest one that matches; nil if none was found
	misses [][]*sample // by kind: events that differ from it in their data and do not match
	filter map[string]bool
	lacks  bool // an event, or data that differs, because of its bounds
}

// maxMisses bounds the events that differ from one that matches.
const maxMisses = 3

// maxMatches bounds the evaluations of filters for events that do not match.
const maxMatches = 2000

func newSamples(p *monitor.Program, kinds []form.Kind) *samples {
	s := &samples{kinds: make([]*sample, len(kinds)), misses: make([][]*sample, len(kinds)), filter: map[string]bool{}}
	byName, misses := map[string][]*sample{}, make([][]*sample, len(kinds))
	add := func(name string, props []form.Property) *sample {
		e := &sample{name: name, props: props, data: string(form.Document(props))}
		e.kinds = p.Match(name, []byte(e.data))
		byName[name] = append(byName[name], e)
		return e
	}
	same, cost := map[string]int{}, 0 // kinds of each name
	for _, k := range kinds {
		same[k.Name]++
	}
	for i, k := range kinds {
		if k.Where == nil {
			add(k.Name, nil)
			continue
		}
		s.filter[k.Name] = true
		match, others := k.Where.Examples()
		if match == nil {
			s.lacks = true
			continue
		}
		add(k.Name, match)
		for _, props := range others[:min(maxMisses, len(others))] {
			if cost += same[k.Name]; cost > maxMatches {
				s.lacks = true
				break
			}
			misses[i] = append(misses[i], add(k.Name, props))
		}
	}
	for i, k := range kinds {
		for _, e := range byName[k.Name] { // the fewest other kinds
			if e.kinds&(1<<i) != 0 && (s.kinds[i] == nil || count(e.kinds) < count(s.kinds[i].kinds)) {
				s.kinds[i] = e
			}
		}
		if s.kinds[i] == nil {
			continue
		}
		for _, e := range misses[i] {
			if e.kinds&(1<<i) == 0 {
				s.misses[i] = append(s.misses[i], e)
			}
		}
	}
	return s
}

func count(k monitor.Kinds) (n int) {
	for ; k != 0; k &= k - 1 {
		n++
	}
	return n
}

// same reports whether two events are equal, apart from their time.
func (e *sample) same(f *sample) bool { return e.name == f.name && e.data == f.data }

// textWords are the words of texts that could be mistaken for a name, or a name for them.
const textWords = " after and apart as at before comes decided does earlier events exactly fewer fires first for instead is it later less missing more not " +
	"nothing of once one same seen than that the time times twice with without yet "

// subject returns an event in English.
func (e *sample) subject() string {
	name := driplang.FormatName(e.name)
	if name == e.name && strings.Contains(textWords, " "+strings.ToLower(name)+" ") {
		name = `"` + name + `"`
	}
	if len(e.props) == 0 {
		return name
	}
	list := make([]string, len(e.props))
	for i, p := range e.props {
		list[i] = driplang.FormatPath(p.Path) + " " + p.JSON
	}
	return name + " (" + clip(strings.Join(list, ", ")) + ")"
}

// clip shortens data for a text.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// value returns the value of a property; "" if it is missing.
func (e *sample) value(path []string) string {
	for _, p := range e.props {
		if slices.Equal(p.Path, path) {
			return p.JSON
		}
	}
	return ""
}
