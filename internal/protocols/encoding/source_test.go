package encoding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

const testNow = 1_700_000_000_000

// records reads all records of a source as text that distinguishes null from empty.
func records(t *testing.T, s Source) (out []string, fault *api.Problem) {
	t.Helper()
	for {
		rec, p := s.Next()
		if p != nil || rec == nil {
			return out, p
		}
		out = append(out, show(rec))
	}
}

func show(r *record.Record) string {
	var b strings.Builder
	null := func(v []byte) string {
		if v == nil {
			return "null"
		}
		return fmt.Sprintf("%q", v)
	}
	fmt.Fprintf(&b, "%s=%s", null(r.Key), null(r.Value))
	if r.Timestamp != testNow {
		fmt.Fprintf(&b, " @%d", r.Timestamp)
	}
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %s:%s", h.Key, null(h.Value))
	}
	return b.String()
}

func TestJSONRecords(t *testing.T) {
	for body, want := range map[string]string{
		`{"value":"a"}`: `null="a"`,
		` [ {"value":"a"} , {"value":""},{"value":null,"key":"k"} ] `: `null="a"; null=""; "k"=null`,
		`[]`: ``,
		` { "records" : [ {"value":"a"} , {"value":"b"} ] } `: `null="a"; null="b"`,
		`{"records":[]}`: ``,
		`{"value_base64":"AP/+","key_base64":"aw=="}`:             `"k"="\x00\xff\xfe"`,
		`{"key":null,"value":"\u00e9\n\"\\\/\ud83d\ude00\u0000"}`: `null="é\n\"\\/😀\x00"`,
		`{"value":"é😀"}`:                                          `null="é😀"`,
		`{"value":"v","timestamp":5}`:                             `null="v" @5`,
		`{"value":"v","timestamp":null}`:                          `null="v"`,
		`{"value":"v","timestamp":"1970-01-01T00:00:01.5+00:00"}`: `null="v" @1500`,
		`{"value":"v","timestamp":"1972-06-30t23:59:60z"}`:        `null="v" @78796800000`,
		`{"value":"v","headers":{"b":"1","a":null,"b":""}}`:       `null="v" b:"1" a:null b:""`,
		`{"value":"v","headers":[{"key":"a","value":"1"},{"key":"a","value_base64":"/w=="},{"key":"z"}]}`:                         `null="v" a:"1" a:"\xff" z:null`,
		`{"value":"v","headers":[{"key":"a","value":null,"value_base64":"/w=="},{"key":"b","value_base64":"/w==","value":null}]}`: `null="v" a:"\xff" b:"\xff"`,
		`{"value":"v","headers":null}`: `null="v"`,
		`{"value":"v","headers":[]}`:   `null="v"`,
		`{"\u0076alue":"v"}`:           `null="v"`,
	} {
		got, fault := records(t, NewJSON([]byte(body), testNow))
		if fault != nil || strings.Join(got, "; ") != want {
			t.Errorf("%s: got %s (%v), want %s", body, strings.Join(got, "; "), fault, want)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	many := `{"value":"v","headers":{` + strings.Repeat(`"a":"",`, record.HeadersMax) + `"a":""}}`
	for body, field := range map[string]string{
		``:                                    "body",
		`x`:                                   "body",
		`"text"`:                              "body",
		`null`:                                "body",
		`{"value":"a"} {"value":"b"}`:         "body",
		`[{"value":"a"}] x`:                   "body",
		`[{"value":"a"},]`:                    "body",
		`[{"value":"a"} {"value":"b"}]`:       "body",
		`[{"value":"a"}`:                      "body",
		`{"value":"a"`:                        "body",
		`{"value":"a",}`:                      "body",
		`{"value" "a"}`:                       "body",
		`{value:"a"}`:                         "body",
		`{}`:                                  "value",
		`{"key":"k"}`:                         "value",
		`{"value":1}`:                         "value",
		`{"value":{"a":1}}`:                   "value",
		`{"value":"a","value":"b"}`:           "value",
		`{"value":"a","value_base64":"YQ=="}`: "value_base64",
		`{"value_base64":"a"}`:                "value_base64",
		`{"value_base64":"YQ"}`:               "value_base64",
		`{"value":"a","topic":"b"}`:           `"topic"`,
		`{"value":"a","Key":"b"}`:             `"Key"`,
		`{"value":"` + "\xff" + `"}`:          "value",
		`{"value":"\n` + "\xff" + `"}`:        "value",
		`{"value":"` + "\n" + `"}`:            "value",
		`{"value":"\t` + "\n" + `"}`:          "value",
		`{"value":"\ud83d"}`:                  "value",
		`{"value":"\ud83dx"}`:                 "value",
		`{"value":"\ude00\ud83d"}`:            "value",
		`{"value":"\u12g4"}`:                  "value",
		`{"value":"\x"}`:                      "value",
		`{"value":"a`:                         "value",
		`{"value":"a\`:                        "value",
		`{"value":"a\u00`:                     "value",
		`{"value":"a","timestamp":-1}`:        "timestamp",
		`{"value":"a","timestamp":1.5}`:       "timestamp",
		`{"value":"a","timestamp":1e3}`:       "timestamp",
		`{"value":"a","timestamp":01}`:        "timestamp",
		`{"value":"a","timestamp":"today"}`:   "timestamp",
		`{"value":"a","timestamp":"2026-03-01T12:00:00,5Z"}`:    "timestamp",
		`{"value":"a","timestamp":"2026-03-01T12:00:00+24:00"}`: "timestamp",
		`{"value":"a","timestamp":99999999999999999999}`:        "timestamp",
		`{"value":"a","timestamp":1,"timestamp":1}`:             "timestamp",
		`{"value":"a","headers":1}`:                             "headers",
		`{"value":"a","headers":{"a":1}}`:                       "headers",
		`{"value":"a","headers":[{"value":"1"}]}`:               "headers",
		`{"value":"a","headers":[{"key":null}]}`:                "headers",
		`{"value":"a","headers":[{"key":"a","x":"1"}]}`:         `"x"`,
		`{"value":"a","headers":[1]}`:                           "body",
		`{"value":"a","headers":[{"key":"a"}`:                   "headers",
		many:                                                    "headers",
	} {
		_, fault := records(t, NewJSON([]byte(body), testNow))
		if fault == nil || fault.Field != field || fault.Code != api.BadRequest {
			t.Errorf("%.80s: got %v (field %q), want a fault of %s", body, fault, fieldOf(fault), field)
		}
	}
}

func TestNDJSONRecords(t *testing.T) {
	got, fault := records(t, NewNDJSON([]byte("{\"value\":\"a\"}\n\r\n  \n{\"value\":\"b\",\"key\":\"k\"}\r\n{\"value\":null}"), testNow))
	if want := `null="a"; "k"="b"; null=null`; fault != nil || strings.Join(got, "; ") != want {
		t.Errorf("got %s (%v), want %s", strings.Join(got, "; "), fault, want)
	}
	for _, body := range []string{"{\"value\":\"a\"} {\"value\":\"b\"}\n", "{\"value\":\n\"a\"}", "[{\"value\":\"a\"}]", "null"} {
		if _, fault := records(t, NewNDJSON([]byte(body), testNow)); fault == nil {
			t.Errorf("%q was accepted", body)
		}
	}
}

func TestTextLines(t *testing.T) {
	for body, want := range map[string]string{
		"":              "",
		"a":             `null="a"`,
		"a\n":           `null="a"`,
		"a\n\nb":        `null="a"; null=""; null="b"`,
		"a\r\nb\r\n":    `null="a"; null="b"`,
		"a\rb\n\xff":    `null="a\rb"; null="\xff"`,
		"\n":            `null=""`,
		" a \n\t\n\r\n": `null=" a "; null="\t"; null=""`,
	} {
		got, fault := records(t, NewLines([]byte(body), testNow))
		if fault != nil || strings.Join(got, "; ") != want {
			t.Errorf("%q: got %s (%v), want %s", body, strings.Join(got, "; "), fault, want)
		}
	}
}

func TestRecordJSONRoundTrip(t *testing.T) {
	for _, r := range []record.Record{
		{Offset: 7, Timestamp: 5},
		{Offset: 1 << 40, Timestamp: 5, Key: []byte{}, Value: []byte{}},
		{Timestamp: 5, Key: []byte("k\u2028\"\\\n\r\t\x01é😀"), Value: []byte{0, 255}},
		{Timestamp: 5, Value: []byte("v"), Headers: []record.Header{{Key: "a"}, {Key: "a", Value: []byte{255}}, {Key: "", Value: []byte("\x1f")}}},
	} {
		text := appendRecordJSON(nil, &r, nil)
		if len(text) > recordJSONMax(&r) {
			t.Errorf("%s: %d bytes, bound %d", text, len(text), recordJSONMax(&r))
		}
		var out api.Record
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&out); err != nil || out.Offset != r.Offset {
			t.Fatalf("%s: %v", text, err)
		}
		_, rest, _ := strings.Cut(string(text), ",")
		got, fault := records(t, NewJSON([]byte("{"+rest), testNow))
		if fault != nil || len(got) != 1 || got[0] != show(&r) {
			t.Errorf("%s: read back %v (%v), want %s", text, got, fault, show(&r))
		}
	}
}

// FuzzJSONRecord checks that accepted records equal those of encoding/json, if it accepts them too.
func FuzzJSONRecord(f *testing.F) {
	for _, s := range []string{
		`{"value":"a","key":"\u00e9"}`, `[{"value":"","timestamp":5},{"value":null}]`, `{"value_base64":"AP/+","headers":{"a":"b"}}`,
		`{"value":"\ud83d\ude00","headers":[{"key":"a","value":"1"}]}`, `{"value":"a","timestamp":"2020-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		original := bytes.Clone(b)
		s := NewJSON(b, testNow)
		var got []*record.Record
		for {
			rec, fault := s.Next()
			if fault != nil {
				return
			}
			if rec == nil {
				break
			}
			c := *rec
			got = append(got, &c)
		}
		if !json.Valid(original) || !utf8.Valid(original) {
			t.Fatalf("%q was accepted but is not JSON", original)
		}
		if bytes.TrimSpace(original)[0] == '{' {
			original = append(append([]byte{'['}, original...), ']')
		}
		type loose struct {
			Key         *string `json:"key"`
			KeyBase64   []byte  `json:"key_base64"`
			Value       *string `json:"value"`
			ValueBase64 []byte  `json:"value_base64"`
		}
		var ref []loose
		must.NoErrorf(t, json.Unmarshal(original, &ref), "%q", original)
		if len(ref) != len(got) {
			t.Fatalf("%q: %d records, want %d", original, len(got), len(ref))
		}
		for i, w := range ref {
			value, key := w.ValueBase64, w.KeyBase64
			if w.Value != nil {
				value = []byte(*w.Value)
			}
			if w.Key != nil {
				key = []byte(*w.Key)
			}
			if !bytes.Equal(got[i].Value, value) || (got[i].Value == nil) != (value == nil) || !bytes.Equal(got[i].Key, key) {
				t.Fatalf("%q: record %d: %s, want %q=%q", original, i, show(got[i]), key, value)
			}
		}
	})
}

// FuzzString checks that encoding/json reads the output of AppendString.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\x00é\xff😀")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q: %q %v", s, got, err)
		}
		must.Equalf(t, string(AppendString(nil, s)), string(AppendString(nil, []byte(s))), "string and bytes differ")
	})
}
