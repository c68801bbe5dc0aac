package index

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/protocols/riemann/query"
)

// FuzzEvent compares the fields of an event with those that encoding/json finds. The event as JSON
// and as a message is valid.
func FuzzEvent(f *testing.F) {
	for _, data := range []string{
		`{}`, `5`, `null`, `[{"a":1}]`, ` { "a" : [ "x" , {"b":"}"} ] , "tags":["a","b\"c"] , "tags":[1,"d"]} `, `{"":"\ud83d\ude00","metric":-1.5e3,"ttl":"NaN"}`,
		`{"host":null,"service":"\u0000","time":1e400,"time_micros":9223372036854775807}`, `{"state":"expired","metric":18446744073709551616,"time":-1e18}`,
	} {
		f.Add([]byte(data), int64(noTime))
	}
	f.Fuzz(func(t *testing.T, data []byte, at int64) {
		if !json.Valid(data) || !utf8.Valid(data) {
			return
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil {
			want = nil
		}
		e := of(string(data), at)
		for name, raw := range want {
			if got := e.raw(name); !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(raw)) {
				t.Fatalf("member %q of %s is %s, want %s", name, data, got, raw)
			}
		}
		if len(want) == 0 && len(e.list()) > 0 {
			t.Fatalf("%s has members %q", data, e.list())
		}
		var tags []any
		_ = json.Unmarshal(want["tags"], &tags)
		var texts []string
		for _, tag := range tags {
			if text, ok := tag.(string); ok {
				texts = append(texts, text)
			}
		}
		var got []string
		for v := range e.tags {
			if v.Kind == query.Text {
				got = append(got, string(v.Text))
			}
		}
		if len(tags) > 0 && !slices.Equal(got, texts) {
			t.Fatalf("tags of %s are %q, want %q", data, got, texts)
		}
		out := e.AppendJSON(nil)
		var shown map[string]json.RawMessage
		if err := json.Unmarshal(out, &shown); err != nil || shown["host"] == nil || shown["service"] == nil || shown["time"] == nil {
			t.Fatalf("%s is shown as %s: %v, %v", data, out, err, slices.Sorted(maps.Keys(shown)))
		}
		for b := e.appendMessage(nil); len(b) > 0; {
			_, _, n := protowire.ConsumeField(b)
			if n < 0 {
				t.Fatalf("the message of %s is invalid: %v", data, protowire.ParseError(n))
			}
			b = b[n:]
		}
		e.deadline(0)
	})
}
