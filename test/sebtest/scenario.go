package sebtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// Update is the flag -update: a test writes the expected outputs in its files instead of comparing them.
var Update = flag.Bool("update", false, "rewrite expected outputs; golden files of released versions must never change")

// Command is an input line of a scenario: a verb, arguments, and options of the form name=value.
type Command struct {
	Verb    string
	Args    []string
	options map[string]string
	line    string
}

// Line returns the whole input, for a scenario that parses it itself.
func (c *Command) Line() string {
	c.options = nil
	return c.line
}

// Option returns the value of an option. An option that is never requested fails the scenario.
func (c *Command) Option(name string) (value string, given bool) {
	value, given = c.options[name]
	delete(c.options, name)
	return value, given
}

// Scenarios runs each testdata/*.txt as a subtest. A line of a scenario is a comment (#), blank, an
// input, or, if indented, an output of the input above. start returns a function that performs one
// input of a scenario and returns its output lines. With -update the outputs are rewritten,
// otherwise they must be equal.
func Scenarios(t *testing.T, start func(t *testing.T) (perform func(c *Command) []string)) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text := must.Get(os.ReadFile(file))(t)
			got := play(t, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), start(t))
			if *Update {
				must.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			} else if got != string(text) {
				t.Errorf("%s: outputs differ: %s", file, difference(got, string(text)))
			}
		})
	}
}

// play performs the inputs among lines and returns the whole scenario with their outputs.
func play(t *testing.T, lines []string, perform func(c *Command) []string) string {
	var out strings.Builder
	for _, line := range lines {
		if strings.HasPrefix(line, " ") {
			continue
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		c := &Command{Verb: words[0], options: map[string]string{}, line: line}
		for _, word := range words[1:] {
			if name, value, ok := strings.Cut(word, "="); ok {
				c.options[name] = value
			} else {
				c.Args = append(c.Args, word)
			}
		}
		for _, output := range perform(c) {
			out.WriteString("  " + output + "\n")
		}
		if len(c.options) > 0 {
			t.Fatalf("%s: unknown options %v", line, c.options)
		}
	}
	return out.String()
}
