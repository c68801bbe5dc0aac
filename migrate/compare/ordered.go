package compare

// aligner compares two streams item by item, and finds where they agree again after a difference.
type aligner struct {
	from, to *stream
	result   *Partition

	recent [window]sum // checksums of the last records of to, as a ring
	passed int         // records of to
}

// run compares the streams to their ends.
func (a *aligner) run() {
	for {
		x, y := a.from.at(0), a.to.at(0)
		switch {
		case x == nil && y == nil:
			return
		case x != nil && y != nil && x.sum == y.sum:
			a.pass(1, 1)
		default:
			a.resolve()
		}
	}
}

// pass moves both streams.
func (a *aligner) pass(from, to int) {
	for k := range to {
		a.recent[a.passed%window] = a.to.at(k).sum
		a.passed++
	}
	a.from.advance(from)
	a.to.advance(to)
}

// resolve counts the records up to the next place where the streams agree. The nearest one counts, with
// records missing, added or changed in this order. Without one in the window all of it is changed.
func (a *aligner) resolve() {
	x, y := a.from.at(0), a.to.at(0)
	for k := 1; x != nil && y != nil && k < window; k++ {
		u, v := a.from.at(k), a.to.at(k)
		if u == nil && v == nil {
			break
		}
		switch {
		case u != nil && u.sum == y.sum:
			a.missing(k)
			return
		case v != nil && v.sum == x.sum:
			a.added(k)
			return
		case u != nil && v != nil && u.sum == v.sum:
			a.changed(k)
			return
		}
	}
	switch {
	case x == nil:
		a.added(a.left(a.to))
	case y == nil:
		a.missing(a.left(a.from))
	default:
		a.changed(min(a.left(a.from), a.left(a.to)))
	}
}

// left returns how many items a stream has within the window.
func (a *aligner) left(s *stream) int {
	s.at(window - 1)
	return min(len(s.ahead), window)
}

func (a *aligner) missing(n int) {
	a.result.differ(Difference{Kind: Missing, From: new(a.from.at(0).offset), To: a.offset(a.to)}, int64(n))
	a.pass(n, 0)
}

// added counts records that only the target has. Those that are like one before them are doubled.
func (a *aligner) added(n int) {
	known := make(map[sum]bool, min(a.passed, window))
	for _, s := range a.recent[:min(a.passed, window)] {
		known[s] = true
	}
	for k := range n {
		i := a.to.at(k)
		kind := Extra
		if known[i.sum] {
			kind = Doubled
		}
		known[i.sum] = true
		a.result.differ(Difference{Kind: kind, From: a.offset(a.from), To: new(i.offset)}, 1)
	}
	a.pass(0, n)
}

func (a *aligner) changed(n int) {
	x, y := a.from.at(0), a.to.at(0)
	d := Difference{Kind: Changed, From: new(x.offset), To: new(y.offset), Parts: differing(x.parts, y.parts)}
	a.result.differ(d, int64(n))
	a.pass(n, n)
}

// offset returns the offset of the next record, or nil at the end.
func (a *aligner) offset(s *stream) *int64 {
	if i := s.at(0); i != nil {
		return new(i.offset)
	}
	return nil
}

// differing names the parts of two records that differ.
func differing(x, y [parts]uint32) (names []string) {
	for p, name := range partNames {
		if x[p] != y[p] {
			names = append(names, name)
		}
	}
	return names
}
