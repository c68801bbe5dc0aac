// Package jsonsuite has the cases of JSONTestSuite (github.com/nst/JSONTestSuite at 1ef36fa, MIT, see
// LICENSE): short texts that a reader of JSON must accept (y), must refuse (n), or may do either with
// (i). cases.txt has one on a line: its name, and its bytes as strings of Go, repeated with *.
package jsonsuite

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"
)

//go:embed cases.txt
var cases string

// Case is one text.
type Case struct {
	Name string
	Text string
}

// Kind is y, n or i.
func (c *Case) Kind() byte { return c.Name[0] }

// All returns all cases.
func All(t testing.TB) (all []Case) {
	t.Helper()
	for line := range strings.Lines(cases) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		c := Case{Name: name}
		for rest != "" {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			part, _ := strconv.Unquote(quoted)
			rest = rest[len(quoted):]
			if times, ok := strings.CutPrefix(rest, "*"); ok {
				times, rest, _ = strings.Cut(times, " ")
				n, err := strconv.Atoi(times)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				part = strings.Repeat(part, n)
			}
			c.Text += part
		}
		all = append(all, c)
	}
	return all
}

// Check runs the cases against a reader. accepts reports whether it accepts a text. different are
// the cases that it decides otherwise than the suite, each with the reason, and the cases of kind i
// that it accepts, with "accepted".
func Check(t *testing.T, all []Case, accepts func(text string) error, different map[string]string) {
	t.Helper()
	counts := map[string]int{}
	for _, c := range all {
		err := accepts(c.Text)
		counts[c.Name[:1]+map[bool]string{true: " accepted", false: " refused"}[err == nil]]++
		want := c.Kind() == 'y'
		if different[c.Name] != "" {
			want = !want
		}
		if (err == nil) != want {
			t.Errorf("%s %.60q: %v", c.Name, c.Text, err)
		}
	}
	t.Logf("%v", counts)
}
