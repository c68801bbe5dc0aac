package sebtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// Generated compares the part of a document between "<!-- begin: NAME (generated) -->" and
// "<!-- end: NAME -->" with the wanted text. With -update it writes the part.
func Generated(t *testing.T, file, name, want string) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	begin, end := "<!-- begin: "+name+" (generated) -->\n", "<!-- end: "+name+" -->\n"
	before, rest, hasBegin := strings.Cut(string(text), begin)
	got, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s lacks the marks %q and %q", file, begin, end)
	}
	want = "\n" + strings.TrimSpace(want) + "\n\n"
	if *Update && got != want {
		must.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644))
	} else if got != want {
		t.Errorf("%s: part %q differs from the code; -update writes it: %s", file, name, difference(got, want))
	}
}

// Golden compares a text with a golden file, whose changes a person reads. With [Update] it writes the
// file first.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *Update {
		must.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	if want := string(must.Get(os.ReadFile(file))(t)); got != want {
		t.Fatalf("%s differs; read all differences after a run with -update: %s", file, difference(got, want))
	}
}

// difference shows the first lines that differ. Package cmp of go-cmp would show all, but makes the
// linker keep every exported method: large test programs grow by a third.
func difference(got, want string) string {
	lines, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	at := 0
	for at < min(len(lines), len(wanted)) && lines[at] == wanted[at] {
		at++
	}
	part := func(of []string) string { return strings.Join(of[at:min(at+5, len(of))], "\n") }
	return fmt.Sprintf("from line %d\n%s\n-- want\n%s", at+1, part(lines), part(wanted))
}
