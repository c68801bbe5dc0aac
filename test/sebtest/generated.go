package sebtest

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		t.Errorf("%s: part %q differs from the code; -update writes it (-document +code):\n%s", file, name, cmp.Diff(got, want))
	}
}

// Golden compares a text with a golden file, whose changes a person reads. With [Update] it writes the
// file first.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *Update {
		must.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	lines, wanted := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(lines), len(wanted)) {
		if i >= len(lines) || i >= len(wanted) || lines[i] != wanted[i] {
			t.Fatalf("%s differs from line %d; read the difference after a run with -update", file, i+1)
		}
	}
}
