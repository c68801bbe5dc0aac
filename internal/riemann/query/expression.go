package query

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Limits of a regular expression. Its time per byte of a text grows with its instructions, and a
// class of Unicode such as \p{L} takes kilobytes.
const (
	maxInstructions = 1000
	maxUnicode      = 32 // classes of Unicode
)

// expression compiles a regular expression that is found anywhere in a text. at is the position of
// its string.
func (p *parser) expression(at int, pattern string) (func(text []byte) bool, *Error) {
	if feature := javaOnly(pattern); feature != "" {
		return nil, p.errorf(at, "the regular expression has %s, which RE2 does not support", feature)
	}
	if n := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`); n > maxUnicode {
		return nil, p.errorf(at, "the regular expression is too large: %d classes of Unicode, the limit is %d", n, maxUnicode)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	var detail *syntax.Error
	switch {
	case errors.As(err, &detail):
		return nil, p.errorf(at, "the regular expression has an error: %s: `%s`", detail.Code, detail.Expr)
	case err != nil:
		return nil, p.errorf(at, "the regular expression has an error: %v", err)
	}
	if size(tree) > maxInstructions {
		return nil, p.errorf(at, "the regular expression is too large: the limit is %d instructions", maxInstructions)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, p.errorf(at, "the regular expression has an error: %v", err)
	}
	return re.Match, nil
}

// size estimates the instructions of an expression whose repetitions are expanded. It is saturated
// above the limit.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min+1, re.Max), maxInstructions+1)
	}
	return n
}

// groups are forms of groups that only Java has.
var groups = []struct{ start, name string }{
	{"(?=", "a lookahead (?=…)"},
	{"(?!", "a negative lookahead (?!…)"},
	{"(?<=", "a lookbehind (?<=…)"},
	{"(?<!", "a negative lookbehind (?<!…)"},
	{"(?>", "an atomic group (?>…)"},
}

// letters are escapes that only Java has.
const letters = "cehGHkNRuVXZ"

// javaOnly names the first construct of Java's regular expressions that RE2 does not have, or reads
// with another meaning; "" if there is none.
func javaOnly(pattern string) string {
	class, after := false, false // within a class; after a quantifier
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		c := rest[0]
		quantifier := false
		switch {
		case c == '\\' && len(rest) > 1:
			if strings.HasPrefix(rest, `\Q`) {
				end := strings.Index(rest, `\E`)
				if end < 0 {
					return ""
				}
				i += end + 1
				break
			}
			i++
			if n := rest[1]; !class && n >= '1' && n <= '9' {
				return "a reference to a group \\" + string(n)
			} else if strings.IndexByte(letters, n) >= 0 {
				return "the escape \\" + string(n)
			} else if strings.HasPrefix(rest, `\p{java`) || strings.HasPrefix(rest, `\p{Is`) || strings.HasPrefix(rest, `\p{In`) {
				return "the class " + rest[:min(len(rest), strings.IndexByte(rest+"}", '}')+1)]
			}
		case class && strings.HasPrefix(rest, "&&"):
			return "an intersection of classes &&"
		case class && c == '[' && !strings.HasPrefix(rest, "[:"):
			return "a class within a class"
		case class && c == '[':
			if end := strings.Index(rest, ":]"); end > 0 {
				i += end + 1
			}
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
			}
			if i+1 < len(pattern) && pattern[i+1] == ']' { // a literal
				i++
			}
		case c == '+' && after:
			return "a possessive quantifier"
		case c == '*' || c == '+' || c == '?' || c == '}' && closesCount(pattern[:i]):
			quantifier = true
		case c == '(':
			for _, g := range groups {
				if strings.HasPrefix(rest, g.start) {
					return g.name
				}
			}
		}
		after = quantifier
	}
	return ""
}

// closesCount reports whether a text ends with the start of a count of repetitions, such as {2,.
func closesCount(text string) bool {
	before := strings.TrimRight(text, "0123456789,")
	return len(before) < len(text) && strings.HasSuffix(before, "{")
}
