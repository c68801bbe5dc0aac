package driplang_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestTextLike(t *testing.T) {
	for _, c := range []struct{ source, expr, want string }{
		{"user_created THEN (NOT use_x WITHIN 7 days)", "user_created THEN (NOT use_y WITHIN 7d)", "user_created THEN (NOT use_y WITHIN 7 days)"},
		{"user_created THEN (NOT use_x WITHIN 7 days)", "user_created THEN (NOT use_x WITHIN 3d)", "user_created THEN (NOT use_x WITHIN 3d)"},
		{"user_created THEN (NOT use_x WITHIN 7 days)", "user_created THEN (use_x WITHIN 7d)", "user_created THEN (use_x WITHIN 7 days)"},
		{"user_created THEN (NOT use_x WITHIN 7 days)", "user_created THEN (use_x AFTER 7d)", "user_created THEN (use_x AFTER 7d)"},
		{"user_created THEN (use_x within 7 days)", "user_created THEN (use_x AFTER 7d)", "user_created THEN (use_x AFTER 7 days)"},
		{"user_created THEN (NOT use_x WITHIN 7 days)", "user_created THEN use_x", "user_created THEN use_x"},
		{"user_created then use_x", "user_created THEN (NOT use_x)", "user_created then (NOT use_x)"},
		{"a THEN not (b and c)", "a THEN NOT d", "a THEN not d"},
		{"a THEN not(b and c)", "a THEN NOT d", "a THEN not d"},
		{"a\n\tthen b\n\tthen c\n", "a THEN b THEN d THEN c", "a\n\tthen b\n\tthen d\n\tthen c\n"},
		{"a\n\tthen b\n\tthen c\n", "d THEN a THEN b THEN c", "d\n\tthen a\n\tthen b\n\tthen c\n"},
		{"a\n\tthen b\n\tthen c\n", "a THEN b THEN c THEN d", "a\n\tthen b\n\tthen c\n\tthen d\n"},
		{"a\n\tthen b\n\tthen c\n", "b THEN c", "b\n\tthen c\n"},
		{"a\n\tthen b\n\tthen c\n", "c THEN a THEN b", "c\n\tthen a\n\tthen b\n"},
		{"a\n\tthen b\n\tthen c\n", "a AND b AND c", "a\n\tAND b\n\tAND c\n"},
		{"a\n\tthen b\n\tthen c\n", "b", "b\n"},
		{"  ( a\n and  b ) ", "b", "  b "},
		{"  ( a\n and  b ) ", "a AND b AND (c OR b)", "  ( a\n and  b\n and  (c OR b) ) "},
		{"a  then b and  c", "(a THEN (b AND c)) OR d", "(a  then b and  c) OR d"},
		{"a  then b and  c", "a AND b AND c", "a  AND b  AND c"},
		{"a then b or c", "a AND (b OR c)", "a AND (b or c)"},
		{"a or b and c then d", "(a OR (b THEN c)) THEN d", "a or (b THEN c) then d"},
		{"a then (b or  c) then d", "a THEN b THEN c THEN d", "a then b then c then d"},
		{"a then b then c", "a THEN (b AND c)", "a then (b AND c)"},
		{"a then x  within 1 day then x WITHIN 24 hours", "a THEN (x WITHIN 1d) THEN (NOT (x WITHIN 1d))", "a then x  within 1 day then (NOT (x WITHIN 24 hours))"},
		{"a then (b\tand c within 1 day)", "a THEN (b AND c AND d)", "a then (b\tand c\tand d)"},
		{"count( a )>= 3  and b", "count(a) >= 4 AND b", "count( a )>= 4  and b"},
		{"count( a[ x=1 ] )>= 3  and b", "count(c[x = 1]) < 3 AND b", "count( c[ x=1 ] )< 3  and b"},
		{"count(a)>=3then b", "count(a) >= 3 THEN c", "count(a)>=3 then c"},
		{`a[ x=1 and (y . "z"="q" OR z<2) ]`, `a[x = 1 AND (y.z = "q" OR z < 3)]`, `a[ x=1 and (y . "z"="q" OR z<3) ]`},
		{`a[ x=1 and y=2 ]`, `b[(x = 1 AND y = 2) OR z = null]`, `b[ (x=1 and y=2) OR z = null ]`},
		{`a[ x=1 and y=2 ]`, `b[x = 1]`, `b[ x=1 ]`},
		{`a[ x=1 and y=2 ]`, `b[NOT y = 2]`, `b[ NOT y=2 ]`},
		{`a[ x=1 ]`, `"a b"`, `"a b"`},
		{`"\u0061"`, `a[x = 1 AND y = 2]`, `"\u0061"[x = 1 AND y = 2]`},
	} {
		source, e := parse(t, c.source), parse(t, c.expr)
		if got, err := asBuilt(t, e).TextLike(c.source); got != c.want || err != nil {
			t.Errorf("%q as %s: %q, %v, want %q", c.source, c.expr, got, err, c.want)
		}
		if got, err := asBuilt(t, source).TextLike(c.source); got != c.source || err != nil {
			t.Errorf("%q as itself: %q, %v", c.source, got, err)
		}
	}
}

// parse returns the expression of a text.
func parse(t testing.TB, text string) driplang.Expr {
	t.Helper()
	e, err := driplang.Parse(text)
	must.NoErrorf(t, err, "%q", text)
	return e
}

// asBuilt returns e without its text.
func asBuilt(t testing.TB, e driplang.Expr) driplang.Expr {
	t.Helper()
	doc, err := e.MarshalJSON()
	if err == nil {
		e, err = driplang.ParseJSON(doc)
	}
	must.NoError(t, err)
	return e
}

func TestTextLikeFaults(t *testing.T) {
	if text, err := parse(t, "a").TextLike("a THEN"); text != "" || err == nil || err.Error() != "1:7: expected an event name, NOT or '(', found end of expression" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := (driplang.Expr{}).TextLike("a"); text != "" || err != nil {
		t.Errorf("the zero value: %q, %v", text, err)
	}
	// the notation of the source has no room for a longer name
	source := "a" + strings.Repeat(" ", driplang.MaxText-8) + "THEN b"
	if text, err := parse(t, "a THEN bcdefgh").TextLike(source); text != "a THEN bcdefgh" || err != nil {
		t.Errorf("%.20q, %v", text, err)
	}
}

// TestTextLikeKeepsNotation edits random expressions. The result parses to the edited expression, and
// writes each part that the source has as it is there, which the canonical form does not.
func TestTextLikeKeepsNotation(t *testing.T) {
	seeds := sebtest.Runs(5_000, 300)
	edited, kept := 0, 0
	for seed := range uint64(seeds) {
		w := author{rand.New(rand.NewPCG(seed, 1))}
		source := w.spaces(w.expression(4, false))
		e, err := driplang.Parse(source)
		if err != nil {
			continue
		}
		tree := asJSON(t, e)
		for range 1 + w.IntN(2) {
			tree = w.edit(tree)
		}
		doc, _ := json.Marshal(tree)
		if e, err = driplang.ParseJSON(doc); err == nil {
			edited++
			kept += checkTextLike(t, source, e)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d edits kept %d parts", edited, kept)
	if edited < seeds/4 || kept < 2*edited {
		t.Errorf("%d edits kept %d parts, too few", edited, kept)
	}
}

func TestTextLikeOfCases(t *testing.T) {
	var list []driplang.Expr
	for _, c := range driplangtest.Cases(t) {
		if e, err := driplang.Parse(c.Expr); err == nil {
			list = append(list, e)
			if text, err := asBuilt(t, e).TextLike(c.Expr); text != c.Expr || err != nil {
				t.Errorf("%q: %q, %v", c.Expr, text, err)
			}
		}
	}
	for i, c := range driplangtest.Cases(t) {
		if _, err := driplang.Parse(c.Expr); err == nil {
			checkTextLike(t, c.Expr, list[(i+1)%len(list)])
		}
	}
}

// checkTextLike compares the parts of e in the notation of a source with those of the source. It returns
// the number of parts that are the same.
func checkTextLike(t testing.TB, source string, e driplang.Expr) (kept int) {
	t.Helper()
	text, err := e.TextLike(source)
	must.NoErrorf(t, err, "%q", source)
	again, err := driplang.Parse(text)
	if err != nil || !again.Equal(e) {
		t.Fatalf("%s in the notation of %q is %q: %s, %v", e, source, text, again, err)
	}
	old := written(t, parse(t, source), source)
	for part, texts := range written(t, again, text) {
		for _, text := range texts {
			if len(old[part]) == 0 {
				continue
			}
			if kept++; !slices.Contains(old[part], text) {
				t.Fatalf("%s in the notation of %q has %q, want one of %q: %q", e, source, text, old[part], again)
			}
		}
	}
	return kept
}

// written returns the texts of the parts of an expression, and of the events that it counts, by their
// JSON form.
func written(t testing.TB, e driplang.Expr, text string) map[string][]string {
	parts := map[string][]string{}
	whole := asJSON(t, e)
	for _, s := range e.Spans() {
		part, text := at(whole, s.Pointer), text[s.From:s.To]
		key, _ := json.Marshal(part)
		parts[string(key)] = append(parts[string(key)], text)
		if event := part.(map[string]any)["count"]; event != nil {
			key, _ = json.Marshal(event)
			parts[string(key)] = append(parts[string(key)], strings.Trim(text[strings.Index(text, "(")+1:strings.LastIndex(text, ")")], " \t\n"))
		}
	}
	return parts
}

// author writes expressions in a notation of its own, and edits them.
type author struct{ *rand.Rand }

func (w author) pick(list ...string) string { return list[w.IntN(len(list))] }

// spaces returns a text with a random number of spaces instead of each one.
func (w author) spaces(text string) string {
	words := strings.Split(text, " ")
	for i := range words[1:] {
		words[i] += w.pick(" ", " ", "  ", "\n", "\t ")
	}
	return strings.Join(words, "")
}

func (w author) expression(depth int, anchored bool) string {
	choice := w.IntN(16)
	if depth == 0 {
		choice = 0
	}
	sub := func(anchored bool) string {
		text := w.expression(depth-1, anchored)
		switch w.IntN(6) {
		case 0:
			return "( " + text + ")"
		case 1:
			return "((" + text + " ) )"
		case 2:
			return text
		}
		return "(" + text + ")"
	}
	list := func(anchored bool, words ...string) string {
		word := " " + w.pick(words...) + " "
		text := sub(anchored)
		for range 1 + w.IntN(3) {
			text += word + sub(anchored || strings.EqualFold(words[0], "THEN"))
		}
		return text
	}
	switch {
	case choice < 3:
		return w.event()
	case choice < 5:
		return w.pick("NOT ", "not ") + sub(anchored)
	case choice < 6:
		return w.pick("count( ", "Count(") + w.event() + w.pick(") ", " )") + w.pick(">=", ">", "<", "!=") + w.pick("", " ") + fmt.Sprint(1+w.IntN(3))
	case choice < 8:
		return list(anchored, "AND", "and")
	case choice < 10:
		return list(anchored, "OR", "or")
	case choice < 14 || !anchored:
		return list(anchored, "THEN", "then", "Then")
	}
	return sub(anchored) + w.pick(" WITHIN ", " within ", " AFTER ", " after ") + w.pick("7 days", "1 d 2h", "24 hours", "90 min", "1.5 h")
}

func (w author) event() string {
	return w.pick("A", "b", `"use x"`, `"\u00e9"`, "D") + w.pick("", "", "", "[x=1]", ` [ y . "z">=2 and NOT(x=1 Or q=null)]`, "[x != 0.50]")
}

// edit returns a JSON form with an edit, such as the console makes.
func (w author) edit(tree any) any {
	node, _ := tree.(map[string]any)
	if node == nil || w.IntN(3) == 0 {
		return w.editHere(tree)
	}
	for _, operator := range []string{"not", "within", "after", "and", "or", "then"} {
		switch below := node[operator].(type) {
		case map[string]any:
			node[operator] = w.edit(below)
			return node
		case []any:
			i := w.IntN(len(below))
			below[i] = w.edit(below[i])
			return node
		}
	}
	return w.editHere(tree)
}

func (w author) editHere(tree any) any {
	node := tree.(map[string]any)
	fresh := map[string]any{"event": w.pick("A", "new", "use x")}
	for operator, below := range node {
		list, ok := below.([]any)
		if !ok {
			continue
		}
		i := w.IntN(len(list))
		switch w.IntN(6) {
		case 0:
			node[operator] = slices.Insert(list, i, any(fresh))
		case 1:
			if list = slices.Delete(list, i, i+1); len(list) == 1 {
				return list[0]
			}
			node[operator] = list
		case 2:
			j := w.IntN(len(list))
			list[i], list[j] = list[j], list[i]
		case 3:
			delete(node, operator)
			node[w.pick("and", "or", "then")] = list
		}
		return node
	}
	switch w.IntN(8) {
	case 0:
		return map[string]any{"not": tree}
	case 1:
		return map[string]any{w.pick("and", "or", "then"): []any{tree, fresh}}
	case 2:
		return map[string]any{"within": tree, "for": "7d"}
	case 3:
		return map[string]any{"count": fresh, "is": ">=", "n": 2}
	}
	for _, operator := range []string{"not", "within", "after"} {
		if below, ok := node[operator]; ok && w.IntN(2) == 0 {
			return below
		}
	}
	switch {
	case node["for"] != nil:
		node["for"] = "2h"
	case node["by"] != nil:
		node["by"] = "2h"
	case node["n"] != nil:
		node["n"] = 9
	case node["event"] != nil && w.IntN(2) == 0:
		node["where"] = map[string]any{"and": []any{map[string]any{"property": "x", "is": "=", "value": 1}, map[string]any{"property": "new", "is": "<", "value": "z"}}}
	case node["event"] != nil:
		node["event"] = "new"
	}
	return node
}
