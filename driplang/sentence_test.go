package driplang_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// sentences are expressions whose sentence is not among those of the cases and documents.
var sentences = []string{
	`"order placed" THEN (NOT "and" WITHIN 1d2h3m4s5ms)`,
	"signup THEN (NOT (a OR b[x = 1]) WITHIN 7 days)",
	"signup THEN (NOT (a AND b) WITHIN 7 days)",
	"(NOT x) THEN signup THEN (NOT login WITHIN 7 days)",
	"signup THEN login THEN (NOT (count(login) >= 3) WITHIN 7 days) THEN (NOT logout WITHIN 1h)",
	"login THEN (NOT purchase AND NOT unsubscribed) THEN (count(login) >= 3)",
	"login THEN (NOT purchase OR NOT unsubscribed) THEN logout",
	"login THEN (count(error) < 3) THEN logout",
	"A THEN (NOT B) THEN (C AND D) THEN (NOT E) THEN (NOT F)",
	"A THEN (NOT B) THEN (NOT C WITHIN 2d) THEN D",
	"A THEN (NOT B) THEN (NOT C WITHIN 2d) THEN (NOT D WITHIN 1d)",
	"(A OR NOT B) THEN (NOT (C THEN D)) THEN E",
	"A THEN (B AND NOT C) THEN (D OR NOT E WITHIN 1d) THEN F",
	"signup[plan != \"free\"] THEN (invite_sent OR (project_created AND NOT project_deleted)) THEN ((cart_filled THEN purchase) AFTER 1h WITHIN 2d)",
	"A AND (B OR (C AND NOT D AND (E THEN F)))",
	"A THEN (NOT B AFTER 1h)", "A THEN (NOT B AFTER 1h WITHIN 2h)", "A THEN (NOT B AFTER 1h) THEN C",
	"A THEN ((B THEN NOT C) WITHIN 5s)", "A THEN (NOT (B THEN C) AFTER 1h)",
	"count(A) = 3", "count(A) != 3", "count(A) = 1", "count(A) = 0", "count(A) > 0", "count(A) <= 2", "(count(A) != 2) THEN B",
	"count(A) < 2 AND NOT B AND C", "NOT A AND NOT B AND NOT C", "A AND B AND C", "A OR B OR C", "A OR NOT B",
	"A AND (count(B) >= 2 WITHIN 1h)", "A AND A", "A OR (B AND B) OR A", "A THEN A THEN (NOT A AND NOT A)", "(NOT A) THEN (NOT A)",
	"A THEN (NOT B) THEN (count(C) != 2)", "A THEN ((B THEN C) AND D AND NOT E) THEN F",
	`a[x > 1 AND (y = "p" OR z = null)]`, `a[x > 1 OR (y = "p" AND NOT z <= 2)]`, `a[NOT (x = 1 AND y != true)]`,
	`a[x = 1 AND (y = 1 OR (z = 1 AND w = 1))]`, `a[x = "1, 2"]`, `a[both.of = 1 AND (in = 1 OR y = "of, and")] THEN (NOT b WITHIN 2h)`,
	"happens THEN (NOT Then-) THEN that THEN ((None AND order) WITHIN 1h)", "either AND (neither OR a[no = 1])", "NOT None AND NOT a.",
	"A THEN (NOT b[x = 1 OR (y = 2 AND z = 3)] AND NOT c[x = 1]) THEN d", "(count(A) >= 2 WITHIN 1h) THEN B", "(NOT (count(A) >= 2 WITHIN 1h)) THEN B",
	"(A OR NOT B) THEN (count(C) > 1 WITHIN 1h)", "(NOT A) THEN (count(B) >= 2 WITHIN 1h)", "A AND NOT (count(B) >= 2 WITHIN 1h)",
	"A THEN (NOT ((NOT B) THEN (NOT C))) THEN (D WITHIN 1h)", "S THEN (((NOT A) THEN B) AND C)",
	"A THEN (B AFTER 1h30m WITHIN 1d) THEN (NOT C AND NOT D AFTER 1h)", "(NOT B) THEN (D AND D) THEN (NOT A)",
	"A THEN (NOT B) THEN (C AND (NOT D WITHIN 2d)) THEN A", "B THEN (count(C) != 1) THEN (count(D) < 3 WITHIN 1h)",
	"A THEN (NOT D) THEN ((NOT B WITHIN 2h) THEN (NOT C))", "(NOT (A THEN (NOT D) THEN (NOT B WITHIN 2h) THEN (NOT E) THEN (NOT C))) THEN F",
	"A THEN (NOT B) THEN (NOT (C THEN D)) THEN ((E THEN F) AND NOT G) THEN H", `count(a."b c"[u."v w".z >= -1.5]) >= 2`,
}

// TestSentences compares the sentences with the golden file, which a person has read for sense. -update
// rewrites it.
func TestSentences(t *testing.T) {
	list := slices.Concat(sentences, driplangtest.Documented(t, ".."))
	var b strings.Builder
	seen := map[string]bool{}
	for _, text := range list {
		e, err := driplang.Parse(text)
		if err != nil || seen[e.String()] {
			continue
		}
		seen[e.String()] = true
		b.WriteString(e.String() + "\n\t" + strings.ReplaceAll(e.Sentence(), "\n", "\n\t") + "\n")
		doc, _ := e.MarshalJSON()
		if other, err := driplang.ParseJSON(doc); err != nil || other.Sentence() != e.Sentence() {
			t.Errorf("%s: its JSON has the sentence %q, %v", e, other.Sentence(), err)
		}
	}
	if len(seen) < 90 {
		t.Errorf("only %d expressions", len(seen))
	}
	sebtest.Golden(t, "testdata/sentences.txt", b.String())
}

// TestSentencesOfReference compares the examples in docs/reference.
func TestSentencesOfReference(t *testing.T) {
	for _, name := range []string{"driplang", "sentences"} {
		text := must.Get(os.ReadFile("../docs/reference/" + name + ".md"))(t)
		examples := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+\\.) \\|$").FindAllStringSubmatch(string(text), -1)
		outline := regexp.MustCompile("(?s)`([^`]+)` is\n\n```\n(.*?)\n```").FindStringSubmatch(string(text))
		if name == "driplang" && len(examples) < 4 || outline == nil {
			t.Fatalf("%s: %d examples, outline %q", name, len(examples), outline)
		}
		for _, x := range append(examples, outline) {
			e, err := driplang.Parse(x[1])
			if err != nil || e.Sentence() != x[2] {
				t.Errorf("%s: %q, %v, want %q", x[1], e.Sentence(), err, x[2])
			}
		}
	}
}

// largest returns an expression near the limit, with almost the longest sentence: guards deep in an
// outline, each with the numbers of two steps.
func largest(t testing.TB) driplang.Expr {
	text, end := "", ""
	for range 30 {
		text, end = text+"A OR (A THEN (", end+"))"
	}
	text, end = text+"A", " THEN B"+end
	for len(text)+len(end) < driplang.MaxText-14 {
		text += " THEN (NOT A)"
	}
	e := must.Get(driplang.Parse(text + end))(t)
	return e
}

func TestLargestSentence(t *testing.T) {
	if n := len(largest(t).Sentence()); n < 512<<10 || n > 1<<20 {
		t.Errorf("%d bytes, want at most 1 MiB", n)
	}
}
