package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	// machinePath matches a folder of one developer's machine.
	machinePath = regexp.MustCompile(`(?:^|[^A-Za-z0-9_./:~-])(/(?:home|root|Users|work|workspace)/[^\s"'` + "`" + `]*)`)
	// documentName matches a document named in a comment or text: capitals, then .md or a section's
	// number.
	documentName = regexp.MustCompile(`\b([A-Z][A-Z0-9-]*)\.md\b|\b([A-Z][A-Z-]{4,}) sections? [0-9]`)
)

// checkPhrases finds references that other readers cannot follow: folders of the author's machine,
// and documents outside the repository.
func checkPhrases(t *Tree) []Finding {
	documents := make(map[string]bool)
	for _, name := range t.names() {
		if path.Ext(name) == ".md" {
			documents[strings.TrimSuffix(path.Base(name), ".md")] = true
		}
	}
	var found []Finding
	for _, name := range t.names() {
		if path.Base(name) == "go.sum" || strings.HasPrefix(name, "test/tidy/") && strings.HasSuffix(name, "_test.go") {
			continue
		}
		for i, line := range strings.Split(string(t.files[name]), "\n") {
			for _, f := range phrases(line, documents) {
				f.Path, f.Line = name, i+1
				found = append(found, f)
			}
		}
	}
	return found
}

func phrases(line string, documents map[string]bool) []Finding {
	var found []Finding
	for _, m := range machinePath.FindAllStringSubmatch(line, -1) {
		found = append(found, Finding{
			Rule: "phrase", Name: m[1], Text: fmt.Sprintf("%q is a path on one machine: remove it", m[1]),
		})
	}
	for _, m := range documentName.FindAllStringSubmatch(line, -1) {
		if name := m[1] + m[2]; !documents[name] {
			found = append(found, Finding{
				Rule: "phrase", Name: name, Text: fmt.Sprintf("%s.md does not exist: state the fact itself", name),
			})
		}
	}
	return found
}
