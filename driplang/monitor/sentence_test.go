package monitor

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/sebtest"
)

var treesFlag = flag.Uint64("trees", 0, "number of random trees of TestSentenceHasOneMeaning (0: some thousand)")

// TestSentenceHasOneMeaning: expressions with the same sentence are true at the same instants, for the
// cases and for random expressions. These have few names, so that many share their sentence.
func TestSentenceHasOneMeaning(t *testing.T) {
	bySentence := make(map[string]driplang.Expr)
	pairs, seen := 0, make(map[string]bool)
	verify := func(text string, seed uint64) {
		e, err := driplang.Parse(text)
		if err != nil || seen[e.String()] {
			return
		}
		seen[e.String()] = true
		first, ok := bySentence[e.Sentence()]
		if !ok {
			bySentence[e.Sentence()] = e
			return
		}
		pairs++
		if err := differ(first, e, seed, 60); err != nil {
			t.Errorf("%s\nand\n%s\n%v, but both are\n%s", first, e, err, e.Sentence())
		}
	}
	for i, c := range driplangtest.Cases(t) {
		verify(c.Expr, uint64(i))
	}
	for seed := range max(*treesFlag, uint64(sebtest.Runs(5000, 3000))) {
		c := driplangtest.Random(seed)
		verify(c.Expression(1+c.Below(3), false), seed)
	}
	if pairs < 100 {
		t.Errorf("only %d pairs", pairs)
	}
	t.Logf("%d pairs of %d expressions", pairs, len(seen))
}

// differ returns an error with a random history after which, or at an instant of which, one of two
// expressions is true and the other is not.
func differ(a, b driplang.Expr, seed uint64, traces int) error {
	x, err := Compile(a, Options{})
	if err != nil {
		return err
	}
	y, err := Compile(b, Options{})
	if err != nil {
		return err
	}
	if (x.Initially() == True) != (y.Initially() == True) {
		return fmt.Errorf("are %v and %v initially", x.Initially(), y.Initially())
	}
	random, of := rand.New(rand.NewPCG(seed, 7)), driplangtest.TracesOf(a, b)
	for range traces {
		history := of.History(random, 10)
		m, n := New(x), New(y)
		for i, e := range history {
			if err := advance(m, n, e.At-1); err != nil {
				return fmt.Errorf("%w after %+v", err, history[:i])
			}
			m.Step(x.Match(e.Name, []byte(e.Data)), e.At, uint64(i+1))
			n.Step(y.Match(e.Name, []byte(e.Data)), e.At, uint64(i+1))
			if v, w := m.Value(), n.Value(); (v == True) != (w == True) {
				return fmt.Errorf("are %v and %v after %+v", v, w, history[:i+1])
			}
		}
		if err := advance(m, n, 1<<45); err != nil {
			return fmt.Errorf("%w after %+v", err, history)
		}
	}
	return nil
}

// advance advances both monitors to an instant, by the deadlines of each.
func advance(m, n *Monitor, to int64) error {
	for {
		at := to
		for _, monitor := range []*Monitor{m, n} {
			if next, ok := monitor.Next(); ok {
				at = min(at, next)
			}
		}
		if now, _ := m.Now(); at < now || at < 0 {
			return nil
		}
		m.Advance(at)
		n.Advance(at)
		if v, w := m.Value(), n.Value(); (v == True) != (w == True) {
			return fmt.Errorf("are %v and %v at %d ms", v, w, at)
		}
		if at == to {
			return nil
		}
	}
}
