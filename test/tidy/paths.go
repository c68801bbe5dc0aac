package tidy

import (
	"path"
	"regexp"
	"strings"
)

// codePath matches a path in a code span of a document.
var codePath = regexp.MustCompile("`\\.?/?([\\w-]+/[\\w./-]*)`")

// checkPaths reports paths in documents that do not exist, relative to the root or the document's
// folder. It skips the change log, which names old paths.
func checkPaths(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.names() {
		if path.Ext(name) != ".md" || name == "CHANGELOG.md" {
			continue
		}
		for i, line := range prose(t.files[name]) {
			for _, m := range codePath.FindAllStringSubmatch(line, -1) {
				if p := path.Clean(m[1]); !t.exists(p) && !t.exists(path.Join(path.Dir(name), p)) {
					found = append(found, Finding{Rule: "path", Path: name, Line: i + 1, Name: p, Text: p + " does not exist"})
				}
			}
		}
	}
	return found
}

// exists reports whether a path is a file or folder. Paths outside the checked tree count as
// existing: their first folder is not in the repository, or Load skips their folder.
func (t *Tree) exists(p string) bool {
	folders := strings.Split(p, "/")
	for _, f := range folders {
		if skipped[f] || strings.HasPrefix(f, ".") {
			return true
		}
	}
	_, ok := t.files[p]
	return ok || t.folders[p] || !t.folders[folders[0]]
}
