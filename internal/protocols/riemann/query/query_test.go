package query_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/protocols/riemann/query"
	"github.com/sebbroker/seb/test/must"
)

// event is an event in memory. A value is a string, an int, a float64, a json.Number, a bool or nil.
type event struct {
	fields map[string]any
	tags   []string
}

func (e *event) Field(name string) query.Value {
	switch v := e.fields[name].(type) {
	case string:
		return query.Value{Kind: query.Text, Text: []byte(v)}
	case int:
		return query.Value{Kind: query.Integer, Int: int64(v)}
	case float64:
		return query.Value{Kind: query.Float, Float: v}
	case json.Number:
		number, _ := query.Number([]byte(v))
		return number
	case bool:
		if v {
			return query.Value{Kind: query.True}
		}
		return query.Value{Kind: query.False}
	}
	return query.Value{}
}

func (e *event) Tagged(tag string) bool { return slices.Contains(e.tags, tag) }

type fields = map[string]any

// with returns events from their fields; "tags" is a string of tags with spaces.
func with(list ...fields) (events []*event) {
	for _, f := range list {
		e := &event{fields: f}
		if tags, ok := f["tags"].(string); ok {
			e.tags = strings.Fields(tags)
		}
		events = append(events, e)
	}
	return events
}

// one returns events with one field each.
func one(field string, values ...any) (events []*event) {
	for _, v := range values {
		events = append(events, with(fields{field: v})...)
	}
	return events
}

var none = with(fields{})

type matchCase struct {
	name, text string
	yes, no    []*event
}

var matchCases = []matchCase{
	// constants and fields that stand alone
	{"true matches every event", `true`, slices.Concat(one("state", "up"), none), nil},
	{"false matches no event", `false`, nil, slices.Concat(one("state", "up"), none)},
	{"nil matches no event", `nil`, nil, slices.Concat(one("state", "up"), none)},
	{"null is another word for nil", `null`, nil, slices.Concat(one("state", "up"), none)},
	{"a number alone is true", `0`, none, nil},
	{"a string alone is true", `""`, none, nil},
	{"a field alone is true if it is neither nil nor false", `rack`, one("rack", "a", 0, "", true), slices.Concat(one("rack", false), none)},

	// equality of texts
	{"equal text", `state = "up"`, one("state", "up"), slices.Concat(one("state", "down", "UP", "up ", 1, true), none)},
	{"empty text", `state = ""`, one("state", ""), slices.Concat(one("state", " "), none)},
	{"escapes of control characters", `state = "\b\t\n\f\r"`, one("state", "\b\t\n\f\r"), one("state", "btnfr")},
	{"escaped quote and backslash", `state = " \" \\ \/ "`, one("state", ` " \ / `), one("state", ` " \\ / `)},
	{"Chinese and Japanese characters", `state = "磁盘ディスク"`, one("state", "磁盘ディスク"), one("state", "磁盘")},
	{"hexadecimal escapes", `state = "\u00e9\u4E00"`, one("state", "é一"), one("state", "e")},
	{"escaped surrogate pair", `state = "\ud83d\ude00"`, one("state", "😀"), one("state", "?")},
	{"the constant on the left", `"up" = state`, one("state", "up"), none},
	{"two fields", `host = service`, with(fields{"host": "x", "service": "x"}, fields{}), with(fields{"host": "x"}, fields{"host": "x", "service": "y"})},
	{"text is no keyword", `state = "and"`, one("state", "and"), none},
	{"unequal text", `state != "up"`, slices.Concat(one("state", "down", 1), none), one("state", "up")},

	// equality of other types
	{"true as a value", `state = true`, one("state", true), slices.Concat(one("state", "true", false, 1), none)},
	{"false is not nil", `state = false`, one("state", false), none},
	{"nil is an absent field", `description = nil`, slices.Concat(none, one("host", "a")), one("description", "", false, 0)},
	{"not nil is a present field", `description != nil`, one("description", "", false, 0), none},
	{"nil and not nil together", `time = null and description != nil`, one("description", "hey", true), slices.Concat(with(fields{"time": 2, "description": true}), none)},
	{"a number is no text", `state = "1"`, one("state", "1"), one("state", 1)},
	{"a text is no number", `state = 1`, one("state", 1), slices.Concat(one("state", "1", true), none)},
	{"a list is equal to nothing", `tags = tags`, none, nil},

	// numbers
	{"zero", `state = 0`, one("state", 0, 0.0), one("state", 1)},
	{"negative integer", `state = -1`, one("state", -1), one("state", 1)},
	{"integer equals the same double", `metric = 1`, one("metric", 1, 1.0), one("metric", 1.5)},
	{"double equals the same integer", `metric = 1.0`, one("metric", 1, 1.0), one("metric", 1.5)},
	{"fraction", `state = -1.5`, one("state", -1.5), one("state", 1.5, -1)},
	{"exponent", `state = 1e5`, one("state", 100000, 1e5), one("state", 1)},
	{"capital exponent", `state = 1E5`, one("state", 100000), one("state", 1)},
	{"negative exponent", `state = -1.2e-5`, one("state", -1.2e-5), one("state", 0)},
	{"positive exponent", `state = 1e+2`, one("state", 100), none},
	{"suffix of a long integer", `state = 7l and state = 7L`, one("state", 7), one("state", 8)},
	{"suffix of a large integer", `state = 7N or state = 8n`, one("state", 7, 8), one("state", 9)},
	{"leading zeros", `state = 007`, one("state", 7), none},
	{"leading zeros of a fraction", `state = -007.50`, one("state", -7.5), none},
	{"integers above 64 bits are exact", `metric = 12345678901234567890`, one("metric", json.Number("12345678901234567890"), json.Number("1234567890123456789.0e1")), one("metric", json.Number("12345678901234567891"), 12345678901234567890.0)},
	{"order above 64 bits is exact", `metric < 12345678901234567891`, one("metric", json.Number("12345678901234567890"), math.Inf(-1)), one("metric", json.Number("12345678901234567891"), math.Inf(1), "a")},
	{"fractions are exact", `metric > 0.1`, one("metric", json.Number("0.10000000000000000001")), one("metric", json.Number("0.10"), json.Number("1e-1"), 0.1)},
	{"numbers above doubles are exact", `metric < 1e401 and metric > 1e399`, one("metric", json.Number("1e400")), one("metric", json.Number("1e401"), math.Inf(1), json.Number("-1e400"))},
	{"large integers are exact", `metric = 9007199254740993`, one("metric", 9007199254740993), one("metric", 9007199254740992, 9007199254740992.0)},
	{"the largest and the smallest integer", `metric = 9223372036854775807 or metric = -9223372036854775808`, one("metric", math.MaxInt64, math.MinInt64), one("metric", 0x1p63)},
	{"an integer of more than 64 bits", `metric = 18446744073709551616N`, one("metric", json.Number("18446744073709551616")), one("metric", 0x1p64, math.MaxInt64)},
	{"infinity", `metric = Infinity`, one("metric", math.Inf(1)), one("metric", math.Inf(-1), math.MaxInt64)},
	{"negative infinity", `metric <= -Infinity`, one("metric", math.Inf(-1)), one("metric", math.MinInt64)},
	{"NaN is equal to nothing", `metric = NaN`, nil, slices.Concat(one("metric", math.NaN(), 0), none)},
	{"unequal numbers", `state != 1`, slices.Concat(one("state", 0.5, "1"), none), one("state", 1, 1.0)},
	{"old name of metric", `metric_f = 2`, one("metric", 2), one("metric_f", 2)},
	{"field ttl", `ttl = 64`, one("ttl", 64, 64.0), none},

	// order
	{"greater", `metric > 1e10`, one("metric", 1e11, math.Inf(1)), slices.Concat(one("metric", 1e10, 0, "1e11", math.NaN()), none)},
	{"at least", `metric >= -1`, one("metric", 0, -1, -1.0), slices.Concat(one("metric", -2, -1.5), none)},
	{"less", `metric < 1.2e2`, one("metric", 15, 119.9), slices.Concat(one("metric", 120, 1e3), none)},
	{"at most", `metric <= 1`, one("metric", 1, -20, 1.0), slices.Concat(one("metric", 2, 1.1), none)},
	{"order of large integers and doubles is exact", `metric > 9007199254740992.0`, one("metric", 9007199254740993), one("metric", 9007199254740992)},
	{"order with fractions", `metric < 2.5`, one("metric", 2, -3), one("metric", 3)},
	{"order with negative fractions", `metric < -2.5`, one("metric", -3), one("metric", -2)},
	{"texts have no order", `state > 1`, one("state", 2), one("state", "2", true)},
	{"NaN has no order", `not (metric < 1) and not (metric >= 1)`, slices.Concat(one("metric", math.NaN(), "a"), none), one("metric", 0, 1)},

	// wildcards
	{"wildcard at the start, and a literal dot", `host =~ "%s."`, one("host", "s.", "foos."), slices.Concat(one("host", "a.", "s.murf", "sx"), none)},
	{"wildcard on both sides", `host =~ "%web%"`, one("host", "web", "a web b"), one("host", "wb", "WEB")},
	{"wildcard alone", `host =~ "%"`, one("host", "", "a\nb"), slices.Concat(one("host", 1, true), none)},
	{"no wildcard", `host =~ "a.b"`, one("host", "a.b"), one("host", "axb", "a.bc", "xa.b")},
	{"parts do not overlap", `host =~ "ab%ba"`, one("host", "abba", "ab ba"), one("host", "aba")},
	{"parts in order", `host =~ "a%b%c"`, one("host", "abc", "a bb c"), one("host", "acb", "abcd")},
	{"signs of regular expressions are literal in wildcards", `host =~ "[a](b)*+?^$|\\%"`, one("host", `[a](b)*+?^$|\`, `[a](b)*+?^$|\x`), one("host", "ab")},
	{"empty pattern", `host =~ ""`, one("host", ""), slices.Concat(one("host", "a"), none)},
	{"wildcards over several characters of Unicode", `host =~ "é%ü"`, one("host", "éü", "é磁ü"), one("host", "eu")},

	// regular expressions
	{"expression anywhere in the text", `host ~= "foo?[1-9]+"`, one("host", "foo19", "a fo42 b"), slices.Concat(one("host", "abc", "foo", "fooo42"), none)},
	{"anchors", `host ~= "^a.c$"`, one("host", "abc"), one("host", "abcd", "xabc", "a\nc")},
	{"escaped class", `host ~= "\\d\\.\\w+"`, one("host", "1.x"), one("host", "1x")},
	{"flag for upper and lower case", `host ~= "(?i)^WEB"`, one("host", "web1"), none},
	{"Unicode class", `host ~= "^\\p{L}+$"`, one("host", "磁盘é"), one("host", "a1")},
	{"quoted part", `host ~= "^\\Qa++(?=\\E$"`, one("host", "a++(?="), one("host", "aa")},
	{"possessive signs in a class are literal", `host ~= "^[*+?]+$"`, one("host", "*+?"), one("host", "a")},
	{"a literal brace is no quantifier", `host ~= "^a}+$"`, one("host", "a}}"), one("host", "a")},
	{"the end is after the last line break, unlike in Java", `host ~= "^a$"`, one("host", "a"), one("host", "a\n")},
	{"space without the vertical tab, unlike in Java", `host ~= "^\\s$"`, one("host", " ", "\t", "\n", "\f", "\r"), one("host", "\v", "\u00a0")},
	{"a point is no line feed, and every other end of a line, unlike in Java", `host ~= "^a.c$"`, one("host", "a\rc", "a\u2028c"), one("host", "a\nc")},
	{"a number does not match", `metric ~= "1"`, one("metric", "1"), one("metric", 1)},

	// tags
	{"tag", `tagged "cat"`, with(fields{"tags": "cat dog"}, fields{"tags": "cat"}), slices.Concat(with(fields{"tags": "dog"}, fields{"tags": ""}, fields{"tags": "cats"}), none)},
	{"tag and attribute", `paws = 4 and tagged "catz"`, with(fields{"paws": 4, "tags": "fuzzy catz"}), with(fields{"paws": 4, "tags": "fuzzy"}, fields{"paws": 3, "tags": "catz"}, fields{"tags": "catz"}, fields{"paws": 4})},

	// operators
	{"not binds most strongly", `not host = 1 and service = 2`, with(fields{"host": 3, "service": 2}), with(fields{"host": 1, "service": 2}, fields{"host": 3})},
	{"and binds more strongly than or", `host = 1 or host = 2 and service = 3`, with(fields{"host": 1}, fields{"host": 2, "service": 3}), with(fields{"host": 2}, fields{"service": 3})},
	{"or after and", `host = 1 and service = 2 or state = 3`, with(fields{"host": 1, "service": 2}, fields{"state": 3}), with(fields{"host": 1}, fields{"service": 2})},
	{"parentheses", `(host = 1 or host = 2) and service = 3`, with(fields{"host": 1, "service": 3}), with(fields{"host": 1}, fields{"service": 3})},
	{"not before parentheses", `not ((host = 1 or host = 2) and service = 3)`, slices.Concat(with(fields{"host": 1}, fields{"service": 3}), none), with(fields{"host": 2, "service": 3})},
	{"not twice", `not not state = 1`, one("state", 1), one("state", 2)},
	{"redundant parentheses", `((host = 1))`, one("host", 1), one("host", 2)},

	// form
	{"commas and line breaks separate", ",host\t=,1\r\n,and,,service = 2,", with(fields{"host": 1, "service": 2}), one("host", 1)},
	{"no spaces around operators", `(host="a")and(metric>=1)`, with(fields{"host": "a", "metric": 1}), one("host", "a")},
	{"names of attributes", `disk-use_1:y.z = 1 and größe? = 2`, with(fields{"disk-use_1:y.z": 1, "größe?": 2}), none},
	{"keywords are in lower case", `AND = 1 and Not = 2`, with(fields{"AND": 1, "Not": 2}), none},
	{"a name may begin with a keyword", `android = 1 or notes = 2 or nilly = 3`, with(fields{"android": 1}, fields{"notes": 2}, fields{"nilly": 3}), none},
}

func TestMatch(t *testing.T) {
	for _, c := range matchCases {
		t.Run(c.name, func(t *testing.T) {
			q, err := query.Parse(c.text)
			must.NoErrorf(t, err, "%s", c.text)
			if q.String() != c.text {
				t.Errorf("String is %s, want %s", q, c.text)
			}
			for _, e := range c.yes {
				if !q.Match(e) {
					t.Errorf("%s does not match %v", c.text, e.fields)
				}
			}
			for _, e := range c.no {
				if q.Match(e) {
					t.Errorf("%s matches %v", c.text, e.fields)
				}
			}
		})
	}
}
