package driplang_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func filterOf(t testing.TB, text string) *driplang.Filter {
	t.Helper()
	f, err := driplang.ParseFilter(text)
	must.NoErrorf(t, err, "%s", text)
	return f
}

func TestFilterMatch(t *testing.T) {
	const event = `{"event":"purchase","entity_id":"u7","data":{"amount":120,"plan":"free","event":"inner","data":{"x":1},"user":{"id":"a\"b"}},"id":"e1"}`
	const plain = `{"amount":120,"event":"purchase","data":{"x":1},"note":"caf\u00e9 \ud83d\ude00"}`
	for _, c := range []struct {
		text, value string
		want        bool
	}{
		{`amount > 100 AND plan = "free"`, event, true},
		{`amount > 120`, event, false},
		{`data.amount = 120`, event, true},
		{`event = "purchase" AND amount > 100`, event, true},
		{`event = "inner"`, event, false},
		{`data.event = "inner" AND event = "purchase"`, event, true},
		{`event.x = null AND entity_id.x = null`, event, true},
		{`entity_id = "u7"`, event, true},
		{`entity_id != "u7"`, event, false},
		{`data.data.x = 1`, event, true},
		{`data.x = 1`, event, false},
		{`data != null AND data = null`, event, false},
		{`user.id = "a\"b"`, event, true},
		{`id = "e1"`, event, false}, // a property of the data
		{`id = null`, event, true},
		{`Event = "purchase"`, event, false},

		{`amount = 120 AND event = "purchase"`, plain, true},
		{`data.x = 1`, plain, true},
		{`x = 1`, plain, false},
		{`note = "café 😀"`, plain, true},
		{`note < "café 😁" AND note > "café"`, plain, true},
		{`amount > 1`, `{"event":"","entity_id":"u","data":{"amount":2}}`, false}, // not an event
		{`data.amount > 1`, `{"event":"","entity_id":"u","data":{"amount":2}}`, true},
		{`amount > 1`, `{"EVENT":"a","Entity_ID":"u","\u0044ata":{"amount":2}}`, true}, // as in triggers
		{`event = "b"`, `{"event":"a","entity_id":"u","event":"b","event":null}`, true},
		{`amount = null`, `{"event":"a","entity_id":"u"}`, true},
		{`amount = null`, `{"event":"a","entity_id":"u","data":{"amount":2},"data":null}`, true},

		{`x = null`, `[1]`, true},
		{`x = null`, ` "x" `, true},
		{`x = null`, `null`, true},
		{`x != 1`, ``, false},
		{`x != 1`, `{"a":1`, false},
		{`x != 1`, `{"a":1}}`, false},
		{`NOT x = 1`, `{"a":1} {"x":2}`, false},
		{`x = 1`, `{"x":1,}`, false},
		{`x = 1`, `{"x":1,"y":tru}`, false},
		{`x != 1`, "not json", false},
		{`x != 1`, "\xff\xfe", false},
		{`x = "a"`, "{\"x\":\"a\",\"y\":\"\xff\"}", true},
		{`x != 1`, strings.Repeat("[", 1_000_000), false},
		{`b.c = 2 AND b.d = 3 AND a = 1`, `{"b":{"c":9},"a":1,"b":{"d":3,"c":2,"z":{}}}`, true},
		{`b.c = 2`, `{"b":{"c":2},"b":{}}`, false},
	} {
		check.Equalf(t, filterOf(t, c.text).Match([]byte(c.value)), c.want, "%s on %.120s", c.text, c.value)
	}
}

func TestParseFilter(t *testing.T) {
	t.Run("the canonical form is parsed again", func(t *testing.T) {
		for text, want := range map[string]string{
			`amount>100 and(plan="free")`:         `amount > 100 AND plan = "free"`,
			`not a=1 or "not".b!=null`:            `(NOT a = 1) OR "not".b != null`,
			"a\n=\n1":                             "a = 1",
			`user."first name" = "x" OR b = true`: `user."first name" = "x" OR b = true`,
		} {
			f := filterOf(t, text)
			if f.String() != want || filterOf(t, want).String() != want {
				t.Errorf("%s is %s, want %s", text, f, want)
			}
		}
	})
	many := func(n int) string { return strings.Repeat("a = 1 OR ", n-1) + "b = 2" }
	t.Run("64 comparisons", func(t *testing.T) {
		if !filterOf(t, many(driplang.MaxComparisons)).Match([]byte(`{"b":2}`)) {
			t.Error("no match")
		}
	})
	for text, want := range map[string]string{
		"":                                  "1:1: expected a property of the event's data, found end of expression",
		"amount >":                          `1:9: expected a number, "string", true, false or null, found end of expression`,
		"amount > 1 plan":                   "1:12: expected AND, OR or the end, found 'plan'",
		"a = 1\nAND b = x":                  `2:9: expected a number, "string", true, false or null, found 'x'`,
		"a = 1]":                            "1:6: expected AND, OR or the end, found ']'",
		"purchase[a = 1]":                   "1:9: expected ",
		"\xff = 1":                          "1:1: the text is not valid UTF-8",
		many(65):                            "1:1: the filter has 65 comparisons, the limit is 64",
		many(driplang.MaxText):              "the filter has ",
		strings.Repeat("(", 5000) + "a = 1": "1:193: operators and parentheses are nested more than 192 deep",
	} {
		if _, err := driplang.ParseFilter(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %s", text, err, want)
		}
	}
}

// TestFilterAllocs: a record without a match costs no allocation.
func TestFilterAllocs(t *testing.T) {
	f := filterOf(t, `event = "purchase" AND amount > 100 AND plan = "caf\u00e9"`)
	long := fmt.Sprintf(`{"event":"purchase","entity_id":"u","data":{"plan":"%s\n%s","amount":101}}`, strings.Repeat("c", 100), strings.Repeat("d", 1000))
	for _, value := range []string{string(record300(1)), long, strings.Replace(long, "ccc", "caf\\u00e8", 1), "nothing"} {
		document := []byte(value)
		if n := testing.AllocsPerRun(100, func() {
			if f.Match(document) {
				t.Error("match")
			}
		}); n != 0 {
			t.Errorf("%.60s: %v allocations", value, n)
		}
	}
}

// FuzzFilter parses a filter and evaluates it on a document, in bounded memory.
func FuzzFilter(f *testing.F) {
	f.Add(`amount > 100 AND (plan = "free" OR NOT user."x y".z != null)`, []byte(`{"event":"a","entity_id":"b","data":{"amount":1e3,"plan":"\u0066ree"}}`))
	f.Add(`event = "\ud83d\ude00"`, []byte(`{"event":"\ud83d\ude00"}`))
	f.Add(`data.data = 1`, []byte(`{"Data":{"data":{"data":1}},"EVENT":"a","entity_i\u0064":"\ud800"}`))
	f.Fuzz(func(t *testing.T, text string, document []byte) {
		var filter *driplang.Filter
		var err error
		sebtest.Allocates(t, parseBound(text), []byte(text), func() { filter, err = driplang.ParseFilter(text) })
		if err != nil {
			return
		}
		var got bool
		sebtest.Allocates(t, 256<<10, document, func() { got = filter.Match(document) })
		again, err := driplang.ParseFilter(filter.String())
		if err != nil && len(filter.String()) <= driplang.MaxText {
			t.Fatalf("%q is %s, which is %v", text, filter, err)
		}
		if err == nil && (again.String() != filter.String() || again.Match(document) != got) {
			t.Fatalf("%q is %s, parsed again %s", text, filter, again)
		}
		not, err := driplang.ParseFilter("NOT (" + text + ")")
		if err == nil && got && not.Match(document) {
			t.Fatalf("%q and its NOT match %q", text, document)
		}
	})
}

// record300 returns an event of 300 bytes.
func record300(i int) []byte {
	head := fmt.Sprintf(`{"event":"page_view","entity_id":"user-%07d","data":{"url":"https://example.com/products/%d","amount":%d,"plan":"pro",`, i, i, i%100)
	tail := `"session":{"id":"5f2c","new":false}},"occurred_at":"2026-01-31T12:00:00Z"}`
	return []byte(head + `"agent":"` + strings.Repeat("x", 300-len(head)-len(tail)-len(`"agent":"",`)) + `",` + tail)
}
