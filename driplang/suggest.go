package driplang

import (
	"strings"
	"unicode/utf8"
)

// Suggest returns the name in known that is the most similar to name: few letters are changed,
// missing, added or swapped. It returns "" if none is similar, or if name is in known.
func Suggest(name string, known []string) string {
	limit, best, suggestion := (utf8.RuneCountInString(name)+2)/4, 0, ""
	for _, k := range known {
		if k == name {
			return ""
		}
		if len(k) > MaxName {
			continue
		}
		d := distance([]rune(strings.ToLower(name)), []rune(strings.ToLower(k)))
		if d <= limit && (suggestion == "" || d < best || d == best && k < suggestion) {
			best, suggestion = d, k
		}
	}
	return suggestion
}

// distance is the number of letters that are changed, missing, added or swapped with the next one.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
