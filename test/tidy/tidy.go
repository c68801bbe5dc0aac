// Package tidy keeps the rules of the source tree that a compiler does not: which package may import which, how long
// functions, files and packages may be, that exported names are described, that the links of the documents lead
// somewhere and the tests that they name exist, and that the log's core stays free of clocks, randomness and I/O. Its test runs every rule over the
// repository; it is no part of the program.
package tidy

import (
	"fmt"
	"sort"
)

// Finding is one place that breaks a rule.
type Finding struct {
	Rule string // short name of the rule, for example "func-size"
	Path string // slash-separated, relative to the root of the repository
	Line int    // 1-based; 0 if the finding is about a whole file or package
	Name string // what is found fault with: a function, an import, a link
	Size int    // the measured size for the size rules, else 0
	Text string // one sentence that says what to do
}

// Key names the finding in the table of exceptions. It has no line number, so it lives on while lines move.
func (f Finding) Key() string { return f.Rule + " " + f.Path + " " + f.Name }

// String is the finding as a compiler would print it.
func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return fmt.Sprintf("%s: %s: %s", at, f.Rule, f.Text)
}

// Rule is one check over the whole tree.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Rules is every rule, in the order in which they are reported.
func Rules() []Rule {
	return []Rule{
		{"parse", checkParse},
		{"imports", checkImports},
		{"sizes", checkSizes},
		{"comments", checkComments},
		{"links", checkLinks},
		{"pure", checkPure},
		{"phrases", checkPhrases},
		{"words", checkWords},
		{"figures", checkFigures},
		{"paths", checkPaths},
		{"secrets", checkSecrets},
		{"test-names", checkTestNames},
	}
}

// Except takes the findings that a table of exceptions allows out of found and returns the rest, ordered by place. The
// table maps a finding's key to the size it may have (0 for rules without a size). It is a ratchet: an entry that
// allows more than is there, or that nothing needs any more, is itself a finding, so the table can only shrink.
func Except(found []Finding, table map[string]int) []Finding {
	var left []Finding
	used := make(map[string]bool)
	for _, f := range found {
		allowed, ok := table[f.Key()]
		switch {
		case !ok:
			left = append(left, f)
		case f.Size > allowed:
			f.Text += fmt.Sprintf(" (its exception allows %d)", allowed)
			left = append(left, f)
		case f.Size < allowed:
			left = append(left, Finding{Rule: "ratchet", Path: f.Path, Name: f.Key(), Text: fmt.Sprintf(
				"the exception %q allows %d, but it is %d now: lower the entry", f.Key(), allowed, f.Size)})
		}
		used[f.Key()] = true
	}
	for key := range table {
		if !used[key] {
			left = append(left, Finding{Rule: "ratchet", Name: key, Text: fmt.Sprintf(
				"nothing needs the exception %q any more: remove the entry", key)})
		}
	}
	sort.Slice(left, func(i, j int) bool { return left[i].less(left[j]) })
	return left
}

func (f Finding) less(g Finding) bool {
	if f.Path != g.Path {
		return f.Path < g.Path
	}
	if f.Line != g.Line {
		return f.Line < g.Line
	}
	return f.Key() < g.Key()
}
