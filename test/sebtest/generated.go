package sebtest

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Generated compares the part of a document between the lines "<!-- generated: NAME -->" and
// "<!-- end -->" with want. With -update it writes want there.
func Generated(t *testing.T, file, name, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "<!-- generated: "+name+" -->\n")
	got, tail, ended := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !ended {
		t.Fatalf("%s has no part \"<!-- generated: %s -->\" that ends with \"<!-- end -->\"", file, name)
	}
	if *update && got != want {
		head += "<!-- generated: " + name + " -->\n" + want + "<!-- end -->\n" + tail
		if err := os.WriteFile(file, []byte(head), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s: part %q differs from the code; -update writes it (-document +code):\n%s", file, name, cmp.Diff(got, want))
	}
}
