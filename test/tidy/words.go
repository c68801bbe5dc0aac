package tidy

import (
	"fmt"
	"strings"
	"unicode"
)

// wordsMax bounds the words of documents outside code blocks.
var wordsMax = map[string]int{"README.md": 800}

// checkWords finds documents with too many words. A word is a text between white space with a letter
// or digit, so a link counts as one word and its target does not.
func checkWords(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.names() {
		most, limited := wordsMax[name]
		if !limited {
			continue
		}
		words := 0
		for _, line := range prose(t.files[name]) {
			for _, field := range strings.Fields(line) {
				if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
					words++
				}
			}
		}
		if words > most {
			found = append(found, Finding{Rule: "words", Path: name, Text: fmt.Sprintf("%d words outside code blocks, want at most %d", words, most)})
		}
	}
	return found
}
