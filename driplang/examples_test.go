package driplang_test

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestExamplesOfFilters: data that matches, and data that differs from it in one property, if that is
// enough, and does not match.
func TestExamplesOfFilters(t *testing.T) {
	for filter, want := range map[string]string{
		`amount > 100`:                             `{"amount":101} not {"amount":100}`,
		`amount >= 100`:                            `{"amount":100} not {"amount":99}`,
		`amount < 1.5`:                             `{"amount":1} not {"amount":1.5}`,
		`amount <= -2`:                             `{"amount":-2} not {"amount":-1}`,
		`amount > 9223372036854775806`:             `{"amount":9223372036854775807} not {"amount":9223372036854775806}`,
		`amount > 1 AND amount < 2`:                `{"amount":1.5} not {"amount":1}`,
		`amount != 3 AND amount != 4`:              `{"amount":2} not {"amount":3}`,
		`amount > 100 AND currency = "EUR"`:        `{"amount":101,"currency":"EUR"} not {"amount":100,"currency":"EUR"} not {"amount":101,"currency":"other"}`,
		`plan = "free" OR plan = "other"`:          `{"plan":"free"} not {"plan":"another"}`,
		`plan != "free"`:                           `{"plan":"other"} not {"plan":"free"}`,
		`NOT ok = true`:                            `{"ok":false} not {"ok":true}`,
		`since > "2024-02-28"`:                     `{"since":"2024-02-29"} not {"since":"2024-02-28"}`,
		`since < "2024-03-01"`:                     `{"since":"2024-02-29"} not {"since":"2024-03-01"}`,
		`name < "a"`:                               `{"name":""} not {"name":"a"}`,
		`referrer = null`:                          ` not {"referrer":"some"}`,
		`referrer != null`:                         `{"referrer":"some"} not `,
		`x = 1 OR y = null`:                        `{"x":1} not {"x":2,"y":"some"}`,
		`user.plan = "p" AND user."a b".c = 1`:     `{"user":{"plan":"p","a b":{"c":1}}} not {"user":{"plan":"other","a b":{"c":1}}} not {"user":{"plan":"p","a b":{"c":2}}}`,
		`(user = "u" AND user.x = 1) OR ok = true`: `{"ok":true} not {"ok":false}`,
		`x = 1 AND x = 2`:                          ``,
		`x = 1 OR NOT x = 1`:                       `{"x":1}`,
	} {
		e := must.Get(driplang.Parse("A[" + filter + "]"))(t)
		match, misses := e.Normal().Kinds[0].Where.Examples()
		got := string(form.Document(match))
		for _, miss := range misses {
			got += " not " + string(form.Document(miss))
		}
		check.Equalf(t, got, want, "%s", filter)
	}
}

// TestExamplesOfRandomFilters: the examples match and do not, and most filters have both.
func TestExamplesOfRandomFilters(t *testing.T) {
	n, both := 0, 0
	seeds := sebtest.Runs(3000, 700)
	for seed := range uint64(seeds) {
		c := driplangtest.Random(seed)
		c.Rich = true
		e, err := driplang.Parse(c.Expression(3, false))
		if err != nil {
			continue
		}
		for _, k := range e.Normal().Kinds {
			if k.Where == nil {
				continue
			}
			n++
			match, misses := k.Where.Examples()
			if match != nil && len(misses) > 0 {
				both++
			}
			if match != nil && !k.Where.Matches(form.Document(match)) {
				t.Errorf("seed %d: %s: %s does not match", seed, e, form.Document(match))
			}
			for _, miss := range misses {
				if doc := form.Document(miss); k.Where.Matches(doc) {
					t.Errorf("seed %d: %s: %s matches", seed, e, doc)
				}
			}
		}
	}
	if t.Logf("%d of %d filters have both", both, n); n < seeds/6 || both < n*8/10 {
		t.Error("too few")
	}
}

// TestExamplesAreBounded: a filter with many properties has none.
func TestExamplesAreBounded(t *testing.T) {
	var parts []string
	for i := range 65 {
		parts = append(parts, "x"+strings.Repeat("x", i)+" = 1")
	}
	for n, want := range map[int]bool{64: true, 65: false} {
		e := must.Get(driplang.Parse("A[" + strings.Join(parts[:n], " AND ") + "]"))(t)
		if match, _ := e.Normal().Kinds[0].Where.Examples(); (match != nil) != want {
			t.Errorf("%d properties: %v", n, match)
		}
	}
}
