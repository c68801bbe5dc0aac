package httpconn

import (
	"net/http"
	"testing"
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
		if got.Matches(`"other"`) != c.any {
			t.Errorf("If-None-Match %q matches another tag: %v", c.given, !c.any)
		}
		for _, tag := range c.matches {
			if !got.Matches(tag) {
				t.Errorf("%q does not match %s", c.given, tag)
			}
		}
	}
}
