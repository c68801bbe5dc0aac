package access

import (
	"errors"
	"strings"
)

// ErrPattern: the text of a pattern is invalid.
var ErrPattern = errors.New(`want a name, a beginning of names and *, or only *; \* and \\ in a name are an asterisk and a backslash`)

// ParsePattern reads the text of a pattern: a name; * for every name; or the beginning of names and
// a *. In it \* is an asterisk and \\ a backslash.
func ParsePattern(text string) (name string, prefix bool, err error) {
	if text == Any {
		return Any, false, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '*' && i == len(text)-1:
			prefix = true
			continue
		case c == '*':
			return "", false, ErrPattern
		case c == '\\':
			if i++; i == len(text) || text[i] != '*' && text[i] != '\\' {
				return "", false, ErrPattern
			}
			c = text[i]
		}
		b.WriteByte(c)
	}
	return b.String(), prefix, nil
}

// Pattern returns the text of the rule's pattern, as ParsePattern reads it. The literal name * is
// Any.
func (r *Rule) Pattern() string {
	if r.Name == Any && !r.Prefix {
		return Any
	}
	text := strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(r.Name)
	if r.Prefix {
		text += "*"
	}
	return text
}
