package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/webhook"
)

const (
	typeText = "text/plain; charset=utf-8"
	typeHTML = "text/html"
	typeForm = "application/x-www-form-urlencoded"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.UTC)

func sample() *template.Message {
	return &template.Message{
		ID: "f1", Trigger: "welcome", Version: 3, Entity: "u7", At: noon, State: template.Fired, Attempt: 2,
		Witness: []webhook.Event{
			{Event: "signup", Time: noon.Add(-time.Hour), Offset: 40, Data: json.RawMessage(`{
				"name": "Ada \"A\" <ada@example.com>", "age": 36, "big": 12345678901234567890, "long": 0.1000000000000000000001, "tiny": 1e-400, "rate": 1.50, "vip": true, "none": null,
				"empty": "", "zero": 0, "tags": ["a","b"], "address": {"city": "Köln"}, "since": "2026-03-01T08:00:00+01:00"}`)},
			{Event: "signup", Time: noon.Add(-time.Minute), Offset: 41, Data: json.RawMessage(`{"name":"Grace","n":2}`)},
			{Event: "user.created", Time: noon, Offset: 42},
			{Event: "odd", Time: noon, Offset: 43, Data: json.RawMessage(`{"broken":`)},
			{Event: "list", Time: noon, Offset: 44, Data: json.RawMessage(`["x","y","z"]`)},
		},
	}
}

func names(m *template.Message) []string {
	var all []string
	for _, e := range m.Witness {
		all = append(all, e.Event)
	}
	return append(all, "never")
}

func TestTemplates(t *testing.T) {
	for _, tt := range []struct{ text, contentType, want string }{
		{"plain", typeText, "plain"},
		{"{{.Entity}} {{.Trigger}} {{.Version}} {{.ID}} {{.State}} {{.Attempt}}", typeText, "u7 welcome 3 f1 fired 2"},
		{"{{.At}}", typeText, "2026-05-01T12:00:00.123Z"},
		{"Hello {{.Witness.signup.Data.name}}", typeText, "Hello Grace"},
		{"{{(index .Witness 0).Data.name}}", typeText, `Ada "A" <ada@example.com>`},
		{"{{with index .Witness 0}}{{.Event}} {{.Offset}} {{.Time}} {{.Data.address.city}}{{end}}", typeText, "signup 40 2026-05-01T11:00:00.123Z Köln"},
		{`{{(index .Witness "user.created").Offset}}`, typeText, "42"},
		{`{{range $i, $e := .Witness}}{{if $i}},{{end}}{{$e.Offset}}{{end}}`, typeText, "40,41,42,43,44"},
		{`{{range .Witness}}{{if eq .Offset 42}}{{break}}{{end}}{{if eq .Event "x"}}{{continue}}{{end}}{{.Offset}};{{end}}`, typeText, "40;41;"},
		{`{{range .Witness.list.Data}}{{.}}{{else}}none{{end}}`, typeText, "xyz"},
		{`{{range (index .Witness 0).Data.none}}x{{else}}none{{end}}`, typeText, "none"},
		{`{{range $k, $v := (index .Witness 0).Data.address}}{{$k}}={{$v}}{{end}}`, typeText, "city=Köln"},
		{`{{len .Witness}} {{len "Köln"}} {{len (index .Witness 0).Data.tags}}`, typeText, "5 4 2"},
		{`{{.Witness.signup.Data.nick | default "you"}}`, typeText, "you"},
		{`{{default "you" .Witness.never.Data.name}}`, typeText, "you"},
		{`{{with index .Witness 0}}{{default "x" .Data.none}}{{default "x" .Data.empty}}{{default "x" .Data.zero}}{{default "x" .Data.vip}}{{end}}`, typeText, "xx0true"},
		{`{{if .Witness.never}}yes{{else if .Witness.signup.Data.nick}}maybe{{else}}no{{end}}`, typeText, "no"},
		{`{{with .Witness.never}}yes{{else}}no{{end}}`, typeText, "no"},
		{`{{if and .Witness.signup (not .Witness.never)}}yes{{end}}{{if or .Witness.never .Entity}}yes{{end}}`, typeText, "yesyes"},
		{`{{with index .Witness 0}}{{.Data.big}} {{.Data.rate}} {{.Data.vip}}{{end}}`, typeText, "12345678901234567890 1.50 true"},
		{`{{with (index .Witness 0).Data}}{{eq .age 36}} {{ne .age 36.0}} {{lt .age 37}} {{ge .rate 1.5}} {{gt "b" "a"}} {{le 2 1}} {{eq .age "36"}} {{eq "x" "y" "x"}}{{end}}`, typeText, "true false true true true false false true"},
		{`{{lt (index .Witness 0).Time .At}}`, typeText, "true"},
		{`{{with (index .Witness 0).Data}}{{.big}} {{.long}} {{eq .big 12345678901234567891}} {{lt .big 12345678901234567892}} {{eq .long 0.1}} {{gt .long 0.1}} {{if .tiny}}not 0{{end}}{{if .zero}}0{{end}}{{end}}`, typeText, "12345678901234567890 0.1000000000000000000001 false true false true not 0"},
		{`{{12345678901234567891}} {{1.50}} {{1e3}} {{0.10000000000000000001}}`, typeText, "12345678901234567891 1.5 1000 0.10000000000000000001"},
		{`{{(index .Witness 0).Data.tags}} {{json .Entity}}`, typeText, `["a","b"] "u7"`},
		{`{{join ", " (index .Witness 0).Data.tags}}`, typeText, "a, b"},
		{`{{upper "é"}}{{lower "É"}}{{trim "  x "}}`, typeText, "Éé" + "x"},
		{`{{truncate 3 "Köln"}} {{truncate 4 "Köln"}} {{"abc" | truncate 1}}`, typeText, "Kö… Köln …"},
		{`{{date "2.1.2006 15:04:05" "2016-12-31t23:59:60z"}}`, typeText, "1.1.2017 00:00:00"},
		{`{{date "2.1.2006 15:04" "Europe/Berlin" .At}} {{.At | date "2006"}} {{(index .Witness 0).Data.since | date "15:04" "UTC"}}`, typeText, "1.5.2026 14:00 2026 07:00"},
		{`{{urlquery "a b&c"}} {{html "<b>"}}`, typeText, "a+b%26c &lt;b&gt;"},
		{`{{$x := "a"}}{{range .Witness}}{{$x = .Event}}{{end}}{{$x}}`, typeText, "list"},
		{`{{range .Witness}}{{$.Entity}}{{break}}{{end}}`, typeText, "u7"},
		{"a {{- /* gone */ -}} b", typeText, "ab"},

		{`{"to": "{{(index .Witness 0).Data.name}}"}`, "", `{"to": "Ada \"A\" <ada@example.com>"}`},
		{`{"to": {{json (index .Witness 0).Data.name}}, "n": {{(index .Witness 0).Data.age}}}`, "", `{"to": "Ada \"A\" <ada@example.com>", "n": 36}`},
		{`{{json (index .Witness 0).Data.address}}`, "application/vnd.x+json", `{"city":"Köln"}`},
		{`{{json (index .Witness 2)}}`, "", `{"event":"user.created","time":"2026-05-01T12:00:00.123Z","offset":42}`},
		{`{"x": {{json (index .Witness 0).Data.none}}}`, "", `{"x": null}`},
		{`<p title="{{(index .Witness 0).Data.name}}">`, typeHTML, `<p title="Ada &#34;A&#34; &lt;ada@example.com&gt;">`},
		{`{{html "<b>"}}{{json "<b>"}}<a href="?q={{urlquery "a&b"}}">`, typeHTML, `&lt;b&gt;&#34;&lt;b&gt;&#34;<a href="?q=a%26b">`},
		{`to={{(index .Witness 0).Data.name}}&x={{urlquery "a b"}}`, typeForm, `to=Ada+%22A%22+%3Cada%40example.com%3E&x=a+b`},
	} {
		contentType := tt.contentType
		if contentType == "" {
			contentType = template.TypeJSON
		}
		m := sample()
		tmpl, err := template.ParseTemplate(tt.text, contentType, names(m))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		for range 2 { // reusable, and the message is unchanged
			got, err := tmpl.Execute(m)
			if err != nil || string(got) != tt.want {
				t.Errorf("%s:\n got %s, %v\nwant %s", tt.text, got, err, tt.want)
			}
		}
	}
}

func TestFaultsKnownAtCreation(t *testing.T) {
	deep := strings.Repeat("{{if 1}}", 101) + strings.Repeat("{{end}}", 101)
	for _, tt := range []struct{ text, want string }{
		{"a\n{{.Entity", "2:1: unclosed action"},
		{"{{.Entity}} {{if}}x{{end}} {{.At}}", "1:13: missing value for if"},
		{"{{if .At}}", "1:11: unexpected EOF: an if, range or with has no {{end}}"},
		{"x {{end}}", "1:3: unexpected {{end}}"},
		{"ö {{\"abc}}", "1:3: unterminated quoted string"},
		{"{{$x}}", `1:1: undefined variable "$x"`},
		{"{{/* x }}", "1:1: unclosed comment"},
		{"ab\n  {{ .Entity | upcase }}", `2:16: unknown function "upcase"; functions: and, date, default,`},
		{`{{printf "%d" 1}}`, `1:3: unknown function "printf"`},
		{`{{call .At}}`, `1:3: unknown function "call"`},
		{`{{eq (foo) 1}}`, `1:7: unknown function "foo"`},
		{"{{truncate 3}}", "1:3: truncate: 1 arguments, want LENGTH TEXT"},
		{"{{upper}}", "1:3: upper: 0 arguments, want TEXT"},
		{"{{not 1 2}}", "1:3: not: 2 arguments, want VALUE"},
		{"{{.Entity | .At}}", `1:13: ".At" is not a function`},
		{"{{.entity}}", "1:3: unknown field .entity; fields: .ID, .Trigger,"},
		{"{{.Entity.Name}}", "1:3: .Entity has no fields"},
		{"{{.Witness.sign.Data}}", `1:3: event "sign" is not in the trigger's expression; events: signup`},
		{"{{range .Witness}}{{$.Witness.sign.Data}}{{end}}", `1:21: event "sign"`},
		{"{{with .At}}{{.foo}}{{else}}{{.foo}}{{end}}", "1:31: unknown field .foo"},
		{`{{(index .Witness "sign").Data}}`, `1:19: event "sign"`},
		{"{{.Witness.signup.Name}}", "1:3: unknown event field .Name; fields: .Event, .Time, .Offset, .Data"},
		{"{{.Witness.signup.Time.Year}}", "1:3: event field .Time has no fields"},
		{`{{date "2006" "Europe/Nowhere" .At}}`, `1:15: date: zone: unknown time zone "Europe/Nowhere"`},
		{`{{.At | date "2006" "Local"}}`, `1:21: date: zone: invalid time zone "Local"`},
		{"{{nil}}", "1:3: nil is not available"},
		{"{{eq .At nil}}", "1:10: nil is not available"},
		{"{{eq 1 'a'}}", "1:8: want an integer or a decimal number"},
		{"{{eq 1 1i}}", "1:8: want an integer"},
		{`{{define "x"}}{{end}}`, "define, block and template are not available"},
		{`{{block "x" .}}{{end}}`, "define, block and template are not available"},
		{`{{template "x"}}`, "1:12: define, block and template are not available"},
		{deep, "nested more than 100 deep"},
		{"{{" + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + "}}", "nested more than 100 deep"},
		{strings.Repeat("x", template.TemplateBytesMax+1), "65537 bytes, limit 65536"},
		{"\xff", "not UTF-8"},
	} {
		_, err := template.ParseTemplate(tt.text, typeText, []string{"signup", "login"})
		if _, ok := errors.AsType[*template.TemplateError](err); !ok || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
	check.NoErrorf(t, check.Err(template.ParseTemplate("{{.Witness.any.Data.x}}", typeText, nil)), "without a list of events")
}

func TestFaultsWithAMessage(t *testing.T) {
	for _, tt := range []struct{ text, contentType, want string }{
		{"Hi\n{{.Witness.signup.Data.nick}}", typeText, "2:3: .Witness.signup.Data.nick is missing"},
		{"{{.Witness.signup.Data.address.city}}", typeText, ".Witness.signup.Data.address is missing"},
		{"{{.Witness.never.Data.x}}", typeText, ".Witness.never is missing"},
		{`{{index .Witness 9}}`, typeText, "element 9 of 5 is missing"},
		{`{{index .Witness -1}}`, typeText, "element -1 of 5 is missing"},
		{`{{index .Witness.list.Data "x"}}`, typeText, "1:3: index: want an integer index for a list"},
		{`{{(index .Witness "user.created").Data.x}}`, typeText, `the data of "user.created" is missing`},
		{`{{.Witness.odd.Data.x}}`, typeText, `the data of "odd" is not JSON: unexpected EOF`},
		{`{{with (index .Witness 0).Data}}{{.none}}{{end}}`, typeText, "1:35: value is null"},
		{`{{(index .Witness 0).Data.none.x}}`, typeText, "(…).Data.none is null"},
		{`{{(index .Witness 0).Data.name.x}}`, typeText, "a string has no fields"},
		{`{{upper .Witness.signup.Data}}`, typeText, "1:3: upper: want a string, got an object"},
		{`{{upper .Witness.signup.Data.nick}}`, typeText, "1:3: .Witness.signup.Data.nick is missing"},
		{`{{lt "a" 1}}`, typeText, "lt: a string and a number cannot be compared"},
		{`{{range 5}}{{end}}`, typeText, "want a list or an object, got a number"},
		{`{{range .Witness.never}}{{end}}`, typeText, ".Witness.never is missing"},
		{`{{truncate 0 "x"}}`, typeText, "want a length of 1 or more"},
		{`{{date "2006" "yesterday"}}`, typeText, "want a time"},
		{`{{date "2006" "2026-03-01T12:00:00,5Z"}}`, typeText, "want a time"},
		{`{{range .Witness}}{{.Foo}}{{end}}`, typeText, "unknown event field .Foo"},
		{`{"x": {{.Witness.signup.Data}}}`, template.TypeJSON, "value is an object: write it with json"},
		{`{"x": {{.Entity}}}`, template.TypeJSON, "the output is not valid JSON: invalid character 'u'"},
		{`{"x": "{{.Entity}}}`, template.TypeJSON, "the output is not valid JSON"},
		{``, template.TypeJSON, "the output is not valid JSON"},
	} {
		m := sample()
		err := template.Check(tt.text, tt.contentType, nil, m)
		if _, ok := errors.AsType[*template.TemplateError](err); tt.text != "" && (!ok || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.60s:\n got %v\nwant %s", tt.text, err, tt.want)
		}
		if again := template.Check(tt.text, tt.contentType, nil, m); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("%.60s: first %v, then %v", tt.text, err, again)
		}
	}
}

// TestEscaping: no event data can change the structure of a template's JSON or HTML.
func TestEscaping(t *testing.T) {
	for _, value := range []string{`","admin":true,"x":"`, `\`, "\n\x00", "\u2028", `"}`, "</script>", "<b>", `" onclick="x`, "&amp;", "\ufffd"} {
		data := must.Get(json.Marshal(map[string]any{"name": value, "tags": []any{value, value}}))(t)
		m := sample()
		m.Witness = []webhook.Event{{Event: "e", Data: data}}
		out := execute(t, `{"name": "{{.Witness.e.Data.name}}", "short": "{{truncate 100 .Witness.e.Data.name}}"}`, template.TypeJSON, m)
		var got map[string]string
		if err := json.Unmarshal(out, &got); err != nil || len(got) != 2 || got["name"] != value || got["short"] != value {
			t.Errorf("%q: %s: %v, %v", value, out, got, err)
		}
		out = execute(t, `<a title="{{.Witness.e.Data.name}}">`, typeHTML, m)
		if strings.Count(string(out), "<") != 1 || strings.Count(string(out), `"`) != 2 {
			t.Errorf("%q: %s", value, out)
		}
		check.Error(t, template.Check(`{"name": "{{.Witness.e.Data.tags}}"}`, template.TypeJSON, nil, m), "%q: a list between quotes is accepted", value)
	}
}

func execute(t testing.TB, text, contentType string, m *template.Message) []byte {
	t.Helper()
	tmpl := must.Get(template.ParseTemplate(text, contentType, nil))(t)
	out := must.Get(tmpl.Execute(m))(t)
	return out
}

// TestExecutionIsBounded: templates and data that would produce unlimited output or work.
func TestExecutionIsBounded(t *testing.T) {
	list := "[" + strings.Repeat("1,", 100_000) + "1]"
	object := make(map[string]int)
	for i := range 20_000 {
		object[fmt.Sprint(i)] = i
	}
	large := must.Get(json.Marshal(object))(t)
	m := sample()
	m.Witness = []webhook.Event{
		{Event: "l", Data: json.RawMessage(list)},
		{Event: "o", Data: large},
		{Event: "s", Data: json.RawMessage(`"` + strings.Repeat("é", 100_000) + `"`)},
		{Event: "few", Data: json.RawMessage("[" + strings.Repeat("1,", 2000) + "1]")},
		{Event: "n", Data: json.RawMessage("0." + strings.Repeat("0", 100_000) + "1")},
	}
	for _, tt := range []struct{ text, want string }{
		{`{{range .Witness.l.Data}}{{range $.Witness.l.Data}}{{range $.Witness.l.Data}}{{end}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.few.Data}}{{range $.Witness.o.Data}}{{break}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.few.Data}}{{if eq $.Witness.s.Data "x"}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.few.Data}}{{if $.Witness.n.Data}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.few.Data}}{{if $.Witness.s.Data | upper | lower}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.few.Data}}{{if json $.Witness.o.Data}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.few.Data}}{{if date "2006" "Europe/Berlin" $.At}}{{end}}{{end}}`, "more than 100000 steps"},
		{`{{range .Witness.l.Data}}` + strings.Repeat("x", 1000) + `{{end}}`, "the body exceeds 256 KiB"},
		{`{{.Witness.s.Data}}{{.Witness.s.Data}}`, "the body exceeds 256 KiB"},
		{`{{join .Witness.s.Data .Witness.l.Data}}`, "exceeds 262144 bytes"},
		{`{{range .Witness.l.Data}}{{$x := 1}}{{end}}ok`, "more than 100000 steps"},
		{strings.Repeat("{{$x := 1}}", 1100), "more than 1000 variables"},
	} {
		start := time.Now()
		err := template.Check(tt.text, typeText, nil, m)
		t.Logf("%.80s: %v", tt.text, time.Since(start))
		check.ErrorContainsf(t, err, tt.want, "%.80s", tt.text)
	}
	m.Witness = []webhook.Event{{Event: "l", Data: make([]byte, template.WitnessBytesMax+1)}}
	check.ErrorContainsf(t, template.Check("x", typeText, nil, m), "1048577 bytes of data", "too much data")
}

// FuzzTemplate: no panic, a repeatable result, an error position inside the text, and bounded
// output.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		`{{range $i, $e := .Witness}}{{if $i}},{{end}}{{$e.Offset}}{{end}}`, `{{default "x" .Witness.a.Data.b | json}}`,
		`{{with index .Witness 0}}{{.Data.name | upper | truncate 3}}{{else}}{{break}}{{end}}`, `{{date "2006" "UTC" .At}}{{html .Entity}}`,
		`{{$x := .Witness.signup.Data}}{{$x.address.city}}{{(index $x.tags 1)}}{{join "," $x.tags}}{{eq $x.age 36 1.5}}`,
		"{{- /* */ -}}{{\"\\u00e9\" | urlquery}}{{`raw`}}{{and 1 .At | not}}", `{{if}}`, `{{((((1))))}}`, "{{.Entity", `{{block "t" .}}{{end}}`,
	} {
		f.Add(text, `{"name":"x","tags":["a"],"age":36}`, uint8(0))
	}
	types := []string{template.TypeJSON, typeText, typeHTML, typeForm}
	f.Fuzz(func(t *testing.T, text, data string, kind uint8) {
		contentType := types[int(kind)%len(types)]
		tmpl, err := template.ParseTemplate(text, contentType, nil)
		if err != nil {
			placed, ok := errors.AsType[*template.TemplateError](err)
			if !ok || placed.Line > strings.Count(text, "\n")+1 || placed.Col > len(text)+1 || (placed.Line > 0) != (placed.Col > 0) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		m := sample()
		m.Witness[1].Data = json.RawMessage(data)
		out, err := tmpl.Execute(m)
		again, errAgain := tmpl.Execute(m)
		if string(out) != string(again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("%q: first %q, %v, then %q, %v", text, out, err, again, errAgain)
		}
		if len(out) > template.BytesMax || err == nil && contentType == template.TypeJSON && !json.Valid(out) {
			t.Fatalf("%q: %d bytes: %.100q", text, len(out), out)
		}
	})
}
