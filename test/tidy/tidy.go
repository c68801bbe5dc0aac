// Package tidy checks rules of the source tree that a compiler does not check: imports between
// packages, sizes of functions and files, comments on exported names, links of documents, the length
// of README.md, the tests and numbers that documents name, forbidden words, and the purity of the
// log's core. Its test applies every rule to the repository. It is not part of the program.
package tidy

import "fmt"

// Finding is one position that breaks a rule.
type Finding struct {
	Rule string // short name of the rule, for example "func-size"
	Path string // slash-separated, relative to the root of the repository
	Line int    // 1-based; 0 if the finding is about a whole file or package
	Name string // the subject: a function, an import, a link
	Text string // one sentence that tells how to fix it
}

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
		{"wings", checkWings},
		{"sizes", checkSizes},
		{"comments", checkComments},
		{"links", checkLinks},
		{"words", checkWords},
		{"pure", checkPure},
		{"phrases", checkPhrases},
		{"figures", checkFigures},
		{"paths", checkPaths},
		{"secrets", checkSecrets},
		{"test-names", checkTestNames},
	}
}
