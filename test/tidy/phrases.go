package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// machinePath matches a folder of one developer's machine.
	machinePath = regexp.MustCompile(`(?:^|[^A-Za-z0-9_./:~-])(/(?:home|root|Users|work|workspace)/[^\s"'` + "`" + `]*)`)
	// documentName matches a document named in a comment or text: capitals, then .md or a section's
	// number.
	documentName = regexp.MustCompile(`\b([A-Z][A-Z0-9-]*)\.md\b|\b([A-Z][A-Z-]{4,}) sections? [0-9]`)
	// forbiddenWords have a plainer replacement.
	forbiddenWords = regexp.MustCompile(`\b(?:(?i:who(?:so)?ever|somebody|anew|can not|for ever|mended)|[Nn]obody)\b`)
)

// eachLine calls visit with each line of the files whose names end in a suffix; "" means all files.
func (t *Tree) eachLine(suffix string, visit func(name string, line int, text string)) {
	for _, name := range t.names() {
		if strings.HasSuffix(name, suffix) {
			for i, text := range strings.Split(string(t.files[name]), "\n") {
				visit(name, i+1, text)
			}
		}
	}
}

// containsAny reports whether a line contains one of the words. It saves the time of an expression
// that only matches such lines.
func containsAny(line string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
}

// checkPhrases finds references that other readers cannot follow: folders of the author's machine,
// and documents outside the repository. In Go files and documents it also finds forbidden words.
func checkPhrases(t *Tree) []Finding {
	documents := make(map[string]bool)
	for _, name := range t.names() {
		if path.Ext(name) == ".md" {
			documents[strings.TrimSuffix(path.Base(name), ".md")] = true
		}
	}
	var found []Finding
	t.eachLine("", func(name string, line int, text string) {
		if path.Base(name) == "go.sum" || name == "test/tidy/phrases.go" || strings.HasPrefix(name, "test/tidy/") && strings.HasSuffix(name, "_test.go") {
			return
		}
		report := func(subject, why string) {
			found = append(found, Finding{Rule: "phrase", Path: name, Line: line, Name: subject, Text: why})
		}
		if containsAny(text, "/home", "/root", "/Users", "/work") {
			for _, m := range machinePath.FindAllStringSubmatch(text, -1) {
				report(m[1], fmt.Sprintf("%q is a path on one machine: remove it", m[1]))
			}
		}
		if containsAny(text, ".md", " section") {
			for _, m := range documentName.FindAllStringSubmatch(text, -1) {
				if document := m[1] + m[2]; !documents[document] {
					report(document, document+".md does not exist: state the fact itself")
				}
			}
		}
		ext := path.Ext(name)
		if (ext == ".go" || ext == ".md") && containsAny(strings.ToLower(text), "ever", "body", "anew", "can not", "mended") {
			for _, word := range forbiddenWords.FindAllString(text, -1) {
				report(word, fmt.Sprintf("%q: name the component, or write again, cannot, permanently, fixed", word))
			}
		}
	})
	return found
}
