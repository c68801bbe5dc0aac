package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/result"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 2.0 / 20},
		{[]float64{4, 5, 6, 7}, []float64{3, 2, 1, 0}, 2.0 / 70},
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{[]float64{1, 3, 5}, []float64{2, 4, 6}, 14.0 / 20}, // rank sums 9 and 12: of 20 orders 14 are as far from 10.5
		{[]float64{1, 1, 1}, []float64{1, 1}, 1},
		{nil, []float64{1}, 1},
	} {
		if got := MannWhitney(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("MannWhitney(%v, %v) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestMannWhitneyLevel draws both samples from one population. About 5 % of the pairs must be
// significant at 5 %.
func TestMannWhitneyLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{5, 8, 30} { // exact, exact, approximate
		const draws = 2000
		found := 0
		for range draws {
			a, b := make([]float64, n), make([]float64, n)
			for i := range n {
				a[i], b[i] = rng.ExpFloat64(), rng.ExpFloat64()
			}
			if MannWhitney(a, b) < significant {
				found++
			}
		}
		if share := float64(found) / draws; share > 0.065 || share < 0.02 {
			t.Errorf("%d values each: %.3f of differences by chance are called significant, want about 0.05 or a little less", n, share)
		}
	}
}

// compareRun makes a run of 10,000 samples around a middle.
func compareRun(t *testing.T, label string, repeat int, middle time.Duration, lost int64) result.Run {
	t.Helper()
	r := run(t, label, sut.Fsync, 1000, 10_000, repeat, middle)
	r.Workload.Name = fmt.Sprint("whatever it is called ", repeat)
	r.Counts.Lost = lost
	return r
}

func file(t *testing.T, middle time.Duration, repeats int, lost int64) *result.File {
	f := &result.File{}
	for i := range repeats {
		f.Runs = append(f.Runs, compareRun(t, "a", i+1, middle+time.Duration(i)*10*time.Microsecond, lost))
	}
	return f
}

func TestCompare(t *testing.T) {
	find := func(changes []Change, figure string) *Change {
		t.Helper()
		for i := range changes {
			if changes[i].Figure == figure {
				return &changes[i]
			}
		}
		t.Fatalf("no change of %s in %v", figure, changes)
		return nil
	}
	for _, repeats := range []int{1, 3, 5} {
		slower, unpaired, err := Compare(file(t, time.Millisecond, repeats, 0), file(t, 2*time.Millisecond, repeats, 3))
		if err != nil || len(unpaired) > 0 {
			t.Fatal(err, unpaired)
		}
		c := find(slower, "p99")
		if !c.Apart || c.Ratio() < 1.8 || c.Ratio() > 2.2 {
			t.Errorf("%d repeats, twice as slow: apart %v, ratio %v", repeats, c.Apart, c.Ratio())
		}
		if c := find(slower, "lost"); c.After.Middle != 3 || c.Before.Middle != 0 {
			t.Errorf("lost: %+v", c)
		}
		same, _ := must.Get2(Compare(file(t, time.Millisecond, repeats, 0), file(t, time.Millisecond+time.Microsecond, repeats, 0)))(t)
		if c := find(same, "p99"); c.Apart {
			t.Errorf("%d repeats, nothing changed: said to be apart: %+v", repeats, c)
		}
		for _, c := range same {
			if c.Figure == "p99.99" {
				t.Error("p99.99 of 10,000 samples has one sample above it, and is compared")
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	verdicts := func(before, after *result.File) map[string]string {
		t.Helper()
		changes, _ := must.Get2(Compare(before, after))(t)
		all := map[string]string{}
		for i := range changes {
			all[changes[i].Figure] = changes[i].Verdict()
		}
		return all
	}
	slower := verdicts(file(t, time.Millisecond, 5, 0), file(t, 2*time.Millisecond, 5, 3))
	for figure, want := range map[string]string{"p99": "WORSE", "lost": "WORSE", "corrupt": "the same", "rate": "the same"} {
		check.Equalf(t, slower[figure], want, "%s", figure)
	}
	check.Equalf(t, verdicts(file(t, 2*time.Millisecond, 5, 0), file(t, time.Millisecond, 5, 0))["p50"], "BETTER", "p50")
	single := verdicts(file(t, time.Millisecond, 1, 0), file(t, 2*time.Millisecond, 1, 1))
	for figure, want := range map[string]string{"p50": "WORSE", "max": "not significant", "mean": "not significant", "lost": "WORSE"} {
		check.Equalf(t, single[figure], want, "of single runs %s", figure)
	}
}

// TestWorksThatLookAlike: works with equal titles and different workloads are not paired.
func TestWorksThatLookAlike(t *testing.T) {
	before, after := file(t, time.Millisecond, 2, 0), file(t, time.Millisecond, 2, 0)
	for i := range after.Runs {
		after.Runs[i].Workload.Partitions = 3
	}
	changes, unpaired, err := Compare(before, after)
	if err != nil || len(changes) != 0 || len(unpaired) != 2 {
		t.Errorf("%d changes, unpaired %q, error %v", len(changes), unpaired, err)
	}
}

func TestCompareUnpaired(t *testing.T) {
	before, after := file(t, time.Millisecond, 1, 0), file(t, time.Millisecond, 1, 0)
	before.Runs = append(before.Runs, compareRun(t, "gone", 1, time.Millisecond, 0))
	after.Runs = append(after.Runs, compareRun(t, "new", 1, time.Millisecond, 0))
	after.Runs = append(after.Runs, compareRun(t, "a", 1, time.Millisecond, 0))
	after.Runs[2].Workload.Rate *= 2 // a different work
	_, unpaired, err := Compare(before, after)
	if err != nil || len(unpaired) != 3 || !strings.HasPrefix(unpaired[0], "only in the first: gone (fsync)") {
		t.Errorf("unpaired: %q, %v", unpaired, err)
	}
}

func TestConditions(t *testing.T) {
	slower, _ := must.Get2(Compare(file(t, time.Millisecond, 5, 0), file(t, 2*time.Millisecond, 5, 3)))(t)
	for text, want := range map[string]bool{
		"p99>10%": true, "p99>150%": false, "p99 > 1ms": true, "p99>1s": false, "p50<1ms": false, "p50<1m": true,
		"lost>0": true, "lost>3": false, "duplicates>0": false, "rate<-5%": false, "rate<2000": true, "lost>10%": true,
	} {
		c := must.Get(ParseCondition(text))(t)
		met := false
		for i := range slower {
			met = met || c.Met(&slower[i])
		}
		check.Equalf(t, met, want, "%s: met", text)
	}
	for text, want := range map[string]string{
		"p99": "no < and no >", "p98>3ms": `no figure "p98"`, "p99>3": `"3" is no duration`, "lost>x": `"x" is no number`,
		"p99>NaN%": "is no percentage", "rate>Inf": "is no number",
	} {
		if _, err := ParseCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to say %s", text, err, want)
		}
	}
}
