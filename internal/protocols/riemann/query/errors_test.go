package query_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/protocols/riemann/query"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", ``, `character 1: expected a comparison, found the end`},
		{"only separators", ` , `, `character 4: expected a comparison, found the end`},
		{"missing value", `host =`, `character 7: expected a value, found the end`},
		{"missing operand", `true and`, `character 9: expected a comparison, found the end`},
		{"operator first", `or true`, `character 1: expected a comparison, found 'or'`},
		{"two comparisons", `a = 1 b = 2`, `character 7: expected and, or, or the end, found 'b'`},
		{"chain of comparisons", `1 < 2 < 3`, `character 7: expected and, or, or the end, found '<'`},
		{"order with a text", `metric > "1"`, `character 10: expected a number after >, found "1"`},
		{"order with a field", `metric > ttl`, `character 10: expected a number after >, found 'ttl'`},
		{"wildcard without a string", `host =~ 1`, `character 9: expected a string after =~, found '1'`},
		{"tag without a string", `tagged cat`, `character 8: expected a string after tagged, found 'cat'`},
		{"open parenthesis", `(true`, `character 6: expected and, or, or ')', found the end`},
		{"closing parenthesis", `true)`, `character 5: expected and, or, or the end, found ')'`},
		{"open string", `host = "a`, `character 8: the string has no closing quote`},
		{"open string with an escape", `host = "a\`, `character 8: the string has no closing quote`},
		{"unknown escape", `host ~= "\w"`, `character 10: unknown escape \w in a string; write a backslash as \\`},
		{"incomplete escape", `host = "\u12"`, `character 9: invalid escape: \u needs four hexadecimal digits, and a surrogate its pair`},
		{"half of a surrogate pair", `host = "\ud83dx"`, `character 9: invalid escape: \u needs four hexadecimal digits, and a surrogate its pair`},
		{"characters are counted, not bytes", `"磁盘" & %`, `character 6: expected and, or, or the end, found '&'`},
		{"foreign sign", `a = %`, `character 5: unexpected character '%'`},
		{"control character", "a = \x01", `character 5: unexpected character U+0001`},
		{"invalid UTF-8", "a = \xff", `character 5: the text is not valid UTF-8`},
		{"invalid UTF-8 in a string", "a = \"\xff\"", `character 5: the string is not valid UTF-8`},
		{"single quotes", `a = 'x'`, `character 5: unexpected character '''`},
		{"number with letters", `a = 1x`, `character 5: invalid number '1x'`},
		{"number in hexadecimal", `a = 0x10`, `character 5: invalid number '0x10'`},
		{"number without a fraction", `a = 1.`, `character 5: invalid number '1.'`},
		{"number without an exponent", `a = 1e`, `character 5: invalid number '1e'`},
		{"fraction with a suffix", `a = 1.5N`, `character 5: invalid number '1.5N'`},
		{"exponent of 19 digits", `a = 1e1000000000000000000`, `character 5: invalid number '1e1000000000000000000'`},
		{"equal sign twice", `a == 1`, `character 4: expected a value, found '='`},
		{"too long", strings.Repeat(" ", 4097), `the query has 4097 bytes, the limit is 4096`},
		{"nested parentheses", strings.Repeat("(", 65) + "true", `character 65: parentheses and not are nested more than 64 deep`},
		{"repeated not", strings.Repeat("not ", 65) + "true", `character 257: parentheses and not are nested more than 64 deep`},
		{"a hundred thousand parentheses", strings.Repeat("(", 100_000), `the query has 100000 bytes, the limit is 4096`},
		{"long names are cut", strings.Repeat("x", 50) + " " + strings.Repeat("y", 50), `character 52: expected and, or, or the end, found '` + strings.Repeat("y", 40) + `...'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := query.Parse(c.text); err == nil || err.Error() != c.want {
				t.Errorf("%.100s: error is\n%v, want\n%s", c.text, err, c.want)
			}
		})
	}
}

func TestErrorsOfRegularExpressions(t *testing.T) {
	for _, c := range []struct{ name, pattern, want string }{
		{"lookahead", `x(?=y)`, `a lookahead (?=…), which RE2 does not support`},
		{"negative lookahead", `x(?!y)`, `a negative lookahead (?!…), which RE2 does not support`},
		{"lookbehind", `(?<=x)y`, `a lookbehind (?<=…), which RE2 does not support`},
		{"negative lookbehind", `(?<!x)y`, `a negative lookbehind (?<!…), which RE2 does not support`},
		{"atomic group", `(?>x+)y`, `an atomic group (?>…), which RE2 does not support`},
		{"reference", `(x)\\1`, `a reference to a group \1, which RE2 does not support`},
		{"named reference", `(?<n>x)\\k<n>`, `the escape \k, which RE2 does not support`},
		{"possessive quantifier", `x*+`, `a possessive quantifier, which RE2 does not support`},
		{"possessive count", `x{1,2}+`, `a possessive quantifier, which RE2 does not support`},
		{"intersection", `[a-z&&[^b]]`, `an intersection of classes &&, which RE2 does not support`},
		{"nested class", `[a-c[x-z]]`, `a class within a class, which RE2 does not support`},
		{"end of input", `x\\Z`, `the escape \Z, which RE2 does not support`},
		{"class of Java", `\\p{javaUpperCase}`, `the class \p{javaUpperCase}, which RE2 does not support`},
		{"unknown class", `\\p{Alpha}`, "an error: invalid character class range: `\\p{Alpha}`"},
		{"unknown flag", `(?x)a`, "an error: invalid or unsupported Perl syntax: `(?x`"},
		{"syntax", `a(b`, "an error: missing closing ): `a(b`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := "character 6: the regular expression has " + c.want
			if _, err := query.Parse(`a ~= "` + c.pattern + `"`); err == nil || err.Error() != want {
				t.Errorf("%s: error is\n%v, want\n%s", c.pattern, err, want)
			}
		})
	}
	for _, pattern := range []string{`(abcdefgh{50}){19}`, strings.Repeat("(ab|c)*", 200), strings.Repeat(`\\pL`, 700), `(\\pL{10}\\PL{10}){60}`, `(?i)[\\pL\\PL]{999}b`} {
		text := `a ~= "` + pattern + `"`
		var err error
		sebtest.Allocates(t, 2<<20, []byte(text), func() { _, err = query.Parse(text) })
		if err == nil || !strings.Contains(err.Error(), "the regular expression is too large") {
			t.Errorf("%.100s: error is %v, want that it is too large", pattern, err)
		}
	}
}

// FuzzParse parses a query. A valid one means the same within parentheses, and the opposite after
// not.
func FuzzParse(f *testing.F) {
	for _, c := range matchCases {
		f.Add(c.text)
	}
	for _, text := range []string{"(((((((", `a ~= "[[:alpha:]&&[^\\]]{3,}+"`, `"\ud83d`, "a = 1e5N", "not not", `a =~ "%%"`} {
		f.Add(text)
	}
	events := with(fields{}, fields{"host": "a", "service": "b", "metric": 1, "tags": "cat"}, fields{"state": "up", "metric": 1.5, "ttl": true})
	f.Fuzz(func(t *testing.T, text string) {
		var q *query.Query
		var err error
		sebtest.Allocates(t, 8<<20, []byte(text), func() { q, err = query.Parse(text) })
		var fault *query.Error
		if err != nil {
			if !errors.As(err, &fault) || fault.Message == "" || fault.Character > utf8.RuneCountInString(text)+1 {
				t.Fatalf("error %#v", err)
			}
			return
		}
		_, _, keyed := q.Key()
		grouped, groupedErr := query.Parse("(" + text + ")")
		not, notErr := query.Parse("not (" + text + ")")
		for _, e := range events {
			is := q.Match(e)
			if groupedErr == nil && grouped.Match(e) != is || notErr == nil && not.Match(e) == is {
				t.Fatalf("%q matches %v: %v, but not so in parentheses", text, e.fields, is)
			}
			if is && keyed && e.fields["host"] == nil {
				t.Fatalf("%q demands a host, and matches %v", text, e.fields)
			}
		}
	})
}
