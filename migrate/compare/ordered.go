package compare

import "encoding/binary"

// Matching records of the source that are kept as places where a copy may begin again: the first ones, and
// one of sampleEvery of the others. They need 24 bytes each.
const (
	sampleFirst = 1024
	sampleEvery = 1024
)

// aligner compares two streams item by item, and finds where they agree again after a difference.
type aligner struct {
	from, to *stream
	result   *Partition
	// reread returns a stream with a part of the source, until stop is called.
	reread func(start, end int64) (s *stream, stop func())

	recent  [window]sum // checksums of the last records of to, as a ring
	passed  int         // records of to
	samples map[sum]int64
	matched int   // records of the source that the target has in their place
	first   int64 // offset of the first of them
	end     int64 // of the source

	// While the target repeats records, from reads them again.
	ahead      *stream // the stream that from replaces; nil without a repetition
	stop       func()
	repetition Repetition
}

func newAligner(from, to *stream, result *Partition) *aligner {
	return &aligner{from: from, to: to, result: result, samples: map[sum]int64{}}
}

// run compares the streams to their ends. end is that of the source.
func (a *aligner) run(end int64) {
	a.end = end
	for {
		x, y := a.from.at(0), a.to.at(0)
		switch {
		case a.ahead != nil && (x == nil || y == nil):
			a.leave()
		case x == nil && y == nil:
			return
		case x != nil && y != nil && x.sum == y.sum:
			a.match(x, y)
			a.pass(1, 1)
		default:
			a.resolve()
		}
	}
}

// match notes a record that both have.
func (a *aligner) match(x, y *item) {
	if a.ahead != nil {
		a.repetition.Records++
		a.result.differ(Difference{Kind: Doubled, From: a.offset(a.ahead), To: new(y.offset)}, 1)
		return
	}
	if a.matched == 0 {
		a.first = x.offset
	}
	if a.matched < sampleFirst || binary.LittleEndian.Uint16(x.sum[:])%sampleEvery == 0 {
		if _, known := a.samples[x.sum]; !known {
			a.samples[x.sum] = x.offset
		}
	}
	a.matched++
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

// resolve counts the records up to the next place where the streams agree. If the target repeats records, it
// is where they begin. Else the nearest one counts, with records missing, added or changed in this order.
// Without one in the window all of it is changed.
func (a *aligner) resolve() {
	x, y := a.from.at(0), a.to.at(0)
	if y != nil {
		if offset, known := a.samples[y.sum]; known && offset == a.first && a.repeat(offset) {
			return
		}
	}
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
	case y == nil:
		a.missing(a.left(a.from))
	case a.search():
	case a.ahead != nil:
		a.leave()
	case x == nil:
		a.added(a.left(a.to))
	default:
		a.changed(min(a.left(a.from), a.left(a.to)))
	}
}

// search looks in the window for a place that the target repeats, and reports whether it found one.
func (a *aligner) search() bool {
	for k := range window {
		i := a.to.at(k)
		if i == nil {
			return false
		}
		if offset, known := a.samples[i.sum]; known {
			// The repetition began k records before it. Some offsets have no record, such as those of transactions.
			return a.repeat(offset - 2*int64(k))
		}
	}
	return false
}

// repeat makes from read records again, from the one that the target has next. It reports whether that is
// among those that follow start.
func (a *aligner) repeat(start int64) bool {
	next, end := a.from, a.end
	if a.ahead != nil {
		next = a.ahead
	}
	if x := next.at(0); x != nil {
		end = x.offset
	}
	s, stop := a.reread(start, end)
	y := a.to.at(0)
	for k := range window {
		i := s.at(k)
		if i == nil {
			break
		}
		if i.sum == y.sum {
			if a.ahead != nil {
				a.leave()
			}
			s.advance(k)
			a.repetition = Repetition{First: i.offset == a.first, From: i.offset, To: y.offset}
			a.from, a.ahead, a.stop = s, next, stop
			return true
		}
	}
	stop()
	return false
}

// leave ends a repetition. A single record is only doubled.
func (a *aligner) leave() {
	a.stop()
	a.from, a.ahead = a.ahead, nil
	if a.repetition.Records > 1 && len(a.result.Repetitions) < repetitionsMax {
		a.result.Repetitions = append(a.result.Repetitions, a.repetition)
	}
}

// left returns how many items a stream has within the window.
func (a *aligner) left(s *stream) int {
	s.at(window - 1)
	return min(len(s.ahead), window)
}

// missing counts records that the target does not have. Of a repetition none are missing.
func (a *aligner) missing(n int) {
	if a.ahead != nil {
		a.pass(n, 0)
		return
	}
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

// changed counts records that the target has in another form. Of a repetition they are extra.
func (a *aligner) changed(n int) {
	if a.ahead != nil {
		a.added(n)
		a.pass(n, 0)
		return
	}
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
