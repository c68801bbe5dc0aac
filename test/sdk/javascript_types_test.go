package sdk

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// javascriptTypes are the schemas that the JavaScript SDK uses. Those that they refer to follow.
var javascriptTypes = []string{
	"DryRun", "DryRunProgress", "Event", "EventStored", "Explanation", "Firings", "Group", "LeaseRequest", "Message", "MessageResults", "OffsetCommits",
	"OffsetResults", "PlacedRecord", "Problem", "Produced", "Purged", "QueueMessages", "QueueSpec", "Queues", "RedriveRequest", "Redriven", "ScheduleSpec", "Schedules",
	"Settlements", "Stats", "Stored", "Topic", "TopicSpec", "TriggerSpec", "TriggerStored", "Triggers",
}

// TestJavaScriptTypesAreMade: sdk/js/src/types.ts has the types of the OpenAPI document. -update writes it.
func TestJavaScriptTypesAreMade(t *testing.T) {
	const file = "../../sdk/js/src/types.ts"
	packed := must.Get(os.Open("../../internal/protocols/httpapi/openapi.json.gz"))(t)
	defer packed.Close()
	var doc struct {
		Components struct{ Schemas map[string]*schema }
	}
	must.NoError(t, json.NewDecoder(must.Get(gzip.NewReader(packed))(t)).Decode(&doc))
	made := typescript(doc.Components.Schemas, javascriptTypes)
	if *sebtest.Update {
		must.NoError(t, os.WriteFile(file, []byte(made), 0o644))
		return
	}
	if got := must.Get(os.ReadFile(file))(t); string(got) != made {
		t.Error("sdk/js/src/types.ts is not what openapi.json.gz gives: run go test ./test/sdk -run JavaScriptTypes -update")
	}
}

// schema is the part of a schema of OpenAPI from which a type follows.
type schema struct {
	Ref                  string `json:"$ref"`
	Type, Description    string
	Enum                 []any
	Nullable             bool
	Properties           map[string]*schema
	Required             []string
	Items                *schema
	AllOf, OneOf         []*schema
	AdditionalProperties any // false, true or a schema
}

// typescript returns declarations of schemas and of those that they refer to.
func typescript(all map[string]*schema, names []string) string {
	var b strings.Builder
	b.WriteString("// Generated from the OpenAPI document by `go test ./test/sdk -run JavaScriptTypes -update`.\n")
	done := map[string]string{}
	for queue := slices.Clone(names); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if _, made := done[name]; !made {
			s := all[name]
			text := comment(s.Description, "")
			if len(s.Properties) > 0 {
				text += "export interface " + name + " " + s.typeOf("", &queue) + "\n"
			} else {
				text += "export type " + name + " = " + s.typeOf("", &queue) + ";\n"
			}
			done[name] = text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(done)) {
		b.WriteString("\n" + done[name])
	}
	return b.String()
}

// typeOf returns the type of a schema, and adds the schemas that it refers to.
func (s *schema) typeOf(indent string, more *[]string) string {
	text := s.typeOfValue(indent, more)
	if s.Nullable {
		text += " | null"
	}
	return text
}

func (s *schema) typeOfValue(indent string, more *[]string) string {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		*more = append(*more, name)
		return name
	}
	var kinds []string
	for _, v := range s.Enum {
		text, _ := json.Marshal(v)
		kinds = append(kinds, string(text))
	}
	for _, one := range slices.Concat(s.OneOf, s.AllOf) {
		kinds = append(kinds, one.typeOf(indent, more))
	}
	switch {
	case len(kinds) > 0 && len(s.AllOf) < 2:
		return strings.Join(kinds, " | ")
	case len(s.Properties) > 0:
		return s.members(indent, more)
	}
	switch s.Type {
	case "integer":
		return "number"
	case "array":
		item := s.Items.typeOf(indent, more)
		if strings.Contains(item, " | ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case "object":
		return "{ [name: string]: " + s.values(indent, more) + " }"
	case "":
		return "unknown"
	}
	return s.Type
}

// values returns the type of the members of an object that have no names.
func (s *schema) values(indent string, more *[]string) string {
	given, ok := s.AdditionalProperties.(map[string]any)
	if !ok {
		return "unknown"
	}
	var of schema
	text, _ := json.Marshal(given)
	if json.Unmarshal(text, &of) != nil {
		return "unknown"
	}
	return of.typeOf(indent, more)
}

func (s *schema) members(indent string, more *[]string) string {
	var b strings.Builder
	b.WriteString("{\n")
	inner := indent + "  "
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		optional := "?"
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		fmt.Fprintf(&b, "%s%s%s%s: %s;\n", comment(p.Description, inner), inner, name, optional, p.typeOf(inner, more))
	}
	b.WriteString(indent + "}")
	return b.String()
}

// comment returns a description as a comment.
func comment(text, indent string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "*/", "* /")), " ")
	if text == "" {
		return ""
	}
	return indent + "/** " + text + " */\n"
}
