package driplang

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Bounds of the search for examples, so that its time is linear in the length of a filter.
const (
	maxSlots    = 64 // properties of a filter with examples
	maxAttempts = 8  // choices of the operands of ORs
	maxVaried   = 8  // properties that are varied, and comparisons with each
)

// Examples returns data that matches, and data that does not match and differs from it in one
// property, or in more if one is not enough. The values are those of the filter, or next to them.
// match is nil if none was found, or if the filter has many properties.
func (f *dataFilter) Examples() (match []form.Property, misses [][]form.Property) {
	if f.slots > maxSlots {
		return nil, nil
	}
	x := exampler{f, make([][]*filter, f.slots)}
	f.each(func(is *filter) {
		if x.of[is.slot] = append(x.of[is.slot], is); len(x.of[is.slot]) > maxVaried {
			x.of[is.slot] = x.of[is.slot][:maxVaried]
		}
	})
	values, ok := x.values(true)
	if !ok {
		return nil, nil
	}
	for slot := range min(f.slots, maxVaried) {
		was := values[slot]
		for _, v := range x.candidates(x.of[slot]) {
			if values[slot] = v; !f.holds(values) && !f.Matches(form.Document(x.properties(values))) {
				misses = append(misses, x.properties(values))
				break
			}
		}
		values[slot] = was
	}
	if none, ok := x.values(false); len(misses) == 0 && ok {
		misses = append(misses, x.properties(none))
	}
	return x.properties(values), misses
}

type exampler struct {
	*dataFilter
	of [][]*filter // comparisons by slot
}

func (x *exampler) properties(values []jsonValue) []form.Property {
	list := []form.Property{}
	for slot, v := range values {
		if v.kind != kindNull {
			list = append(list, form.Property{Path: x.of[slot][0].path, JSON: string(v.raw)})
		}
	}
	return list
}

// values returns values for which the filter is true, or false.
func (x *exampler) values(want bool) ([]jsonValue, bool) {
	for attempt := range maxAttempts {
		values, goals := make([]jsonValue, x.slots), make([][]goal, x.slots)
		x.filter.goals(want, attempt, func(g goal) { goals[g.is.slot] = append(goals[g.is.slot], g) })
		ok := true
		for slot, list := range goals {
			ok = ok && x.choose(list, slot, values)
		}
		if ok && x.Matches(form.Document(x.properties(values))) == want {
			return values, true
		}
	}
	return nil, false
}

// goal is a comparison that must be true, or false.
type goal struct {
	is   *filter
	want bool
}

// goals calls add for comparisons that are enough to make the filter true, or false.
func (f *filter) goals(want bool, attempt int, add func(goal)) {
	switch {
	case f.op == filterIs:
		add(goal{f, want})
	case f.op == filterNot:
		f.kids[0].goals(!want, attempt, add)
	case f.op == filterAnd == want:
		for _, k := range f.kids {
			k.goals(want, attempt, add)
		}
	default: // one is enough
		f.kids[attempt%len(f.kids)].goals(want, attempt, add)
	}
}

// choose sets the value of a property that satisfies the goals.
func (x *exampler) choose(list []goal, slot int, values []jsonValue) bool {
	var of []*filter
	for _, g := range list {
		if of = append(of, g.is); len(of) == maxVaried {
			break
		}
	}
	for _, values[slot] = range x.candidates(of) {
		if !slices.ContainsFunc(list, func(g goal) bool { return g.is.holds(values) != g.want }) {
			return true
		}
	}
	values[slot] = jsonValue{}
	return len(list) == 0
}

// candidates returns values near those that a property is compared with, the plainest first. The
// last one is missing.
func (x *exampler) candidates(of []*filter) (list []jsonValue) {
	add := func(l literal) { list = append(list, jsonValue{l.kind, []byte(l.String())}) }
	var numbers []float64
	for _, is := range of {
		add(is.want)
		if is.want.kind == kindNumber {
			numbers = append(numbers, is.want.double())
		}
	}
	for _, is := range of {
		for _, l := range is.want.neighbours() {
			add(l)
		}
	}
	slices.Sort(numbers)
	for i := range len(numbers) - 1 {
		if mid, ok := doubleLiteral(numbers[i]/2 + numbers[i+1]/2); ok {
			add(mid)
		}
	}
	return append(list, jsonValue{})
}

// neighbours returns values that differ from v, the plainest first.
func (v literal) neighbours() (list []literal) {
	text := func(s string) { list = append(list, literal{kind: kindString, text: s}) }
	switch v.kind {
	case kindTrue, kindFalse:
		return []literal{boolLiteral(v.kind == kindFalse)}
	case kindNumber:
		if i, ok := new(big.Int).SetString(v.text, 10); ok {
			for _, by := range []int64{1, -1} {
				n, _ := parseNumber(new(big.Int).Add(i, big.NewInt(by)).String())
				list = append(list, n)
			}
			return list
		}
		f := v.double()
		for _, f := range []float64{math.Floor(f) + 1, math.Ceil(f) - 1, f * 2, f / 2} {
			if n, ok := doubleLiteral(f); ok {
				list = append(list, n)
			}
		}
		return list
	case kindString:
		if day, err := time.Parse(time.DateOnly, v.text); err == nil {
			text(day.AddDate(0, 0, 1).Format(time.DateOnly))
			text(day.AddDate(0, 0, -1).Format(time.DateOnly))
		}
		text("other")
		text("another")
		text(v.text + "a")
		text("")
		return list
	}
	text("some")
	return list
}

// double returns the value of a number, rounded.
func (v literal) double() float64 {
	f, _ := strconv.ParseFloat(v.text, 64)
	return f
}

func doubleLiteral(f float64) (literal, bool) {
	return parseNumber(strconv.FormatFloat(f, 'g', -1, 64))
}
