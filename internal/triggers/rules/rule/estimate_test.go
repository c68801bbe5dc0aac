package rule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestEstimateCoversTheTotal: over 200 seeds of names, the 95 % interval has the exact number in at
// least 90 %, also for few firings and for skewed ones, and it is not needlessly wide.
func TestEstimateCoversTheTotal(t *testing.T) {
	seeds := sebtest.Runs(200, 20)
	populations := map[string]struct {
		entities int
		firings  func(r *rand.Rand) int // of one entity
		sample   int
		width    float64 // the largest mean width of an interval, as a multiple of the total
	}{
		"each fires once":       {2000, func(*rand.Rand) int { return 1 }, 16, 0.5},
		"half of them":          {2000, func(r *rand.Rand) int { return r.IntN(2) }, 2, 0.15},
		"few":                   {2000, func(r *rand.Rand) int { return one(r.IntN(100) == 0) }, 4, 2.5},
		"about one in a sample": {2000, func(r *rand.Rand) int { return one(r.IntN(125) == 0) }, 16, 6},
		"one to four":           {1000, func(r *rand.Rand) int { return 1 + r.IntN(4) }, 16, 0.8},
		"skewed":                {2000, func(r *rand.Rand) int { return int(min(1/math.Sqrt(1-r.Float64()), 20)) }, 8, 0.6},
	}
	for name, p := range populations {
		t.Run(name, func(t *testing.T) {
			firings, fired, entities := 0, 0, 0
			var width, total float64
			for seed := range seeds {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				x := newTrial(t, "A", 1<<20)
				x.o.Sample, x.rule.Def.Fire = p.sample, OnReset
				exact := map[string]int64{}
				for i := range p.entities {
					e := Event{Name: "A", EntityID: fmt.Sprintf("seed-%d-user-%d", seed, i)}
					n := p.firings(r)
					exact["firings"] += int64(n)
					exact["fired"] += int64(one(n > 0))
					if !x.Covers([]byte(e.EntityID)) {
						continue
					}
					for at := range n {
						must.NoError(t, x.Event(&e, 0, int64(at), int64(at)))
					}
				}
				must.NoError(t, x.Finish(1000))
				e := x.Estimate()
				firings += one(e.Firings.covers(exact["firings"]))
				fired += one(e.Fired.covers(exact["fired"]))
				entities += one(e.Entities.covers(exact["fired"]))
				width += float64(e.Firings.High - e.Firings.Low)
				total += float64(exact["firings"])
			}
			for of, n := range map[string]int{"firings": firings, "fired": fired, "entities": entities} {
				if n < seeds*90/100 {
					t.Errorf("the interval of %s has the exact number in %d of %d cases", of, n, seeds)
				}
			}
			if width /= total; width > p.width {
				t.Errorf("the intervals are %.2f of the total wide, want at most %.2f", width, p.width)
			}
			t.Logf("firings %d, fired %d of %d; width %.2f", firings, fired, seeds, width)
		})
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (e *Estimate) covers(n int64) bool {
	return e.Low <= n && n <= e.High && e.Low <= e.Value && e.Value <= e.High
}

// TestSeen: the number of entities is exact up to 8,192 and close above; erased ones do not count.
func TestSeen(t *testing.T) {
	x := newTrial(t, "A", 1<<20)
	for i := range 200_000 {
		name := fmt.Appendf(nil, "user-%d", i)
		x.Covers(name)
		x.Covers(name)
		if n := x.Seen(); i < distinctMax && n != i+1 || i%10_000 == 0 && math.Abs(float64(n-i-1)) > 0.06*float64(i+1) {
			t.Fatalf("%d entities seen of %d", n, i+1)
		}
		if i == 99 {
			x.Erase("user-1", 0)
			must.Equalf(t, x.Seen(), 99, "entities seen of 100, one of which is erased")
			x.Covers([]byte("user-1"))
		}
	}
	if n := len(x.known.kept); n > distinctMax {
		t.Errorf("%d hashes held", n)
	}
}

// TestTrialKeepsTheLastFirings: Last has the last firings by their instant, also of deadlines, and
// none of an erased entity.
func TestTrialKeepsTheLastFirings(t *testing.T) {
	x := newTrial(t, "A THEN (NOT B WITHIN 100 ms)", 1<<20)
	for i := range 1000 {
		must.NoError(t, x.addEvent(i, i, "A"))
	}
	must.NoError(t, x.Finish(2000))
	for i, s := range x.Last {
		if want := int64(1080 + i); s.At != want || len(x.Last) != 20 {
			t.Errorf("firing %d of %d is at %d, want %d", i, len(x.Last), s.At, want)
		}
	}
	x.Erase("entity-000000995", 0)
	if len(x.Last) != 19 || x.Last[15].Entity != "entity-000000996" {
		t.Errorf("%+v", x.Last)
	}
}

// TestTrialMayGetMoreMemory: More is asked once, before an entity is left out.
func TestTrialMayGetMoreMemory(t *testing.T) {
	x, asked := newTrial(t, "A THEN (NOT B WITHIN 7 days)", 1<<20), 0
	x.o.More = func() (int64, error) { asked++; return 2 << 20, nil }
	small, most := 0, 0
	for i := 0; !x.Truncated; i++ {
		must.NoError(t, x.addEvent(i, i, "A"))
		if most = len(x.rows); asked == 0 {
			small = most
		}
	}
	if asked != 1 || most < small*19/10 {
		t.Errorf("asked %d times; %d entities, before that %d", asked, most, small)
	}
	x = newTrial(t, "A THEN (NOT B WITHIN 7 days)", 1<<20)
	x.o.More = func() (int64, error) { return 0, ErrEvent }
	var err error
	for i := 0; err == nil && !x.Truncated; i++ {
		err = x.addEvent(i, i, "A")
	}
	if err != ErrEvent || x.Truncated {
		t.Errorf("%v, truncated %v; want the error of More", err, x.Truncated)
	}
}

// TestFinishPolls: the end of a trial with many entities can be canceled.
func TestFinishPolls(t *testing.T) {
	x, polls := newTrial(t, "A", 1<<20), 0
	for i := range 1000 {
		must.NoError(t, x.addEvent(i, i, "A"))
	}
	x.o.Poll = func() error {
		if polls++; polls == 3 {
			return ErrEvent
		}
		return nil
	}
	if err := x.Finish(2000); err != ErrEvent || polls != 3 {
		t.Errorf("after %d calls: %v", polls, err)
	}
}
