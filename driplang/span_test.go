package driplang_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
)

func TestSpans(t *testing.T) {
	const text = "  ( signup ) then ((NOT \"use x\"[é = \"ü\"]) within 1 day 2h ) Then(count( a )>= 3 AND (NOT (b)))  "
	e, err := driplang.Parse(text)
	must.NoError(t, err)
	want := [][2]string{
		{"", strings.TrimSpace(text)},
		{"/then/0", "signup"},
		{"/then/1", `(NOT "use x"[é = "ü"]) within 1 day 2h`},
		{"/then/1/within", `NOT "use x"[é = "ü"]`},
		{"/then/1/within/not", `"use x"[é = "ü"]`},
		{"/then/2", "count( a )>= 3 AND (NOT (b))"},
		{"/then/2/and/0", "count( a )>= 3"},
		{"/then/2/and/1", "NOT (b)"},
		{"/then/2/and/1/not", "b"},
	}
	var got [][2]string
	for _, s := range e.Spans() {
		got = append(got, [2]string{s.Pointer, text[s.From:s.To]})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("spans\n%q\nwant\n%q", got, want)
	}
	doc, _ := e.MarshalJSON()
	if e, err = driplang.ParseJSON(doc); err != nil || e.Spans() != nil {
		t.Errorf("spans of JSON: %v, %v", e.Spans(), err)
	}
}

// TestSpansParseAsTheirNodes: the part of a text that a span delimits is the node at its pointer.
func TestSpansParseAsTheirNodes(t *testing.T) {
	spans := 0
	list := texts
	for _, c := range driplangtest.Cases(t) {
		list = append(list, c.Expr)
	}
	for _, text := range list {
		if e, err := driplang.Parse(text); err == nil {
			spans += checkSpans(t, text, e)
		}
	}
	if spans < 300 {
		t.Errorf("only %d spans", spans)
	}
}

// checkSpans parses the part of text at each span of e, and compares it with e at the pointer. It
// returns the number of spans.
func checkSpans(t testing.TB, text string, e driplang.Expr) int {
	t.Helper()
	whole := asJSON(t, e)
	for _, s := range e.Spans() {
		if s.From < 0 || s.To > len(text) || s.From >= s.To {
			t.Fatalf("%q: span %+v", text, s)
		}
		part := text[s.From:s.To]
		got, err := driplang.Parse("count(" + strconv.Quote("start") + ") >= 1 THEN (" + part + "\n)") // windows need a start
		if err != nil {
			if limited(err) {
				continue
			}
			t.Fatalf("%q: span %+v, %q: %v", text, s, part, err)
		}
		want := at(whole, s.Pointer)
		if got := at(asJSON(t, got), "/then/1"); want == nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: span %+v, %q, is %v, want %v", text, s, part, got, want)
		}
	}
	return len(e.Spans())
}

// limited reports whether a part exceeds a limit together with the THEN around it.
func limited(err error) bool {
	for _, limit := range []string{"more than", "the limit is"} {
		if strings.Contains(err.Error(), limit) {
			return true
		}
	}
	return false
}

func asJSON(t testing.TB, e driplang.Expr) (v any) {
	t.Helper()
	doc, err := e.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(doc, &v)
	}
	must.NoError(t, err)
	return v
}

// at returns the value at a JSON Pointer without escapes; nil if there is none.
func at(v any, pointer string) any {
	for step := range strings.SplitSeq(pointer, "/") {
		switch in := v.(type) {
		case map[string]any:
			if step != "" {
				v = in[step]
			}
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		}
	}
	return v
}
