package driplang_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestJSON(t *testing.T) {
	for _, c := range [][2]string{ // JSON, canonical text
		{`{"event":"A"}`, "A"},
		{
			`{"then":[{"event":"user_created"},{"within":{"not":{"event":"use_feature_x"}},"for":"7d"}]}`,
			"user_created THEN ((NOT use_feature_x) WITHIN 7d)",
		},
		{`{"then":[{"event":"A"},{"by":"1 hour","after":{"event":"B"}}]}`, "A THEN (B AFTER 1h)"},
		{`{"or":[{"and":[{"event":"A"},{"event":"B"}]},{"event":"a b"},{"event":"\u0041"}]}`, `(A AND B) OR "a b" OR A`},
		{`{"n":3,"count":{"where":{"property":"x","is":"<=","value":-1.50},"event":"A"},"is":">="}`, "count(A[x <= -1.5]) >= 3"},
		{
			`{"event":"A","where":{"or":[{"not":{"property":"a.\"b c\"","is":"!=","value":null}},` +
				`{"and":[{"property":"x","is":"=","value":"q"},{"property":"x","is":"=","value":true}]}]}}`,
			`A[(NOT a."b c" != null) OR (x = "q" AND x = true)]`,
		},
	} {
		e, err := driplang.ParseJSON([]byte(c[0]))
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		if e.String() != c[1] {
			t.Errorf("%s is %s, want %s", c[0], e, c[1])
		}
		check.NoErrorf(t, validate([]byte(c[0])), "%s: schema", c[0])
		roundTrip(t, e)
	}
}

// beyondSchema marks errors that a schema cannot express.
const beyondSchema = "*"

func TestJSONErrors(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 64) + `{"event":"A"}` + strings.Repeat("}", 64)
	deepFilter := `{"event":"A","where":` + strings.Repeat(`{"not":`, 16) + `{"property":"x","is":"=","value":1}` + strings.Repeat("}", 17)
	for _, c := range [][2]string{ // JSON, error
		{`{"then":[{"event":"A"},{"within":{"event":"B"}}]}`, `/then/1: "within" needs "for"`},
		{`{"then":[{"event":"A"},{"after":{"event":"B"},"for":"1d"}]}`, `/then/1: "after" needs "by"`},
		{`{"then":[{"event":"A"},{"within":{"event":"B"},"for":"1 parsec"}]}`, beyondSchema + "/then/1/for: unknown unit 'parsec'"},
		{`{"then":[{"event":"A"},{"within":{"event":"B"},"for":"1d,"}]}`, "/then/1/for: expected the end of the duration"},
		{`{"within":{"event":"B"},"for":"1d"}`, beyondSchema + ": WITHIN has no starting point"},
		{`{"and":[{"event":"A"},{"after":{"event":"B"},"by":"1d"}]}`, beyondSchema + "/and/1: AFTER has no starting point"},
		{`{"and":[{"event":"A"}]}`, "/and: expected two operands or more, found 1"},
		{`{"and":{"event":"A"}}`, "/and: expected an array, found an object"},
		{`{"not":"A"}`, "/not: expected an expression, an object, found a string"},
		{`{"event":7}`, "/event: expected a string, found a number"},
		{`{"event":""}`, "/event: an event name must not be empty"},
		{`{"event":"A","event":"B"}`, beyondSchema + "/event: duplicate member"},
		{`{"event":"A","not":{"event":"B"}}`, `/not: an expression has one operator, found "event" and "not"`},
		{`{"event":"A","for":"1d"}`, `/for: "for" is not allowed with "event"`},
		{`{"e~/v":1}`, "/e~0~1v: unknown member, expected one of event, count"},
		{`{"operator":"event_name","a":"A"}`, "/operator: this is the older form"},
		{`{}`, "expected one of event, count, not, and, or, then, within or after"},
		{`[]`, "expected an expression, an object, found an array"},
		{`null`, "expected an expression, an object, found null"},
		{`{"count":{"not":{"event":"A"}},"is":">=","n":3}`, "/count: only events can be counted"},
		{`{"count":{"event":"A"},"is":"=>","n":3}`, `/is: expected =, !=, <, <=, > or >=, found "=>"`},
		{`{"count":{"event":"A"},"is":">=","n":1001}`, "/n: expected a whole number from 0 to 1000, found '1001'"},
		{`{"count":{"event":"A"},"is":">=","n":"3"}`, "/n: expected a number, found a string"},
		{`{"count":{"event":"A"},"is":">=","n":0}`, beyondSchema + ": the comparison is always true: a count is >= 0"},
		{`{"event":"A","where":{"property":"x","is":"<","value":null}}`, beyondSchema + "/where: only numbers and strings have an order"},
		{`{"event":"A","where":{"property":"x y","is":"=","value":1}}`, beyondSchema + "/where/property: expected the end of the path, found 'y'"},
		{`{"event":"A","where":{"property":"x","is":"=","value":[1]}}`, "/where/value: expected a number, string, true, false or null, found an array"},
		{`{"event":"A","where":{"property":"x","is":"="}}`, `/where: "property" needs "value"`},
		{`{"event":"A","where":{"and":[{"property":"x","value":1}]}}`, `/where/and/0: "property" needs "is"`},
		{`{"event":"A","where":{}}`, "/where: expected one of property, and, or or not"},
		{`{"event":"A","where":{"event":"B"}}`, "/where/event: unknown member"},
		{`{"event":"A"`, "1:13: unexpected end of the JSON document"},
		{"{\n \"event\": A}", "2:11: invalid character 'A'"},
		{`{"event":"A"} x`, "1:15: invalid character 'x'"},
		{`{"event":"A"} {}`, "unexpected text after the expression"},
		{`{"event":"A"}]`, "unexpected text after the expression"},
		{"{\"event\":\"\xff\"}", "the text is not valid UTF-8"},
		{deep, beyondSchema + "/not/not"},
		{deepFilter, beyondSchema + "/where/not"},
		{strings.Repeat(" ", driplang.MaxJSON) + "{}", "the expression has 131074 bytes, the limit is 131072"},
	} {
		e, err := driplang.ParseJSON([]byte(c[0]))
		var fault *driplang.Error
		want, beyond := strings.CutPrefix(c[1], beyondSchema)
		if want, _ = strings.CutPrefix(want, ": "); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s: got %q, %v, want %s", c[0], e, err, want)
		}
		if json.Valid([]byte(c[0])) && utf8.ValidString(c[0]) && (validate([]byte(c[0])) == nil) != beyond {
			t.Errorf("%.80s: schema validation: %v", c[0], validate([]byte(c[0])))
		}
	}
}

func TestExprInJSON(t *testing.T) {
	var trigger struct {
		Expr driplang.Expr `json:"expr"`
	}
	text := `{"expr":{"not":{"event":"A"}}}`
	must.NoError(t, json.Unmarshal([]byte(text), &trigger))
	if again, err := json.Marshal(trigger); err != nil || string(again) != text {
		t.Errorf("%s, %v", again, err)
	}
	check.ErrorContains(t, json.Unmarshal([]byte(`{"expr":{"not":7}}`), &trigger), "/not: ")
	if none, err := json.Marshal(driplang.Expr{}); err != nil || string(none) != "null" {
		t.Errorf("the zero value is %s, %v", none, err)
	}
}

func TestParseOriginal(t *testing.T) {
	for _, c := range [][2]string{ // JSON, canonical text or error
		{`{"operator": "event_name", "a": "A"}`, "A"},
		{`{"a":"A","operator":"event_name"}`, "A"},
		{`{"operator":"not","a":{"operator":"event_name","a":"A"}}`, "NOT A"},
		{
			`{"operator":"then","a":{"operator":"or","a":{"operator":"event_name","a":"1"},"b":{"operator":"event_name","a":"2"}},` +
				`"b":{"operator":"after","d":"36000000000000","a":{"operator":"not","a":{"operator":"event_name","a":"3"}}}}`,
			`("1" OR "2") THEN ((NOT "3") AFTER 10h)`,
		},
		{`{"operator":"then","a":{"operator":"event_name","a":"A"},"b":{"operator":"after","a":{"operator":"event_name","a":"B"},"d":"42133742"}}`, "A THEN (B AFTER 43ms)"},
		{`{"operator":"then","a":{"operator":"event_name","a":"A"},"b":{"operator":"within","a":{"operator":"event_name","a":"B"},"d":"42133742"}}`, "A THEN (B WITHIN 42ms)"},
		{`{"operator":"after","a":{"operator":"event_name","a":"A"},"d":"0"}`, "A"},
		{`{"operator":"after","a":{"operator":"event_name","a":"A"},"d":"1"}`, "AFTER has no starting point"},
		{`{"operator":"within","a":{"operator":"event_name","a":"A"},"d":"0"}`, "a duration must be a millisecond or longer"},
		{`{"operator":"after","a":{"operator":"event_name","a":"A"},"d":7}`, "/d: expected a string, found a number"},
		{`{"operator":"after","a":{"operator":"event_name","a":"A"},"d":"7s"}`, `"d" must be nanoseconds as a string of digits, found "7s"`},
		{`{"operator":"after","a":{"operator":"event_name","a":"A"},"d":"9223372036854775807"}`, "the duration is longer than 10 years"},
		{`{"operator":"and","a":{"operator":"event_name","a":"A"}}`, `missing "b" of operator "and"`},
		{`{"operator":"not","a":{"operator":"event_name","a":"A"},"b":{"operator":"event_name","a":"A"}}`, `"b" is not allowed for operator "not"`},
		{`{"operator":"not","a":"A"}`, `"a" of operator "not" has the wrong type`},
		{`{"operator":"event_name","a":{"operator":"event_name","a":"A"}}`, `"a" of operator "event_name" has the wrong type`},
		{`{"operator":"xor","a":"A"}`, `unknown operator "xor"`},
		{`{"no_operation":1}`, "/no_operation: unknown member"},
		{`{}`, `unknown operator ""`},
		{`{"operator":"event_name","a":""}`, "an event name must not be empty"},
		{strings.Repeat(`{"operator":"not","a":`, 65) + `{}`, "operators are nested more than 64 deep"},
	} {
		e, err := driplang.ParseOriginal([]byte(c[0]))
		if err != nil && !strings.Contains(err.Error(), c[1]) || err == nil && e.String() != c[1] {
			t.Errorf("%.100s: got %q, %v, want %s", c[0], e, err, c[1])
		}
	}
}

// validate checks a document against the schema. It supports the few keywords that the schema uses.
func validate(text []byte) error {
	var root map[string]any
	if err := json.Unmarshal(driplang.Schema(), &root); err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return schema{root}.check(root, v)
}

type schema struct{ root map[string]any }

var errSchema = errors.New("does not fit the schema")

func (s schema) check(rule map[string]any, v any) error {
	if ref, ok := rule["$ref"].(string); ok {
		def := s.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		return s.check(def, v)
	}
	if one, ok := rule["oneOf"].([]any); ok {
		fits := 0
		for _, r := range one {
			if s.check(r.(map[string]any), v) == nil {
				fits++
			}
		}
		if fits != 1 {
			return errSchema
		}
		return nil
	}
	if enum, ok := rule["enum"].([]any); ok {
		for _, e := range enum {
			if e == v {
				return nil
			}
		}
		return errSchema
	}
	return s.checkType(rule, v)
}

func (s schema) checkType(rule map[string]any, v any) error {
	types, ok := rule["type"].([]any)
	if !ok {
		types = []any{rule["type"]}
	}
	for _, name := range types {
		switch v := v.(type) {
		case nil:
			if name == "null" {
				return nil
			}
		case bool:
			if name == "boolean" {
				return nil
			}
		case string:
			if name == "string" {
				return checkString(rule, v)
			}
		case float64:
			if name == "number" || name == "integer" && v >= rule["minimum"].(float64) && v <= rule["maximum"].(float64) {
				return nil
			}
		case []any:
			if name == "array" {
				return s.checkArray(rule, v)
			}
		case map[string]any:
			if name == "object" {
				return s.checkObject(rule, v)
			}
		}
	}
	return errSchema
}

func checkString(rule map[string]any, v string) error {
	least, _ := rule["minLength"].(float64)
	most, bounded := rule["maxLength"].(float64)
	pattern, _ := rule["pattern"].(string)
	n := float64(utf8.RuneCountInString(v))
	if n < least || bounded && n > most || !regexp.MustCompile(pattern).MatchString(v) {
		return errSchema
	}
	return nil
}

func (s schema) checkArray(rule map[string]any, v []any) error {
	if len(v) < int(rule["minItems"].(float64)) {
		return errSchema
	}
	for _, e := range v {
		if err := s.check(rule["items"].(map[string]any), e); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) checkObject(rule map[string]any, v map[string]any) error {
	properties := rule["properties"].(map[string]any)
	for _, key := range rule["required"].([]any) {
		if _, ok := v[key.(string)]; !ok {
			return errSchema
		}
	}
	for key, member := range v {
		sub, ok := properties[key].(map[string]any)
		if !ok || rule["additionalProperties"] != false {
			return errSchema
		}
		if err := s.check(sub, member); err != nil {
			return err
		}
	}
	return nil
}
