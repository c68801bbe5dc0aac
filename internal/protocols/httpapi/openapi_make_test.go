package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestSpecIsMade: openapi.json.gz is what openapi.yaml, the table of routes and package api give.
// -update writes it.
func TestSpecIsMade(t *testing.T) {
	doc := makeSpec(t)
	want := must.Get(json.Marshal(doc))(t)
	if *sebtest.Update {
		var b bytes.Buffer
		z := must.Get(gzip.NewWriterLevel(&b, gzip.BestCompression))(t)
		must.Get(z.Write(want))(t)
		must.NoError(t, z.Close())
		must.NoError(t, os.WriteFile("openapi.json.gz", b.Bytes(), 0o644))
		return
	}
	if got := must.Get(specJSON())(t); !bytes.Equal(got, want) {
		t.Error("openapi.json.gz is not what its sources give: run go test ./internal/protocols/httpapi -run TestSpecIsMade -update")
	}
}

type object = map[string]any

// makeSpec completes openapi.yaml, whose head says with what. The schema of a struct of package api has
// its comment, its fields, and their comments, JSON names and directives such as //openapi:enum [a, b].
func makeSpec(t *testing.T) object {
	t.Helper()
	var doc object
	must.NoError(t, yaml.Unmarshal(must.Get(os.ReadFile("openapi.yaml"))(t), &doc))
	paths := doc["paths"].(object)
	for i := range routes {
		rt := &routes[i]
		path, _ := paths[rt.path].(object)
		if op, ok := path[strings.ToLower(rt.method)].(object); ok {
			completeOperation(op, rt)
		}
	}
	components := doc["components"].(object)
	m := &schemas{types: apiTypes(t), own: components["schemas"].(object), made: object{}}
	var codes []any
	for _, c := range slices.Sorted(maps.Keys(api.Statuses)) {
		codes = append(codes, c)
	}
	m.own["Code"].(object)["enum"] = codes
	m.follow(doc)
	m.make("DryRunProgress") // the data of events, which no schema refers to
	m.make("ScanProgress")
	components["schemas"] = m.made
	// Generated clients send the parts in this order.
	form := inside(paths, "/records", "post", "requestBody", "content", "multipart/form-data", "schema")
	parts := inside(form, "properties")
	sizes, records := must.Get(json.Marshal(parts["sizes"]))(t), must.Get(json.Marshal(parts["records"]))(t)
	form["properties"] = json.RawMessage(fmt.Sprintf(`{"sizes":%s,"records":%s}`, sizes, records))
	return doc
}

// inside returns the object below v with these names.
func inside(v object, names ...string) object {
	for _, name := range names {
		v = v[name].(object)
	}
	return v
}

func completeOperation(op object, rt *route) {
	if rights := rightsOf(rt.needs); rights != "" {
		op["x-rights"] = rights
	}
	errors := []any{400, 403}
	if rt.needsKey() {
		errors = append(errors, 401, 429, 500, 503)
	} else {
		op["security"] = []any{}
	}
	if rt.method != http.MethodGet {
		errors = append(errors, 405)
	}
	if op["requestBody"] != nil {
		errors = append(errors, 408)
	}
	listed, _ := op["errors"].([]any)
	delete(op, "errors")
	responses := op["responses"].(object)
	for _, status := range append(errors, listed...) {
		name := map[any]string{429: "Busy", 503: "Busy", 431: "HeadTooLarge"}[status]
		if name == "" {
			name = "Rejected"
		}
		responses[strconv.Itoa(status.(int))] = object{"$ref": "#/components/responses/" + name}
	}
	for _, r := range responses {
		completeResponse(r.(object))
	}
}

func completeResponse(r object) {
	for _, kind := range []string{"json", "state"} {
		name, ok := r[kind].(string)
		if !ok {
			continue
		}
		delete(r, kind)
		content := object{"schema": reference(name)}
		if example, ok := r["example"]; ok {
			content["example"] = example
			delete(r, "example")
		}
		r["content"] = object{"application/json": content}
		if kind == "state" {
			headers, _ := r["headers"].(object)
			r["headers"] = merge(object{"Seb-Epoch": object{"$ref": "#/components/headers/Epoch"}}, headers)
		}
	}
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// schemas makes the schemas of the description.
type schemas struct {
	types map[string]apiType
	own   object // of openapi.yaml, by name
	made  object
}

// apiType is a struct of package api.
type apiType struct {
	doc    string
	own    object // keywords
	fields *ast.FieldList
}

// renamed are the types whose schema has another name.
var renamed = map[string]string{"MatchedEvent": "WitnessEvent", "PartitionRecord": "PlacedRecord"}

// apiTypes returns the structs of package api by the names of their schemas.
func apiTypes(t *testing.T) map[string]apiType {
	t.Helper()
	types := map[string]apiType{}
	for _, file := range must.Get(filepath.Glob("../../../api/*.go"))(t) {
		for _, d := range must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments))(t).Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			spec := g.Specs[0].(*ast.TypeSpec)
			if s, ok := spec.Type.(*ast.StructType); ok {
				name := schemaName(spec.Name.Name)
				types[name] = apiType{strings.Replace(text(g.Doc.Text()), spec.Name.Name, name, 1), keywords(g.Doc), s.Fields}
			}
		}
	}
	return types
}

func schemaName(name string) string {
	if other, ok := renamed[name]; ok {
		return other
	}
	return name
}

// follow makes the schemas that v refers to.
func (m *schemas) follow(v any) {
	switch v := v.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); ok {
				m.make(name)
			}
		}
		for _, inner := range v {
			m.follow(inner)
		}
	case []any:
		for _, inner := range v {
			m.follow(inner)
		}
	}
}

func (m *schemas) make(name string) {
	if m.made[name] != nil {
		return
	}
	s, ok := m.own[name].(object)
	if !ok {
		t, ok := m.types[name]
		if !ok {
			panic("neither openapi.yaml nor package api has " + name)
		}
		s = object{"type": "object", "description": t.doc, "properties": object{}, "required": []any{}}
		m.members(s, t.fields)
		if len(s["required"].([]any)) == 0 {
			delete(s, "required")
		}
		s = merge(s, t.own)
	}
	m.made[name] = s
	m.follow(s)
}

// members adds the fields of a struct to a schema.
func (m *schemas) members(s object, fields *ast.FieldList) {
	for _, f := range fields.List {
		if f.Tag == nil { // embedded
			m.members(s, m.types[schemaName(f.Type.(*ast.Ident).Name)].fields)
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		name, options, _ := strings.Cut(tag, ",")
		p, isPointer := m.of(f.Type)
		own := keywords(f.Doc)
		if schema, ok := own["schema"].(string); ok {
			delete(own, "schema")
			p = reference(schema)
		}
		if options == "" {
			s["required"] = append(s["required"].([]any), name)
			if isPointer {
				p["nullable"] = true
			}
		}
		if d := text(f.Doc.Text() + " " + f.Comment.Text()); d != "" {
			if ref := p["$ref"]; ref != nil {
				p = object{"allOf": []any{object{"$ref": ref}}}
			}
			p["description"] = d
		}
		s["properties"].(object)[name] = merge(p, own)
	}
}

// keywords are the keywords in the directives of a comment, such as //openapi:maxItems 100.
func keywords(g *ast.CommentGroup) object {
	all := object{}
	if g == nil {
		return all
	}
	for _, c := range g.List {
		if line, ok := strings.CutPrefix(c.Text, "//openapi:"); ok {
			name, value, _ := strings.Cut(line, " ")
			var v any
			if err := yaml.Unmarshal([]byte(value), &v); err != nil {
				panic(fmt.Sprintf("%s: %v", c.Text, err))
			}
			all[name] = v
		}
	}
	return all
}

// of returns the schema of a Go type, and whether it is a pointer.
func (m *schemas) of(e ast.Expr) (s object, isPointer bool) {
	switch e := e.(type) {
	case *ast.StarExpr:
		s, _ = m.of(e.X)
		return s, true
	case *ast.ArrayType:
		s, _ = m.of(e.Elt)
		return object{"type": "array", "items": s}, false
	case *ast.MapType:
		s, _ = m.of(e.Value)
		return object{"type": "object", "additionalProperties": s}, false
	case *ast.SelectorExpr: // time.Time, json.RawMessage
		return maps.Clone(goKinds[e.Sel.Name]), false
	}
	name := e.(*ast.Ident).Name
	if s, ok := goKinds[name]; ok {
		return maps.Clone(s), false
	}
	return reference(schemaName(name)), false
}

// goKinds are the schemas of Go types.
var goKinds = map[string]object{
	"string": {"type": "string"}, "bool": {"type": "boolean"}, "float64": {"type": "number"},
	"int": {"type": "integer"}, "uint32": {"type": "integer"}, "int32": {"type": "integer", "format": "int32"},
	"int64": {"type": "integer", "format": "int64"}, "uint64": {"type": "integer", "format": "int64"},
	"Time": {"type": "string", "format": "date-time"}, "RawMessage": {"type": "object", "additionalProperties": true},
}

var space = regexp.MustCompile(`\s+`)

// text returns a comment as one line.
func text(comment string) string { return strings.TrimSpace(space.ReplaceAllString(comment, " ")) }

// merge returns a with the members of b, which replace those of a. A null removes one.
func merge(a, b object) object {
	for _, k := range slices.Sorted(maps.Keys(b)) {
		inner, isObject := b[k].(object)
		before, both := a[k].(object)
		switch {
		case b[k] == nil:
			delete(a, k)
		case isObject && both:
			a[k] = merge(before, inner)
		default:
			a[k] = b[k]
		}
	}
	return a
}
