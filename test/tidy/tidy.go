// Package tidy checks rules of the source tree that a compiler does not check: imports between
// packages, sizes of functions and files, comments on exported names, links of documents, the tests
// and numbers that documents name, forbidden words, and the purity of the log's core. Its test
// applies every rule to the repository. It is not part of the program.
package tidy

import (
	"fmt"
	"sort"
)

// Finding is one position that breaks a rule.
type Finding struct {
	Rule string // short name of the rule, for example "func-size"
	Path string // slash-separated, relative to the root of the repository
	Line int    // 1-based; 0 if the finding is about a whole file or package
	Name string // the subject: a function, an import, a link
	Size int    // the measured size for the size rules, else 0
	Text string // one sentence that tells how to fix it
}

// Key identifies the finding in the table of exceptions. It has no line number, so that it stays
// valid when lines move.
func (f Finding) Key() string { return f.Rule + " " + f.Path + " " + f.Name }

// String returns the finding in the format of a compiler.
func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return fmt.Sprintf("%s: %s: %s", at, f.Rule, f.Text)
}

// Rule is one check of the whole tree.
type Rule struct {
	Name  string
	Check func(*Tree) []Finding
}

// Rules returns all rules in the order of reporting.
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

// Except removes the findings that a table of exceptions allows, and returns the rest in order of
// position. The table maps a finding's key to its allowed size (0 for rules without a size). The
// table can only shrink: an entry that allows more than needed, or that is not needed, is itself a
// finding.
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
				"unused exception %q: remove the entry", key)})
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
