package driplangtest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// word is a lexical element of a sentence, as written.
type word struct {
	kind wordKind
	text string
}

type wordKind uint8

const (
	wordEnd    wordKind = iota
	wordForm            // a word of the forms
	wordName            // a name, or the path of a property: one that has several parts
	wordNumber          // of JSON, or of an item
	wordFilter          // in backquotes
	wordSign            // comma, period or colon
)

// formWords are the words of the forms that are no names without quotes.
var formWords = strings.Fields(`after all and any at before between both by does each either exactly fewer from happen happens
	in is it matches neither no none nor not of on or step that the then these unless until whose with within`)

var (
	barePattern   = regexp.MustCompile(`^[\pL_][\pL\p{Nd}_.:/-]*`)
	stringPattern = regexp.MustCompile(`^"(?:[^"\\]|\\.)*"`)
	numberPattern = regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)*(?:[eE][+-]?[0-9]+)?`)
	filterPattern = regexp.MustCompile("^`(?:[^\"`]|\"(?:[^\"\\\\]|\\\\.)*\")*`")
)

// wordsOf splits a line. first: it begins a sentence.
func wordsOf(line string, first bool) ([]word, error) {
	var list []word
	for rest := line; rest != ""; {
		sign := strings.IndexByte(",.:", rest[0]) >= 0
		if len(list) > 0 && !sign {
			if rest[0] != ' ' {
				return nil, fmt.Errorf("no space before %q", rest)
			}
			rest = rest[1:]
		}
		w := nextWord(rest)
		if w.text == "" {
			return nil, fmt.Errorf("no word or sign at %q", rest)
		}
		rest = rest[len(w.text):]
		if lower := strings.ToLower(w.text); w.kind == wordName && slices.Contains(formWords, lower) {
			capital := strings.ToUpper(lower[:1]) + lower[1:]
			if begins := first && len(list) == 0; begins != (w.text == capital) || !begins && w.text != lower {
				return nil, fmt.Errorf("%q is neither a name nor, here, a word of the forms", w.text)
			}
			w = word{wordForm, lower}
		}
		list = append(list, w)
	}
	return list, nil
}

// nextWord returns the word at the start of a text.
func nextWord(text string) word {
	if text == "" {
		return word{}
	}
	switch {
	case strings.IndexByte(",.:", text[0]) >= 0:
		return word{wordSign, text[:1]}
	case text[0] == '`':
		return word{wordFilter, filterPattern.FindString(text)}
	case numberPattern.MatchString(text):
		return word{wordNumber, numberPattern.FindString(text)}
	}
	n := 0
	for {
		part := stringPattern.FindString(text[n:])
		if part == "" {
			part = strings.TrimRight(barePattern.FindString(text[n:]), ".:")
		}
		if part == "" {
			return word{}
		}
		n += len(part)
		if rest := text[n:]; !strings.HasPrefix(rest, `."`) && !(strings.HasPrefix(rest, ".") && barePattern.MatchString(rest[1:])) {
			return word{wordName, text[:n]}
		}
		n++
	}
}

// isEvent reports whether w is the name of an event: a word of driplang or a JSON string.
func (w word) isEvent() bool {
	if w.kind != wordName {
		return false
	}
	if w.text[0] == '"' {
		return stringPattern.FindString(w.text) == w.text
	}
	return barePattern.FindString(w.text) == w.text && strings.IndexByte(".:/-", w.text[len(w.text)-1]) < 0
}
