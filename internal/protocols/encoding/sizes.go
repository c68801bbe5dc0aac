package encoding

import (
	"math"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// Sizes parses a JSON array of record lengths, such as [3,4], incrementally. It accepts what
// encoding/json accepts for a []uint32, except null. It counts lengths over the records limit
// without keeping them, so that the error can name the count. Sum cannot overflow: a body has at
// most 2^31 lengths, each below 2^32.
type Sizes struct {
	Lengths []uint32 // the first Max lengths
	Max     int      // how many to keep
	Count   int64    // lengths seen
	Sum     int64    // of all lengths seen

	room func(bytes int64) error

	cur   uint64
	state sizesState
}

type sizesState uint8

const (
	sizesOpen  sizesState = iota // before [
	sizesFirst                   // after [: a number or ]
	sizesValue                   // after a comma: a number
	sizesDigit                   // inside a number
	sizesZero                    // after a leading 0: no digit may follow
	sizesNext                    // after a number and white space: a comma or ]
	sizesDone                    // after ]
)

const fieldSizes = "sizes"

// sizesKept bounds the lengths for which a parser keeps its memory between requests.
const sizesKept = 16 << 10

// Reset prepares p for another array, of which it keeps maxRecords lengths. If room is not nil,
// Reset calls it before the memory for the lengths grows to a number of bytes.
func (p *Sizes) Reset(maxRecords int, room func(bytes int64) error) {
	if cap(p.Lengths) > sizesKept {
		p.Lengths = nil
	}
	*p = Sizes{Lengths: p.Lengths[:0], Max: maxRecords, room: room}
}

// Feed consumes bytes of b until the array ends. It returns how many it consumed and whether the
// array has ended.
func (p *Sizes) Feed(b []byte) (n int, done bool, err error) {
	for i, c := range b {
		if c >= '0' && c <= '9' {
			if fault := p.digit(uint64(c - '0')); fault != nil {
				return i, false, fault
			}
			continue
		}
		if p.state == sizesDigit || p.state == sizesZero {
			if err := p.keep(); err != nil {
				return i, false, err
			}
			p.state = sizesNext
		}
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '[' && p.state == sizesOpen:
			p.state = sizesFirst
		case c == ',' && p.state == sizesNext:
			p.state = sizesValue
		case c == ']' && (p.state == sizesNext || p.state == sizesFirst):
			p.state = sizesDone
			return i + 1, true, nil
		default:
			return i, false, problem.BadField(fieldSizes, "want a JSON array of record lengths like [3,4], found %q", c)
		}
	}
	return len(b), false, nil
}

func (p *Sizes) digit(d uint64) *api.Problem {
	switch p.state {
	case sizesFirst, sizesValue:
		p.cur, p.state = d, sizesDigit
		if d == 0 {
			p.state = sizesZero
		}
	case sizesDigit:
		if p.cur = p.cur*10 + d; p.cur > math.MaxUint32 {
			return problem.BadField(fieldSizes, "length %d is over %d", p.Count, uint32(math.MaxUint32))
		}
	default:
		return problem.BadField(fieldSizes, "want a JSON array of record lengths like [3,4], found digit %d out of place", d)
	}
	return nil
}

func (p *Sizes) keep() error {
	p.Count++
	p.Sum += int64(p.cur)
	if len(p.Lengths) >= p.Max {
		return nil
	}
	if len(p.Lengths) == cap(p.Lengths) {
		n := min(max(2*cap(p.Lengths), 256), p.Max)
		if p.room != nil {
			if err := p.room(4 * int64(n+cap(p.Lengths))); err != nil {
				return err
			}
		}
		p.Lengths = append(make([]uint32, 0, n), p.Lengths...)
	}
	p.Lengths = append(p.Lengths, uint32(p.cur))
	return nil
}
