package httpconn

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/check"
)

func TestIfNoneMatch(t *testing.T) {
	for _, c := range []struct {
		given    []string
		any, bad bool
		matches  []string
	}{
		{given: nil},
		{given: []string{"*"}, any: true, matches: []string{`"x"`}},
		{given: []string{" * "}, any: true, matches: []string{`"x"`}},
		{given: []string{`"a"`}, matches: []string{`"a"`, `W/"a"`}},
		{given: []string{`W/"a"`}, matches: []string{`"a"`, `W/"a"`}},
		{given: []string{`"a", ,W/"b,c" ,"d"`}, matches: []string{`"a"`, `"b,c"`, `"d"`}},
		{given: []string{`"a"`, `"b"`}, matches: []string{`"a"`, `"b"`}},
		{given: []string{`""`}, matches: []string{`""`}},
		{given: []string{"foo"}, bad: true},
		{given: []string{""}},
		{given: []string{","}},
		{given: []string{`"a`}, bad: true},
		{given: []string{`"`}, bad: true},
		{given: []string{`"a" "b"`}, bad: true},
		{given: []string{`*, "a"`}, bad: true},
		{given: []string{`"a", *`}, bad: true},
		{given: []string{"\"a b\""}, bad: true},
		{given: []string{`w/"a"`}, bad: true},
		{given: []string{"W/"}, bad: true},
	} {
		r := &http.Request{Header: http.Header{}}
		for _, v := range c.given {
			r.Header.Add("If-None-Match", v)
		}
		got, err := IfNoneMatch(r)
		if (err != nil) != c.bad || (got != nil && got.Any) != c.any {
			t.Errorf("If-None-Match %q: condition %+v, error %v", c.given, got, err)
			continue
		}
		check.Equalf(t, got.Matches(`"other"`), c.any, "If-None-Match %q matches another tag: %v", c.given, !c.any)
		for _, tag := range c.matches {
			if !got.Matches(tag) {
				t.Errorf("%q does not match %s", c.given, tag)
			}
		}
	}
}

func TestIfMatch(t *testing.T) {
	for given, want := range map[string][]bool{ // matches "a", "b", "c-gzip"
		`"a"`: {true, false, false}, `"b", "c"`: {false, true, false}, `W/"a", "b"`: {false, true, false}, `W/"a"`: {}, `"a-gzip"`: {true, false, false},
		`"b-zstd" ,"a-br"`: {false, true, false}, `*`: {true, true, true}, `"c-gzip-gzip"`: {false, false, true}, ``: {},
	} {
		c, err := IfMatch(&http.Request{Header: http.Header{"If-Match": {given}}})
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		for i, tag := range []string{`"a"`, `"b"`, `"c-gzip"`} {
			check.Equalf(t, c.Matches(tag), len(want) > 0 && want[i], "If-Match %s matches %s", given, tag)
		}
	}
	if c, err := IfMatch(&http.Request{Header: http.Header{}}); c != nil || err != nil {
		t.Errorf("without the header: %+v, %v", c, err)
	}
	if _, err := IfMatch(&http.Request{Header: http.Header{"If-Match": {"a"}}}); err == nil || !strings.HasSuffix(err.Error(), `If-Match: want * or entity tags in quotes, given "a"`) {
		t.Errorf("a tag without quotes: %v", err)
	}
}
