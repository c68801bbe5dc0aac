package monitor

import (
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestSentenceHasOneMeaning: expressions with the same sentence are true at the same instants, for the
// cases and for random expressions.
func TestSentenceHasOneMeaning(t *testing.T) {
	first := make(map[string]driplang.Expr)
	texts := make([]string, 0, 108)
	for _, c := range driplangtest.Cases(t) {
		texts = append(texts, c.Expr)
	}
	for seed := range uint64(sebtest.Runs(12000, 3000)) {
		c := &chooser{randomBytes(seed)}
		texts = append(texts, c.expression(1+c.below(3), false))
	}
	pairs, seen := 0, make(map[string]bool)
	for i, text := range texts {
		e, err := driplang.Parse(text)
		if err != nil || seen[e.String()] {
			continue
		}
		seen[e.String()] = true
		sentence := e.Sentence()
		other, ok := first[sentence]
		if !ok {
			first[sentence] = e
			continue
		}
		pairs++
		if at, history := differ(e, other, uint64(i)); at >= 0 {
			t.Errorf("%s\nand\n%s\ndiffer at %d ms after %v, but both are\n%s", other, e, at, history, sentence)
		}
	}
	if pairs < 20 {
		t.Errorf("only %d pairs", pairs)
	}
	t.Logf("%d pairs of %d expressions", pairs, len(seen))
}

// differ returns an instant of a random history at which one of two expressions is true, -1 if there
// is none.
func differ(a, b driplang.Expr, seed uint64) (int64, []testEvent) {
	x, y := driplangtest.Of(a), driplangtest.Of(b)
	random := rand.New(rand.NewPCG(seed, 7))
	for range 30 {
		history := (&chooser{randomBytes(random.Uint64())}).history(8)
		for i := range history { // of the names of the cases, too
			if names := a.Names(); random.IntN(4) > 0 {
				history[i].name = names[random.IntN(len(names))]
			}
		}
		events := given(history)
		known := 0
		for at := int64(0); at <= 40; at++ {
			for known < len(history) && history[known].at <= at {
				known++
			}
			p := point{known, at, true}
			if (byDefinition(x, events, p) == True) != (byDefinition(y, events, p) == True) {
				return at, history
			}
		}
	}
	return -1, nil
}
