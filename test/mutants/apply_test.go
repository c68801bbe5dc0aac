package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

const sound = `What it is.
Seeds: default, short

--- a/x.go
+++ b/x.go
@@ -7,3 +7,4 @@
 one
-two
+2

@@ -30,1 +31,2 @@
 four
+five
`

func TestApply(t *testing.T) {
	const clean = "zero\none\ntwo\n\nthree\nfour\n"
	for name, c := range map[string]struct{ patch, file, want, fault string }{
		"line numbers do not count": {sound, clean, "zero\none\n2\n\nthree\nfour\nfive\n", ""},
		"an old line is missing":    {sound, strings.Replace(clean, "two", "too", 1), "", "m.patch:6 no longer applies: x.go does not have these lines:\none\ntwo\n\n"},
		"lines are not unique":      {sound, clean + "four\n", "", "m.patch:11 no longer applies: x.go has these lines more than once:\nfour\n"},
		"the end of a line counts":  {sound, "none\ntwo\n\nfour\n", "", "does not have"},
		"the file is missing":       {sound, "", "", "m.patch no longer applies: open"},
		"no seeds":                  {strings.Replace(sound, "Seeds: ", "Sets: ", 1), clean, "", "m.patch: want a line"},
		"no such seeds":             {strings.Replace(sound, "short", "shorter", 1), clean, "", `m.patch:2: seeds "shorter": no such runs`},
		"no such run":               {strings.Replace(sound, "short", "short from 5000", 1), clean, "", `seeds "short from 5000": no such runs`},
		"no change":                 {"Seeds: default\n", clean, "", "m.patch: want a line"},
		"a change without a line":   {strings.Replace(sound, "@@ -7,3 +7,4 @@\n", "", 1), clean, "", "m.patch:6: a change without a line @@"},
		"a line that is no diff":    {sound + "what\n", clean, "", `m.patch:14: "what" is not a line of a unified diff`},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if c.file != "" {
				must.NoError(t, os.WriteFile(filepath.Join(root, "x.go"), []byte(c.file), 0o600))
			}
			m, err := parse("m", c.patch)
			var files map[string]string
			if err == nil {
				files, err = m.Apply(root)
			}
			switch {
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("error %v, want %s", err, c.fault)
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault == "" && files["x.go"] != c.want:
				t.Errorf("%q, want %q", files["x.go"], c.want)
			}
		})
	}
}

const twoFunctions = `package x

import "os"

var v = 1

// one is unchanged.
func one() { os.Exit(v) }

func (t *T) two(n int) int {
	return n
}
`

// TestTogether: a build with several mutants has the bodies of those that change nothing else.
func TestTogether(t *testing.T) {
	for name, c := range map[string]struct{ old, new, body string }{
		"a body":             {"return n", "return n + v", "\n\treturn n + v\n\npanic(\"a mutant without a return\")"},
		"without a result":   {"os.Exit(v)", "os.Exit(2)", " os.Exit(2) \nreturn"},
		"a label":            {"return n", "a: return n", ""},
		"a signature":        {"n int) int", "n int64) int", ""},
		"a variable":         {"var v = 1", "var v = 2", ""},
		"an import":          {`"os"`, `"io"`, ""},
		"another function":   {"// one", "func three() {}\n\n// one", ""},
		"a missing function": {"func one() { os.Exit(v) }", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bodies := must.Get(changedBodies(twoFunctions, strings.Replace(twoFunctions, c.old, c.new, 1)))(t)
			if c.body == "" {
				if bodies != nil {
					t.Errorf("%v, want that it is built alone", bodies)
				}
				return
			}
			at := strings.Index(twoFunctions, c.old)
			at = strings.LastIndex(twoFunctions[:at], "{") + 1
			if len(bodies) != 1 || bodies[at] != c.body {
				t.Errorf("%v, want %q at %d", bodies, c.body, at)
			}
		})
	}
}
