package form

import "slices"

// FiresAtOnce is the THENs that become true the moment their left side is complete, because the right side is an
// absence without an end.
func FiresAtOnce(f *Form) []*Form {
	switch {
	case f.Op == And || f.Op == Or:
		var found []*Form
		for _, k := range f.Kids {
			found = append(found, FiresAtOnce(k)...)
		}
		return found
	case f.Op != Then || f.Not:
		return nil
	case trueAtOnce(f.Kids[1]):
		return []*Form{f}
	}
	return FiresAtOnce(f.Kids[1])
}

// trueAtOnce is whether f is true before anything has happened.
func trueAtOnce(f *Form) bool {
	switch f.Op {
	case And:
		return !slices.ContainsFunc(f.Kids, func(k *Form) bool { return !trueAtOnce(k) })
	case Or:
		return slices.ContainsFunc(f.Kids, trueAtOnce)
	}
	return f.Not && f.Within == 0 && f.After == 0
}

// pull is which of two completions of a left side is the better one, because of the windows to its right.
type pull uint8

const (
	later   pull = 1 << iota // there is more time left
	earlier                  // the time to wait is over sooner
	both    = later | earlier
)

func (p pull) turned() pull { return p>>1&1 | p<<1&2 }

// KeepsMany is the THENs of which every completion of the left side has to be remembered for as long as a window to
// its right is open, because neither the latest nor the earliest makes the others needless.
func KeepsMany(f *Form) []*Form {
	var found []*Form
	for _, k := range slices.Concat(f.Kids, f.Guards) {
		found = append(found, KeepsMany(k)...)
	}
	if f.Op != Then || pulls(f.Kids[1], false) != both {
		return found
	}
	if left := f.Kids[0]; left.Op == Leaf && endedBy(f.Kids[1], left.Kind) {
		return found // a completion ends those before it
	}
	return append(found, f)
}

// endedBy is whether an event of a kind makes f false for good, while it is still open.
func endedBy(f *Form, kind int) bool {
	switch f.Op {
	case Leaf:
		return f.Not && f.Kind == kind && f.Need == 1 && f.After == 0
	case Then:
		return !f.Not && endedBy(f.Kids[0], kind)
	case And:
		return slices.ContainsFunc(f.Kids, func(k *Form) bool { return endedBy(k, kind) })
	case Or:
		return !slices.ContainsFunc(f.Kids, func(k *Form) bool { return !endedBy(k, kind) })
	}
	return false
}

// pulls is the directions in which the windows of f, measured from its anchor, pull. completes is whether it matters
// when f completes, and not only whether it does.
func pulls(f *Form, completes bool) pull {
	var p pull
	switch f.Op {
	case And, Or, Not:
		for _, k := range f.Kids {
			p |= pulls(k, completes && f.Op != Not)
		}
	case Leaf, Then:
		p = f.own()
	}
	if f.Op == Then {
		if p != 0 { // what is inherited pulls the other way where absence is wanted
			p |= inherited(f.Kids[1], p)
		}
		p |= pulls(f.Kids[0], true)
	}
	for _, g := range f.Guards {
		p |= pulls(g, false)
	}
	if f.Not || f.Op == Not {
		if p = p.turned(); completes && f.Within > 0 {
			p = both // it completes at the end of its window, and no other instant will do
		}
	}
	return p
}

// own is the pull of a form's own window, its NOT not looked at.
func (f *Form) own() pull {
	var p pull
	if f.Within > 0 {
		p |= later
	}
	if f.After > 0 {
		p |= earlier
	}
	return p
}

// inherited is the pull that a window of a THEN has on what is to its right.
func inherited(f *Form, p pull) pull {
	var all pull
	if f.Op == Leaf || f.Op == Then {
		all = p
	}
	for _, k := range f.Kids {
		all |= inherited(k, p)
	}
	if f.Not || f.Op == Not {
		all = all.turned()
	}
	return all
}

// Reach is how long after its anchor a form may still be open because of its windows.
func Reach(f *Form) int64 {
	if f.Within > 0 {
		return f.Within
	}
	reach := f.After
	for _, k := range slices.Concat(f.Kids, f.Guards) {
		if f.Op == Then {
			reach += Reach(k)
		} else {
			reach = max(reach, Reach(k))
		}
	}
	return reach
}
