package driplang

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

func number(t testing.TB, text string) literal {
	v, ok := parseNumber(text)
	if !ok {
		t.Fatalf("%s is not a number", text)
	}
	return v
}

func TestMatches(t *testing.T) {
	text := func(s string) literal { return literal{kind: kindString, text: s} }
	n := func(s string) literal { return number(t, s) }
	null := literal{}
	for _, c := range []struct {
		data, path string
		cmp        compare
		want       literal
		matches    bool
	}{
		{`{"a":1}`, "a", equal, n("1"), true},
		{`{"a":1}`, "a", equal, n("1.0"), true},
		{`{"a":1e2}`, "a", equal, n("100"), true},
		{`{"a":1}`, "a", unequal, n("1"), false},
		{`{"a":1}`, "a", greater, n("0.5"), true},
		{`{"a":-0.5}`, "a", less, n("0"), true},
		{`{"a":01}`, "a", equal, n("1"), false},
		{`{"a":1x}`, "a", equal, n("1"), false},
		{`{"a":"1"}`, "a", equal, n("1"), false},
		{`{"a":"1"}`, "a", unequal, n("1"), true},
		{`{"a":"x"}`, "a", equal, text("x"), true},
		{`{"a":"2024-05"}`, "a", atLeast, text("2024-04-30"), true},
		{`{"a":"\u0078\""}`, "a", equal, text(`x"`), true},
		{`{"a":"\q"}`, "a", equal, text("q"), false},
		{`{"\u0061":"x"}`, "a", equal, text("x"), true},
		{`{"a":true}`, "a", equal, boolLiteral(true), true},
		{`{"a":true}`, "a", equal, boolLiteral(false), false},
		{`{"a":null}`, "a", equal, null, true},
		{`{"b":1}`, "a", equal, null, true},
		{`{"a":0}`, "a", unequal, null, true},
		{`{"a":{}}`, "a", unequal, null, true},
		{`{"a":[1]}`, "a", equal, n("1"), false},
		{`{"a":1,"a":2}`, "a", equal, n("2"), true},
		{`{"a":{"b":{"c":3}}}`, "a.b.c", equal, n("3"), true},
		{`{"x":[{"b":1},"}\"",{}],"a":{"y":"{","b":4}}`, "a.b", equal, n("4"), true},
		{"{ \"a\" :\n{\t\"b\": 5 , \"c\":6}\r}", "a.b", equal, n("5"), true},
		{`{"a":[{"b":5}]}`, "a.b", equal, null, true},
		{`[{"a":1}]`, "a", equal, null, true},
		{`"a"`, "a", equal, null, true},
		{``, "a", equal, null, true},
		{`{"a":`, "a", equal, null, true},
		{`{"a"`, "a", equal, null, true},
		{strings.Repeat(`{"a":`, 100_000), "a.a", equal, null, true},
		{strings.Repeat(`[`, 100_000), "a", equal, null, true},
	} {
		f := &filter{op: filterIs, path: strings.Split(c.path, "."), cmp: c.cmp, want: c.want}
		check.Equalf(t, newDataFilter(f).Matches([]byte(c.data)), c.matches, "%.60s: %s %v %v", c.data, c.path, c.cmp, c.want)
		if got := newDataFilter(&filter{op: filterNot, kids: []*filter{f}}).Matches([]byte(c.data)); got == c.matches {
			t.Errorf("%.60s: NOT %s %v %v is also %v", c.data, c.path, c.cmp, c.want, got)
		}
		yes := &filter{op: filterNot, kids: []*filter{{op: filterAnd, kids: []*filter{f, {op: filterNot, kids: []*filter{f}}}}}}
		if !newDataFilter(yes).Matches([]byte(c.data)) || !newDataFilter(&filter{op: filterOr, kids: []*filter{f, yes}}).Matches([]byte(c.data)) {
			t.Errorf("%.60s: AND and OR", c.data)
		}
	}
}

func TestNumbersMatchExactly(t *testing.T) {
	for _, c := range []struct {
		data    string
		cmp     compare
		want    string
		matches bool
	}{
		{`{"a":9007199254740993}`, equal, "9007199254740992", false},
		{`{"a":9007199254740993}`, greater, "9007199254740992", true},
		{`{"a":18446744073709551616}`, greater, "9223372036854775807", true},
		{`{"a":1e999}`, greater, "1", true},
		{`{"a":1e1000000000000000000}`, greater, "1", false},
		{`{"a":12345678901234567891}`, equal, "12345678901234567890", false},
		{`{"a":12345678901234567891}`, greater, "12345678901234567890", true},
		{`{"a":-12345678901234567891}`, less, "-12345678901234567890", true},
		{`{"a":12345678901234567890.0}`, equal, "12345678901234567890", true},
		{`{"a":0.10}`, equal, "1e-1", true},
		{`{"a":0.1000000000000000000001}`, equal, "0.1", false},
		{`{"a":1e400}`, less, "1e401", true},
		{`{"a":1e999999999}`, equal, "10e999999998", true},
		{`{"a":-0}`, equal, "0.0", true},
		{`{"a":-0e5}`, equal, "0", true},
		{`{"a":` + strings.Repeat("1", 1000) + `}`, greater, strings.Repeat("1", 999) + "0", true},
		{`{"a":0` + strings.Repeat("0", 1000) + `}`, equal, "0", false},
	} {
		f := newDataFilter(&filter{op: filterIs, path: []string{"a"}, cmp: c.cmp, want: number(t, c.want)})
		check.Equalf(t, f.Matches([]byte(c.data)), c.matches, "%.60s: a %v %.60s", c.data, c.cmp, c.want)
	}
}

// FuzzFind looks for a property in any bytes; for valid JSON the result equals that of
// encoding/json.
func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"}"],"c\u0064":-1.5e3},"a":{"cd":"x"}}`), "a", "cd")
	f.Add([]byte(`{"a":tru}`), "a", "")
	f.Add([]byte(`{"\ud83d\ude01":{"\uD800x":"\ud83d\u00e9\/"}}`), "\U0001f601", "\ufffdx")
	f.Add([]byte(`{"":{"":null}}`), "", "")
	f.Fuzz(func(t *testing.T, data []byte, first, second string) {
		var v jsonValue
		sebtest.Allocates(t, 4<<10+4*len(data), data, func() { v = find(data, first, second) })
		if !json.Valid(data) || !utf8.Valid(data) || !utf8.ValidString(first+second) || deep(data) {
			return
		}
		var want any
		outer, inner := map[string]json.RawMessage{}, map[string]any{}
		_ = json.Unmarshal(data, &outer)
		dec := json.NewDecoder(strings.NewReader(string(outer[first])))
		dec.UseNumber()
		_ = dec.Decode(&inner)
		want = inner[second]
		switch want := want.(type) {
		case nil:
			if v.kind != kindNull {
				t.Fatalf("%s: found %s", data, v.raw)
			}
		case string:
			if order, ok := v.order(want); v.kind != kindString || !ok || order != 0 {
				t.Fatalf("%s: found %s, want %q", data, v.raw, want)
			}
			if order, _ := v.order(first); order != strings.Compare(want, first) {
				t.Fatalf("order of %s and %q: %d", v.raw, first, order)
			}
		case bool:
			if v.kind != boolLiteral(want).kind {
				t.Fatalf("%s: found %s, want %v", data, v.raw, want)
			}
		case json.Number:
			if v.kind != kindNumber || string(v.raw) != want.String() {
				t.Fatalf("%s: found %s, want %v", data, v.raw, want)
			}
		default:
			if v.kind != kindOther {
				t.Fatalf("%s: found %s, want %v", data, v.raw, want)
			}
		}
	})
}

// TestCanonicalNumbers has the forms of stored expressions, which identify the version of a trigger,
// and the exact ones of numbers that are no doubles.
func TestCanonicalNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "-0": "0", "1.0": "1", "1e2": "100", "0.10": "0.1", "1e18": "1e+18", "1000000000000000000": "1000000000000000000",
		"1234567.5": "1.2345675e+06", "0.00001": "1e-05", "1e300": "1e+300", "9007199254740993": "9007199254740993",
		"12345678901234567890": "12345678901234567890", "12345678901234567890.0": "12345678901234567890", "-12345678901234567891": "-12345678901234567891",
		"0.12345678901234567891": "0.12345678901234567891", "1e400": "1e+400", "1e-400": "1e-400", "9007199254740993.0": "9007199254740993",
		"0e999": "0", "10000000000000000000000000": "1e+25",
	} {
		if got := number(t, text).String(); got != want {
			t.Errorf("the canonical form of %s is %s, want %s", text, got, want)
		}
	}
}

// find returns the value at a path.
func find(data []byte, path ...string) jsonValue {
	var values [1]jsonValue
	root := &properties{}
	root.add(path).slots = []int{0}
	root.find(data, values[:])
	return values[0]
}

// deep reports whether encoding/json might refuse the depth.
func deep(data []byte) bool {
	return strings.Count(string(data), "[")+strings.Count(string(data), "{") > 5000
}

func FuzzNumber(f *testing.F) {
	for _, text := range []string{"0", "-1.5e+10", "01", "1.", ".5", "+1", "0x1p4", "1_0", "inf", "1e", "-", "1e5.5", "--1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := parseNumber(text)
		valid := json.Valid([]byte(text)) && text != "" && strings.ContainsRune("-0123456789", rune(text[0])) && strings.TrimSpace(text) == text
		if ok && !valid {
			t.Fatalf("%q was read as %v", text, v)
		}
		if again, _ := parseNumber(v.String()); ok && v.number.Compare(again.number) != 0 {
			t.Fatalf("%q is %v, read again %v", text, v, again)
		}
		if ok != valid && len(text) < 20 && !strings.ContainsAny(text, "eE") {
			t.Fatalf("%q was refused", text)
		}
	})
}
