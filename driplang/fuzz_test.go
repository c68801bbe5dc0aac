package driplang_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/sebtest"
)

// parseBound bounds the allocations of parsing: the tree, its canonical text, and the normal form
// of at most some thousand nodes.
func parseBound(text string) int { return 4<<20 + 400*len(text) }

var texts = []string{
	"A AND (NOT (B OR C))", "A THEN ((NOT B) WITHIN 2s) THEN ((NOT C) WITHIN 3s)", `"order placed" THEN (NOT "and" WITHIN 2h30m)`,
	`purchase[amount > 100 AND (currency = "EUR" OR NOT user."x y".z != null)]`, "count(login[ok = true]) >= 3 WITHIN 7 days",
	"(A OR NOT B) THEN (NOT (C THEN D)) THEN E AFTER 1.5h WITHIN 2h", "A THEN (B WITHIN 2 parsecs)", "A[x = -1.5e+10]", "é.b:c/d-1",
	"((((((((A", `"\ud800"`, "A\xff", "count(A) <= 0 AND count(B) != 7", "A THEN (B WITHIN 99999999999999 weeks)",
}

// FuzzParse parses a text. A valid expression has the same canonical form after another parse, in
// both forms, and its spans delimit its nodes.
func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var e driplang.Expr
		var err error
		sebtest.Allocates(t, parseBound(text), []byte(text), func() { e, err = driplang.Parse(text) })
		verify(t, text, e, err)
		if err == nil && len(text) < 512 { // each span is parsed
			checkSpans(t, text, e)
		}
	})
}

// FuzzParseJSON is FuzzParse for both JSON forms. ParseJSON refuses every document that the schema
// refuses.
func FuzzParseJSON(f *testing.F) {
	for _, text := range texts {
		if e, err := driplang.Parse(text); err == nil {
			doc, _ := e.MarshalJSON()
			f.Add(doc)
		}
	}
	f.Add([]byte(`{"operator":"then","a":{"operator":"event_name","a":"A"},"b":{"operator":"after","a":{"operator":"event_name","a":"B"},"d":"42133742"}}`))
	f.Add([]byte(`{"then":[{"event":"A"},{"within":{"event":"B"},"for":"1 parsec"},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var e, original driplang.Expr
		var err, originalErr error
		sebtest.Allocates(t, 2*parseBound(string(text)), text, func() {
			e, err = driplang.ParseJSON(text)
			original, originalErr = driplang.ParseOriginal(text)
		})
		verify(t, string(text), e, err)
		verify(t, string(text), original, originalErr)
		if err == nil {
			if err := validate(text); err != nil {
				t.Fatalf("%s was read as %s: %v", text, e, err)
			}
		}
	})
}

// FuzzTextLike writes an expression in the notation of another one.
func FuzzTextLike(f *testing.F) {
	for i, text := range texts {
		f.Add(text, texts[(i+1)%len(texts)])
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		e, err := driplang.Parse(text)
		if err != nil {
			return
		}
		var like string
		sebtest.Allocates(t, parseBound(source)+2*parseBound(text), []byte(source), func() { like, err = e.TextLike(source) })
		if err != nil {
			if _, ok := err.(*driplang.Error); !ok || like != "" {
				t.Fatalf("%q, error %#v", like, err)
			}
			return
		}
		old, again := parse(t, source), parse(t, like)
		if !again.Equal(e) || old.Equal(e) && like != source {
			t.Fatalf("%q in the notation of %q is %q", text, source, like)
		}
	})
}

func verify(t *testing.T, text string, e driplang.Expr, err error) {
	t.Helper()
	if err == nil {
		roundTrip(t, e)
		checkSentence(t, e)
		return
	}
	fault, ok := err.(*driplang.Error)
	if !ok || fault.Message == "" || fault.Line > 0 != (fault.Col > 0) || fault.Line > 0 && fault.Pointer != "" {
		t.Fatalf("error %#v", err)
	}
	fault.Caret(text)
}

// checkSentence: a sentence is a line or an outline, and names each event that has no filter. It is at
// most 128 times as long as the expression.
func checkSentence(t testing.TB, e driplang.Expr) {
	t.Helper()
	s, text := e.Sentence(), e.String()
	if s == "" || strings.HasSuffix(s, ".") == strings.Contains(s, ":\n") && !strings.ContainsAny(text, "\"") || len(s) > 128*len(text)+256 {
		t.Fatalf("the sentence of %q is %q", text, s)
	}
	for _, name := range e.Names() {
		if quoted, _ := json.Marshal(name); !strings.Contains(s, name) && !strings.Contains(s, string(quoted)) && !strings.Contains(text, "\\") {
			t.Fatalf("the sentence of %q is %q, without %q", text, s, name)
		}
	}
}
