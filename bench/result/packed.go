package result

import "github.com/HdrHistogram/hdrhistogram-go"

// Packed is a compact histogram that is cheap to make. Encoding a histogram takes milliseconds,
// which is too slow for every second of a run.
type Packed struct {
	counts   []packedCount
	overflow int64
	negative int64
}

// packedCount is n samples in the bucket at an index.
type packedCount struct {
	index int32
	n     int64
}

// Pack copies the histogram.
func (l *Histogram) Pack() Packed {
	p := Packed{overflow: l.overflow, negative: l.negative}
	left := l.Count()
	for i, n := range l.h.Export().Counts {
		if n == 0 {
			continue
		}
		p.counts = append(p.counts, packedCount{int32(i), n})
		if left -= n; left == 0 {
			break
		}
	}
	return p
}

// Histogram returns the packed histogram.
func (p *Packed) Histogram() *Histogram {
	l := NewHistogram()
	s := l.h.Export()
	for _, c := range p.counts {
		s.Counts[c.index] = c.n
	}
	l.h = hdrhistogram.Import(s)
	l.overflow, l.negative = p.overflow, p.negative
	return l
}
