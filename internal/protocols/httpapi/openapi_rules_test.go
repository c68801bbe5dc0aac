package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// schemaWords are the OpenAPI 3.0 schema keywords that the description uses. Another one is a
// mistake, such as a description with an unquoted comma.
var schemaWords = []string{
	"$ref", "additionalProperties", "allOf", "description", "enum", "example", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum",
	"minItems", "minLength", "minimum", "nullable", "oneOf", "pattern", "properties", "required", "type",
}

// TestSpecSuitsGenerators checks for constructs that client generators reject or misinterpret.
// test/cmd/openapi runs the generators.
func TestSpecSuitsGenerators(t *testing.T) {
	text := must.Get(specJSON())(t)
	var doc map[string]any
	must.NoError(t, json.Unmarshal(text, &doc))
	names := map[string]string{} // in lowercase: a Go generator makes one type of topic and Topic
	components, _ := doc["components"].(map[string]any)
	for _, section := range []string{"parameters", "responses", "schemas"} {
		members, _ := components[section].(map[string]any)
		for name := range members {
			if other, twice := names[strings.ToLower(name)]; twice {
				t.Errorf("components: %s/%s and %s have the same name", section, name, other)
			}
			names[strings.ToLower(name)] = section + "/" + name
		}
	}
	schemas, _ := components["schemas"].(map[string]any)
	for name, s := range schemas {
		checkSchema(t, "schemas/"+name, s)
	}
	checkSchemas(t, "paths", doc["paths"])
	checkSchemas(t, "parameters", components["parameters"])

	s, ids := readSpec(t), map[string]bool{}
	for path, ops := range s.Paths {
		for method, op := range ops {
			if op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s: operationId %q is missing or not unique", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
			want := []string{"400", "403"}
			if op.Security == nil {
				want = append(want, "401", "503")
			}
			for _, status := range want {
				if _, ok := op.Responses[status]; !ok {
					t.Errorf("%s %s: %s is not described", method, path, status)
				}
			}
		}
	}
}

// checkSchemas checks every schema below v.
func checkSchemas(t *testing.T, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			switch k {
			case "schema":
				checkSchema(t, at, inner)
			case "example", "examples":
			default:
				checkSchemas(t, at+"/"+k, inner)
			}
		}
	case []any:
		for i, inner := range v {
			checkSchemas(t, fmt.Sprintf("%s/%d", at, i), inner)
		}
	}
}

func checkSchema(t *testing.T, at string, v any) {
	t.Helper()
	s, ok := v.(map[string]any)
	if !ok {
		t.Errorf("%s: %v is not a schema", at, v)
		return
	}
	for k := range s {
		if !slices.Contains(schemaWords, k) && (k != "default" || strings.Contains(at, "/properties/") || strings.HasPrefix(at, "schemas/")) {
			t.Errorf("%s: %q is not an allowed keyword; a default makes a member required in TypeScript", at, k)
		}
	}
	kind, isText := s["type"].(string)
	if _, given := s["type"]; given && (!isText || kind == "null") {
		t.Errorf("%s: type %v: Go generators reject lists and null", at, s["type"])
	}
	properties, _ := s["properties"].(map[string]any)
	if _, open := s["additionalProperties"]; kind == "object" && len(properties) == 0 && !open && s["allOf"] == nil {
		t.Errorf("%s: an object without members must be empty in TypeScript", at)
	}
	if p, ok := s["pattern"].(string); ok {
		check.NoErrorf(t, check.Err(regexp.Compile(p)), "%s", at)
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := properties[fmt.Sprint(name)]; !ok {
			t.Errorf("%s: required member %v is not described", at, name)
		}
	}
	for name, p := range properties {
		checkSchema(t, at+"/properties/"+name, p)
	}
	for _, k := range []string{"items", "additionalProperties"} {
		if inner, ok := s[k].(map[string]any); ok {
			checkSchema(t, at+"/"+k, inner)
		}
	}
	for _, k := range []string{"oneOf", "allOf"} {
		inner, _ := s[k].([]any)
		for i, one := range inner {
			checkSchema(t, fmt.Sprintf("%s/%s/%d", at, k, i), one)
		}
	}
}

// TestSpecAndBrokerAgreeOnNames: the broker accepts exactly the names that match the patterns.
func TestSpecAndBrokerAgreeOnNames(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Pattern   string
				MaxLength int
			}
		}
	}
	text := must.Get(specJSON())(t)
	must.NoError(t, json.Unmarshal(text, &doc))
	checks := map[string]func(string) error{
		"TopicText": state.CheckTopicName, "GroupText": state.CheckGroupName,
		"TriggerText": func(s string) error {
			if s == "." || s == ".." {
				return fmt.Errorf("%q cannot be in a path", s)
			}
			return rule.CheckID(s)
		},
	}
	for _, schema := range slices.Sorted(maps.Keys(checks)) {
		s := doc.Components.Schemas[schema]
		pattern := regexp.MustCompile(s.Pattern)
		for _, name := range []string{
			"a", ".", "..", "...", ".a", "..a", "....", "a.", "-", "_", "a/b", "a b", "", "a\n", "é", "\x00", "\x7f", "a%", strings.Repeat("a", s.MaxLength),
			strings.Repeat("a", s.MaxLength+1), "." + strings.Repeat("a", s.MaxLength-1),
		} {
			described := pattern.MatchString(name) && len(name) <= s.MaxLength
			if allowed := checks[schema](name) == nil; allowed != described {
				t.Errorf("%s %q: described as allowed %v, allowed %v", schema, name, described, allowed)
			}
		}
	}
}
