package driplangtest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	treesFlag  = flag.Uint64("trees", 1000, "number of random expressions of TestSentencesAreRead (full run: 10000)")
	tracesFlag = flag.Int("traces", 30, "number of traces per random expression (full run: 1000)")
	firstFlag  = flag.Uint64("first", 0, "seed of the first random expression")
)

// TestSentencesAreRead: a reader that knows only the list of forms gets an expression with the same
// values from every sentence.
func TestSentencesAreRead(t *testing.T) {
	seen := make(map[string]bool)
	read := make(map[string]bool)
	for _, c := range driplangtest.Cases(t) {
		if e, err := driplang.Parse(c.Expr); err == nil && !read[e.String()] {
			read[e.String()] = true
			if _, err := compareSentence(e, uint64(len(read)), sebtest.Runs(500, 20), seen); err != nil {
				t.Errorf("case %s: %v", c.ID, err)
			}
		}
	}
	for i, text := range rare {
		if _, err := compareSentence(parse(t, text), uint64(i), sebtest.Runs(500, 50), seen); err != nil {
			t.Error(err)
		}
	}
	valid, both, traces := uint64(0), uint64(0), *tracesFlag/sebtest.Runs(1, 2)
	trees := *treesFlag / uint64(sebtest.Runs(1, 6))
	for seed := *firstFlag; valid < trees; seed++ {
		c := driplangtest.Random(seed)
		c.Rich = seed%4 > 0
		e, err := driplang.Parse(c.Tree(2+c.Below(5), false).Text())
		if err != nil {
			continue
		}
		valid++
		differs, err := compareSentence(e, seed, traces, seen)
		if err != nil {
			t.Errorf("go test ./test/driplangtest -run SentencesAreRead -args -first %d -trees 1 -traces %d\n%v", seed, traces, err)
		}
		if differs {
			both++
		}
	}
	t.Logf("%d expressions of the cases, %d random ones; %d of these were both true and not true", len(read), valid, both)
	if valid < 100 {
		return
	}
	if both < valid*3/4 {
		t.Error("fewer than three quarters were both true and not true")
	}
	if testing.Short() {
		return // too few for every form
	}
	for _, words := range forms {
		if !seen[words] {
			t.Errorf("no sentence has %q", words)
		}
	}
}

// rare are expressions with forms that random ones seldom have, and some whose sentence once had
// another meaning.
var rare = []string{
	"(NOT B) THEN (D AND D) THEN (NOT A)",
	"A THEN (NOT D) THEN (((NOT B) WITHIN 2ms) THEN (NOT C))",
	"A THEN ((NOT D) AFTER 10ms) THEN (((NOT B) WITHIN 2ms) THEN (NOT (C THEN B)))",
	"B THEN ((count(C) != 1) THEN ((count(D) < 3) WITHIN 3ms))",
	"NOT A AND NOT B AND NOT C",
	"A THEN (NOT B) THEN (NOT C WITHIN 2d) THEN D",
	"A THEN (NOT B) THEN (C AND (NOT D WITHIN 2d)) THEN A",
	"A THEN (NOT B) THEN (count(C) >= 2) THEN (A AND C)",
}

func parse(t *testing.T, text string) driplang.Expr {
	t.Helper()
	e := must.Get(driplang.Parse(text))(t)
	return e
}

// forms are the words of the forms that an expression may have.
var forms = strings.Split(`it does not happen|that|, and then|, all of it|, with|unless|whose|that matches|and|or|either|both|is|not|less than|at most|more than|`+
	`at least|happens|does not happen|fewer than|exactly once|exactly|both happen , in any order|all happen , in any order|, each|neither|nor|none of|`+
	`, in any order|, in any case|within|between|from|on|until|, by then|, counted from any|the end of that time|step|the start of step|the end of step|by then|before|`+
	`after|no|before the first of them|in between|at least one of these|all of these , in any order|these steps , in this order|`+
	`that these steps happen in this order`, "|")

// compareSentence compares e with what its sentence says. differs: it was both true and not true.
func compareSentence(e driplang.Expr, seed uint64, traces int, seen map[string]bool) (differs bool, err error) {
	sentence := e.Sentence()
	got, err := readSentence(sentence, seen)
	if err != nil {
		return false, fmt.Errorf("%s\n%s\n%w", e, sentence, err)
	}
	c, err := newComparison(rand.New(rand.NewPCG(seed, 25)), e, got)
	for i := 0; i < traces && err == nil; i++ {
		err = c.run()
	}
	if err != nil {
		return false, fmt.Errorf("%s\n%s\nis read as %s: %w", e, sentence, got, err)
	}
	return c.values[monitor.True] && (c.values[monitor.False] || c.values[monitor.Pending]), nil
}

// TestChangedSentencesAreNoticed: traces tell a sentence from one with other words.
func TestChangedSentencesAreNoticed(t *testing.T) {
	for _, c := range []struct{ expr, words, other string }{
		{"A", "A", "B"},
		{"A THEN B", "then B happens", "then B does not happen after A"},
		{"A AND B", "A and B both happen, in any order", "A or B happens"},
		{"A OR B OR C", "A, B or C", "A or B"},
		{"NOT A AND NOT B", "Neither A nor B", "None of A, B and C"},
		{"count(A) >= 3", "at least 3", "at least 4"},
		{"count(A) < 3", "fewer than", "exactly"},
		{"count(A) = 1", "exactly once", "exactly 2 times"},
		{"count(A) >= 3 WITHIN 7d", "7 days", "6 days, 23 hours, 59 minutes, 59 seconds and 999 milliseconds"},
		{"A THEN (B WITHIN 7d)", "within", "at least"},
		{"A THEN (B WITHIN 7d)", "7 days", "7 days and 1 millisecond"},
		{"A THEN (B AFTER 1h)", "1 hour", "1 hour and 1 millisecond"},
		{"A THEN (B AFTER 1h WITHIN 2h)", "between 1 hour", "between 1 hour and 1 millisecond"},
		{"A THEN (NOT B AFTER 1h)", " from 1 hour after A on", " after A"},
		{"A THEN (NOT B WITHIN 7d)", "unless B", "unless C"},
		{"A THEN (NOT B WITHIN 7d)", "7 days", "7 days and 1 millisecond"},
		{"A THEN (NOT B) THEN C", ", with no B in between", ""},
		{"(NOT B) THEN C", "no B", "no A"},
		{"A THEN (NOT B) THEN (NOT C) THEN D", "no B and no C", "either no B or no C"},
		{"A THEN (count(B) < 3) THEN C", "fewer than 3", "fewer than 2"},
		{"(A AND NOT B) THEN C", "A happens and B does not happen by then", "A happens"},
		{"A THEN (NOT B) THEN ((A OR NOT C) WITHIN 1d) THEN D", "B", "D"},
		{"NOT (A THEN B)", "It does not happen that A happens, and then B happens", "A happens, and then B happens"},
		{"A THEN ((B THEN C) WITHIN 7d)", ", all of it within 7 days after step 1", " within 7 days after B"},
		{"A THEN ((B OR NOT C) WITHIN 7d)", ", in any case", ""},
		{"A THEN ((B AND NOT C) WITHIN 7d)", ", in any order, each", ""},
		{"(A THEN B) AND (C THEN D)", "All of these, in any order", "At least one of these"},
		{"(A THEN B) AND (C THEN D)", "All of these, in any order", "These steps, in this order"},
		{"A[x > 0]", "more than", "at least"},
		{"A[x < 0]", "less than 0", "less than -1"},
		{"A[NOT x < 1]", "is not less than", "is at least"},
		{"A[x = 1 AND y = 2]", "and", "or"},
		{"A[x = 1 AND (y = 2 OR z = 3)]", "either y is 2 or", "both y is 2 and"},
		{`A[x != "p"]`, "is not", "is"},
	} {
		t.Run(c.expr+" with "+c.other, func(t *testing.T) {
			e := parse(t, c.expr)
			changed := strings.Replace(e.Sentence(), c.words, c.other, 1)
			if changed == e.Sentence() {
				t.Fatalf("%s: it has no %q", changed, c.words)
			}
			other, err := readSentence(changed, nil)
			if err != nil {
				t.Fatalf("%s\n%v", changed, err)
			}
			cmp, err := newComparison(rand.New(rand.NewPCG(1, 25)), e, other)
			for i := 0; i < 1000 && err == nil; i++ {
				err = cmp.run()
			}
			if err == nil {
				t.Errorf("%s\nis not told from\n%s", e.Sentence(), changed)
			}
		})
	}
}
