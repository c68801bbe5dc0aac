package rule

import (
	"math"
	"math/bits"
)

// Estimate is the estimate of a total from a sample of entities, with the bounds of its 95 %
// interval. Without a sample all three are the exact number.
type Estimate struct{ Value, Low, High int64 }

// tally sums up a number of each entity of a sample, such as its firings.
type tally struct {
	sum     int64
	squares int64 // sum of the squares
	most    int64 // the largest number of an entity
}

// grow says that the number of an entity has become n, from n-1.
func (t *tally) grow(n int64) {
	t.sum++
	t.squares += 2*n - 1
	t.most = max(t.most, n)
}

// ones is the tally of entities that count once each.
func ones(n int) tally { return tally{sum: int64(n), squares: int64(n), most: min(int64(n), 1)} }

// normal975 is the 97.5 % quantile of the normal distribution.
const normal975 = 1.959964

// estimate extrapolates to all entities.
//
// The hash selects each entity with probability p = 1/k, so the total is y/p for a sum y in the
// sample (Horvitz and Thompson). The interval is about the rest, which is not in the sample. Given n
// sampled entities with m firings each, the number of the others with m firings has a negative
// binomial distribution with mean n(1-p)/p and variance n(1-p)/p². The rest therefore has mean
// y(1-p)/p and variance v(1-p)/p², for a sum v of the squares in the sample. The bounds are
// quantiles of the gamma distribution with these moments. The upper bound adds one entity with the
// most firings, as Fay and Feuer do for weighted Poisson counts (Statistics in Medicine 16, 1997,
// 791-801), so that it is positive even if the sample has no firing. The quantiles are those of
// Wilson and Hilferty (PNAS 17, 1931, 684-688).
//
// No method knows an entity outside of the sample that has far more firings than all inside.
func (t tally) estimate(sample int) Estimate {
	if sample <= 1 {
		return Estimate{t.sum, t.sum, t.sum}
	}
	k, most := int64(sample), max(t.most, 1)
	return Estimate{
		Value: t.sum * k,
		Low:   t.sum + int64(math.Floor(restQuantile(t.sum, t.squares, k, -normal975))),
		High:  t.sum + int64(math.Ceil(restQuantile(t.sum+most, t.squares+most*most, k, normal975))),
	}
}

// restQuantile is the quantile of the rest of the total, for a normal quantile z.
func restQuantile(sum, squares, sample int64, z float64) float64 {
	if sum == 0 {
		return 0
	}
	p := 1 / float64(sample)
	mean, variance := float64(sum)*(1-p)/p, float64(squares)*(1-p)/(p*p)
	ninth := variance / (9 * mean * mean) // 1/9 of the inverse shape
	root := max(0, 1-ninth+z*math.Sqrt(ninth))
	return mean * root * root * root
}

// Estimates are extrapolations of the counts with these names.
type Estimates struct{ Firings, Fired, Entities Estimate }

// Estimate returns the estimates after Finish.
func (t *Trial) Estimate() Estimates {
	return Estimates{
		Firings: t.tally.estimate(t.o.Sample), Fired: ones(t.Fired).estimate(t.o.Sample), Entities: ones(t.Entities).estimate(t.o.Sample),
	}
}

// entityHash is the FNV-1a hash of an entity, mixed: each bit depends on each byte. Samples depend on
// it, so it never changes.
func entityHash(entity []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range entity {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// distinctMax bounds the hashes of a distinct.
const distinctMax = 8192

// distinct counts hashes by adaptive sampling (Flajolet, Computing 43, 1990, 391-400): it keeps
// those that end with level zero bits, and raises level if they are too many. The zero value is
// ready.
type distinct struct {
	kept  map[uint64]struct{}
	level int
}

func (d *distinct) keeps(h uint64) bool { return bits.TrailingZeros64(h) >= d.level }

func (d *distinct) add(h uint64) {
	if !d.keeps(h) {
		return
	}
	if d.kept == nil {
		d.kept = map[uint64]struct{}{}
	}
	d.kept[h] = struct{}{}
	for len(d.kept) > distinctMax {
		d.level++
		for h := range d.kept {
			if !d.keeps(h) {
				delete(d.kept, h)
			}
		}
	}
}

func (d *distinct) remove(h uint64) { delete(d.kept, h) }

func (d *distinct) count() int { return len(d.kept) << d.level }
