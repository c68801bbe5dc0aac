package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
)

// testName matches a test or fuzz target in a document, with or without its package:
// cache.TestFullDisk.
var testName = regexp.MustCompile(`(?:\b([a-z0-9]+)\.)?\b((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\b`)

// checkTestNames finds tests in documents that do not exist, or not in that package.
func checkTestNames(t *Tree) []Finding {
	declared := t.tests()
	var found []Finding
	t.eachLine(".md", func(name string, line int, text string) {
		if !containsAny(text, "Test", "Fuzz") {
			return
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if pkg := m[1]; !declared[m[2]] || pkg != "" && !declared[pkg+"."+m[2]] {
				found = append(found, Finding{Rule: "test-name", Path: name, Line: line, Name: m[0], Text: fmt.Sprintf("test %s does not exist", m[0])})
			}
		}
	})
	return found
}

// tests returns the names of all tests and fuzz targets, each with and without the last element of
// its folder ("seb" for the root).
func (t *Tree) tests() map[string]bool {
	declared := make(map[string]bool)
	for _, g := range t.gofiles {
		pkg := path.Base(g.dir)
		if g.dir == "" {
			pkg = "seb"
		}
		for _, d := range g.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && g.test && f.Recv == nil {
				declared[f.Name.Name], declared[pkg+"."+f.Name.Name] = true, true
			}
		}
	}
	return declared
}
