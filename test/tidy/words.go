package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// forbiddenWords have a plainer replacement: name the component or the caller; cannot, again, permanently, fixed.
var forbiddenWords = regexp.MustCompile(`\b(?:(?i:who(?:so)?ever|somebody|anew|can not|for ever|mended)|[Nn]obody)\b`)

// checkWords reports forbidden words in Go files and documents, strings and the names of tests included.
func checkWords(t *Tree) []Finding {
	exempt := map[string]bool{"test/tidy/words.go": true, "test/tidy/words_test.go": true}
	var found []Finding
	for _, name := range t.names() {
		if ext := path.Ext(name); exempt[name] || ext != ".go" && ext != ".md" {
			continue
		}
		for i, line := range strings.Split(string(t.files[name]), "\n") {
			for _, word := range forbiddenWords.FindAllString(line, -1) {
				found = append(found, Finding{
					Rule: "word", Path: name, Line: i + 1, Name: word,
					Text: fmt.Sprintf("%q: name the component, or write again, cannot, permanently, fixed", word),
				})
			}
		}
	}
	return found
}
