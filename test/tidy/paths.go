package tidy

import (
	"path"
	"regexp"
	"strings"
)

// codePath is a path in a code span of a document.
var codePath = regexp.MustCompile("`\\.?/?([\\w-]+/[\\w./-]*)`")

// checkPaths reports paths in documents that do not exist, from the root or the document's folder. A change log names
// old ones.
func checkPaths(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.names() {
		if path.Ext(name) != ".md" || name == "CHANGELOG.md" {
			continue
		}
		for i, line := range prose(t.files[name]) {
			for _, m := range codePath.FindAllStringSubmatch(line, -1) {
				if p := path.Clean(m[1]); !t.exists(p) && !t.exists(path.Join(path.Dir(name), p)) {
					found = append(found, Finding{Rule: "path", Path: name, Line: i + 1, Name: p, Text: "there is no " + p})
				}
			}
		}
	}
	return found
}

// exists reports whether a path is a file or folder, or nothing that a tree holds: its first folder is none of the
// repository, or it lies in a folder that Load leaves out.
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
