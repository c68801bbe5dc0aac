package form

import "slices"

// FiresImmediately returns the THENs that become true when their left side completes, because the
// right side is an absence without an end.
func FiresImmediately(f *Form) []*Form {
	switch {
	case f.Op == And || f.Op == Or:
		var found []*Form
		for _, k := range f.Kids {
			found = append(found, FiresImmediately(k)...)
		}
		return found
	case f.Op != Then || f.Not:
		return nil
	case trueAtOnce(f.Kids[1]):
		return []*Form{f}
	}
	return FiresImmediately(f.Kids[1])
}

// trueAtOnce reports whether f is true without any event.
func trueAtOnce(f *Form) bool {
	switch f.Op {
	case And:
		return !slices.ContainsFunc(f.Kids, func(k *Form) bool { return !trueAtOnce(k) })
	case Or:
		return slices.ContainsFunc(f.Kids, trueAtOnce)
	}
	return f.Not && f.Within == 0 && f.After == 0
}

// preference is the better one of two completions of a left side, because of the windows to its
// right.
type preference uint8

const (
	later   preference = 1 << iota // it leaves more time
	earlier                        // its waiting time ends sooner
	both    = later | earlier
)

func (p preference) turned() preference { return p>>1&1 | p<<1&2 }

// KeepsManyInstances returns the THENs that must remember every completion of the left side while a
// window to its right is open, because neither the latest nor the earliest makes the others
// redundant.
func KeepsManyInstances(f *Form) []*Form {
	var found []*Form
	for _, k := range slices.Concat(f.Kids, f.Guards) {
		found = append(found, KeepsManyInstances(k)...)
	}
	if f.Op != Then || preferences(f.Kids[1], false) != both {
		return found
	}
	if left := f.Kids[0]; left.Op == Leaf && endedBy(f.Kids[1], left.Kind) {
		return found // a completion ends the earlier ones
	}
	return append(found, f)
}

// endedBy reports whether an event of a kind makes f permanently false while it is open.
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

// preferences returns the preferences of the windows of f, measured from its anchor. completes: the
// time of f's completion matters, not only its truth.
func preferences(f *Form, completes bool) preference {
	var p preference
	switch f.Op {
	case And, Or, Not:
		for _, k := range f.Kids {
			p |= preferences(k, completes && f.Op != Not)
		}
	case Leaf, Then:
		p = f.own()
	}
	if f.Op == Then {
		if p != 0 { // an inherited window has the opposite preference for an absence
			p |= inherited(f.Kids[1], p)
		}
		p |= preferences(f.Kids[0], true)
	}
	for _, g := range f.Guards {
		p |= preferences(g, false)
	}
	if f.Not || f.Op == Not {
		if p = p.turned(); completes && f.Within > 0 {
			p = both // it completes at the end of its window, and at no other instant
		}
	}
	return p
}

// own returns the preference of a form's own window, without its NOT.
func (f *Form) own() preference {
	var p preference
	if f.Within > 0 {
		p |= later
	}
	if f.After > 0 {
		p |= earlier
	}
	return p
}

// inherited returns the preference that a window of a THEN adds to the forms on its right.
func inherited(f *Form, p preference) preference {
	var all preference
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

// Reach returns the time after its anchor for which a form may be open because of its windows.
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
