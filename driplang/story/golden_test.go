package story_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/story"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// shown are expressions whose stories are not among those of the cases and documents.
var shown = []string{
	"signup AND NOT login THEN (NOT purchase WITHIN 1 day)",
	"signup THEN login THEN (NOT (count(login) >= 3) WITHIN 7 days)",
	"login THEN (NOT purchase AND NOT unsubscribed) THEN (count(login) >= 3)",
	"signup[plan != \"free\"] THEN (invite_sent OR (project_created AND NOT project_deleted)) THEN ((cart_filled THEN purchase) AFTER 1h WITHIN 2d)",
	"count(A) = 3", "count(A) != 3", "A THEN (NOT B AFTER 1h)", "A THEN (NOT (B THEN C) WITHIN 5s)", "(A OR B) AND (C OR D)",
	`a[x > 1 AND (y = "p" OR z = null)]`, `a[since >= "2026-05-31" AND NOT ok = true] THEN (b[x = 1.5] WITHIN 1h)`, `count("order placed"[u."v w" >= 10]) >= 2`,
	`payment[ok = true] THEN (NOT payment[ok = true] WITHIN 30 days)`, "A THEN (B AND NOT B)", "A THEN ((B AFTER 3h) AND NOT (B WITHIN 2h))", "count(x) >= 100",
}

// expressions returns those of the cases and documents, without duplicates.
func expressions(t *testing.T) (list []driplang.Expr) {
	t.Helper()
	texts := slices.Concat(shown, driplangtest.Documented(t, "../.."))
	seen := map[string]bool{}
	for _, text := range texts {
		if e, err := driplang.Parse(text); err == nil && !seen[e.String()] {
			seen[e.String()] = true
			list = append(list, e)
		}
	}
	if len(list) < 80 {
		t.Fatalf("only %d expressions", len(list))
	}
	return list
}

// TestStories compares the stories with the golden file, which a person has read for sense. -update
// rewrites it.
func TestStories(t *testing.T) {
	var b strings.Builder
	for _, e := range expressions(t) {
		a, err := story.Of(e)
		must.NoErrorf(t, err, "%s", e)
		check.NoErrorf(t, verify(e, a), "%s", e)
		b.WriteString(e.String() + "\n" + print(a))
	}
	sebtest.Golden(t, "testdata/stories.txt", b.String())
}

func print(a story.Answer) string {
	var b strings.Builder
	for i, s := range a.Stories {
		fmt.Fprintf(&b, "\t%d. %s", i, s.Text)
		if s.DiffersFrom >= 0 {
			fmt.Fprintf(&b, " (%d: %s)", s.DiffersFrom, s.Difference)
		}
		b.WriteString("\n")
	}
	if a.NoneFires != "" {
		fmt.Fprintf(&b, "\t%s: %s\n", a.NoneFires, a.Note)
	}
	if a.Truncated {
		b.WriteString("\ttruncated\n")
	}
	return b.String()
}

// TestStoriesOfReference compares the stories in docs/reference/driplang.md.
func TestStoriesOfReference(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/reference/driplang.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n## In stories\n")
	section, _, _ = strings.Cut(section, "\n## ")
	expr := regexp.MustCompile("The stories of `([^`]+)`").FindStringSubmatch(section)
	if expr == nil {
		t.Fatal("no expression")
	}
	e := must.Get(driplang.Parse(expr[1]))(t)
	a := must.Get(story.Of(e))(t)
	var want strings.Builder
	for i, s := range a.Stories {
		fmt.Fprintf(&want, "| %d | %s | ", i+1, s.Text)
		if s.DiffersFrom >= 0 {
			fmt.Fprintf(&want, "%d: %s ", s.DiffersFrom+1, s.Difference)
		}
		want.WriteString("|\n")
	}
	if !strings.Contains(section, want.String()) {
		t.Errorf("the table is not\n%s", want.String())
	}
}
