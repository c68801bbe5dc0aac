package input_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/test/check"
)

type Base struct {
	Plan string `json:"plan"`
}

type body struct {
	Base
	Name    string            `json:"name"`
	Count   int32             `json:"count"`
	At      *time.Time        `json:"at"`
	Rules   []Base            `json:"rules"`
	Headers map[string]string `json:"headers"`
	Raw     json.RawMessage   `json:"raw"`
	Data    json.RawMessage   `json:"data" input:"data"`
	hidden  string
}

func TestJSONFaultsNameTheMember(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]string{
		`{}`: "", " \ufeff{}": "line 1, column 2: invalid character 'ï' looking for beginning of value", "\ufeff {}": "",
		`{"plan":"a","name":"b","count":1,"at":"2026-01-01T00:00:00Z","rules":[{"plan":"x"}],"headers":{"A":"1","a":"2"},"raw":{"x":[1]},"data":null}`: "",
		`{"name":"a","name":"b"}`:                        "name: given twice",
		`{"name":"a","n\u0061me":"b"}`:                   "name: given twice",
		`{"rules":[{"plan":"a"},{"plan":"","plan":""}]}`: "rules[1].plan: given twice",
		`{"headers":{"A":"1","A":"2"}}`:                  "headers.A: given twice",
		`{"raw":{"x":[{"y":1,"y":2}]}}`:                  "raw.x[0].y: given twice",
		`{"Name":"a"}`:                                   "Name: unknown member; want name",
		`{"rules":[{"PLAN":"a"}]}`:                       "rules[0].PLAN: unknown member; want plan",
		`{"nome":"a"}`:                                   "nome: unknown member",
		`{"hidden":"a"}`:                                 "hidden: unknown member",
		`{"Base":{}}`:                                    "Base: unknown member",
		`{"":1}`:                                         `"": unknown member`,
		`{"a.b":1}`:                                      `"a.b": unknown member`,
		`{"` + strings.Repeat("x", 100) + `":1}`:         strings.Repeat("x", 64) + "...: unknown member",
		`{"name":"\ud800"}`:                              "name: half of a surrogate pair in a string",
		`{"name":"\udc00\ud800"}`:                        "name: half of a surrogate pair in a string",
		`{"name":"\ud83d\ude00 \\ud800"}`:                "",
		`{"headers":{"\ud800":"1"}}`:                     "headers.\ufffd: half of a surrogate pair in a name",
		`{"raw":["\ud800"]}`:                             "raw[0]: half of a surrogate pair in a string",
		`{"data":{"x":"\ud800","x":2}}`:                  "",
		`{"name":5}`:                                     "name: want a string, given a JSON number",
		`{"name":["s3cret"]}`:                            "name: want a string, given a JSON array",
		`{"rules":[{"plan":true}]}`:                      "rules[0].plan: want a string, given a JSON boolean",
		`{"rules":{}}`:                                   "rules: want an array, given a JSON object",
		`{"count":1.5}`:                                  "count: want a whole number, given 1.5",
		`{"count":2147483648}`:                           "count: want a whole number, given 2147483648",
		`{"count":"1"}`:                                  "count: want a whole number, given a JSON string",
		`{"at":"noon"}`:                                  `at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "noon"`,
		`{"at":"2026-01-01T00:00:00+24:00"}`:             `at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "2026-01-01T00:00:00+24:00"`,
		`{"at":5}`:                                       "at: want a string, given a JSON number",
		`{"name":null}`:                                  "name: must not be null; leave it out",
		`{"rules":[null]}`:                               "rules[0]: must not be null; leave it out",
		`{"at":null,"raw":null}`:                         "",
		`[]`:                                             "want an object, given a JSON array",
		``:                                               "empty",
		" \n":                                            "empty",
		`{} {}`:                                          "more than one JSON value",
		"{\n \"name\": x}":                               "line 2, column 10: invalid character 'x' looking for beginning of value",
		"{\"name\":\"\xff\"}":                            "not valid UTF-8",
		"{\x00}\x00":                                     "the text is UTF-16: convert it to UTF-8",
		"\xff\xfe{\x00":                                  "the text is UTF-16: convert it to UTF-8",
		`{"raw":` + nested(255) + `}`:                    "",
		`{"raw":` + nested(256) + `}`:                    "nested more than 256 deep",
		`{"data":` + nested(255) + `}`:                   "",
		`{"data":` + nested(256) + `}`:                   "data: objects and arrays are nested more than 256 deep",
	} {
		err := input.JSON([]byte(text), &body{hidden: "kept"}, input.NoNull)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
		if f, ok := errors.AsType[*input.Fault](err); err != nil && (!ok || !strings.Contains(f.Path, f.Name) || len(f.Path) > 400) {
			t.Errorf("%.100s: %#v", text, err)
		}
	}
	b := body{hidden: "kept"}
	check.NoErrorf(t, input.JSON([]byte(`{"plan":"p","name":null,"rules":null}`), &b, input.NullIsAbsent), "null is absent")
	check.Equalf(t, b.Plan+b.hidden, "pkept", "plan")
}

func TestJSONReadsTimes(t *testing.T) {
	type times struct {
		At   time.Time            `json:"at"`
		List []*time.Time         `json:"list"`
		By   map[string]time.Time `json:"by"`
		Raw  json.RawMessage      `json:"raw"`
	}
	var all times
	const text = `{"raw":"2016-12-31t00:00:00z", "at" : "2016-12-31t23:59:60z","list":[null,"\u0032026-01-01T00:00:00.5+01:00"],"by":{"x":"2026-01-01t00:00:00Z"}}`
	check.NoErrorf(t, input.JSON([]byte(text), &all, input.NullIsAbsent), "times")
	check.Equalf(t, string(all.Raw), `"2016-12-31t00:00:00z"`, "raw")
	check.Equalf(t, all.At.String()+all.List[1].UTC().String()+all.By["x"].String(),
		"2017-01-01 00:00:00 +0000 UTC2025-12-31 23:00:00.5 +0000 UTC2026-01-01 00:00:00 +0000 UTC", "times")
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ text, lines, values string }{
		{"", "", ""},
		{"a\n\nb", "1:a 2: 3:b", "1:a 3:b"},
		{"a\r\n\r\n\tb\r\n", "1:a 2: 3:\tb", "1:a 3:\tb"},
		{"a\r", "1:a", "1:a"},
		{"\ufeffa\nb", "1:\ufeffa 2:b", "1:a 2:b"},
		{"\ufeff\nb", "1:\ufeff 2:b", "2:b"},
		{"a\x00\n\xff\n", "1:a\x00 2:\xff", "1:a\x00 2:\xff"},
		{"a\n12345678\n", "1:a 2:12345678", "1:a 2:12345678"},
		{"a\n123456789\n", "1:a line 2: more than 8 bytes", "1:a line 2: more than 8 bytes"},
		{"a\n" + strings.Repeat("x", 1<<20), "1:a line 2: more than 8 bytes", "1:a line 2: more than 8 bytes"},
		{"\xff\xfea\x00\n\x00", "the text is UTF-16: convert it to UTF-8", "the text is UTF-16: convert it to UTF-8"},
		{"\xfe\xff\x00a\x00\n", "the text is UTF-16: convert it to UTF-8", "the text is UTF-16: convert it to UTF-8"},
	} {
		for _, values := range []bool{false, true} {
			for name, in := range map[string]io.Reader{"whole": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text))} {
				l := input.NewLines(in, 8)
				next, want := l.Next, c.lines
				if values {
					next, want = l.NextValue, c.values
				}
				var got []string
				for {
					line, err := next()
					if err == io.EOF {
						break
					}
					if err != nil {
						got = append(got, err.Error())
						break
					}
					got = append(got, string('0'+rune(l.Number()))+":"+string(line))
				}
				check.Equalf(t, strings.Join(got, " "), want, "%.40q, %s, values %t", c.text, name, values)
			}
		}
	}
}

func TestSkippedFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"a.yaml": false, "_a.yaml": false, "a~b.yaml": false, "folder/a.json": false, "a.b.yml": false,
		".a.yaml": true, "._a.yaml": true, ".#a.yaml": true, ".a.yaml.swp": true, "#a.yaml#": true, "a.yaml~": true, "~$a.yaml": true,
		"a.yaml.bak": true, "a.yaml.orig": true, "a.swp": true, "folder/.a.json": true,
	} {
		check.Equalf(t, input.Skipped(name), want, "%s", name)
	}
}

func TestReadText(t *testing.T) {
	for text, want := range map[string]string{
		"abc": "abc", "\ufeffabc": "abc", "": "", "abcdefgh": "abcdefgh", "abcdefghi": "more than 8 bytes", "\xff": "not valid UTF-8",
		"a\x00b\x00": "the text is UTF-16: convert it to UTF-8", "\x00a\x00b": "the text is UTF-16: convert it to UTF-8",
	} {
		got, err := input.ReadText(strings.NewReader(text), 8)
		if err != nil {
			got = []byte(err.Error())
		}
		check.Equalf(t, string(got), want, "%q", text)
	}
}

func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for text, want := range map[string]string{
		"key\r\n": "key\r\n", "\ufeffkey": "key", "\xff\xfek\x00": file + ": the text is UTF-16: convert it to UTF-8", "k\x00e\x00y\x00": file + ": the text is UTF-16: convert it to UTF-8",
		"\xff": file + ": not valid UTF-8", strings.Repeat("k", 1<<16+1): file + ": more than 65536 bytes",
	} {
		check.NoErrorf(t, os.WriteFile(file, []byte(text), 0o600), "write")
		got, err := input.KeyFile(file)
		if err != nil {
			got = err.Error()
		}
		check.Equalf(t, got, want, "%.20q", text)
	}
	if _, err := input.KeyFile("/dev/zero"); err == nil {
		t.Error("a file without an end was read")
	}
}
