package httpconn

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sebbroker/seb/api"
)

// TestDecodeRefusesNull: null is refused for values, gives nil for a pointer, and stays in raw
// text.
func TestDecodeRefusesNull(t *testing.T) {
	type entry struct {
		Name string `json:"name"`
		Age  *int   `json:"age"`
	}
	type body struct {
		entry
		Raw     json.RawMessage            `json:"raw"`
		Entries []entry                    `json:"entries"`
		More    map[string]json.RawMessage `json:"more"`
		Yes     *bool                      `json:"yes"`
	}
	for text, field := range map[string]string{
		`{}`: "", ` {"age":null,"raw":null,"yes":null,"more":{"a":null},"entries":[]}`: "", `{"name":"null","entries":[{"name":"a","age":1}]}`: "",
		`null`: "body", `{"name":null}`: "name", `{"entries":null}`: "entries", `{"entries":[null]}`: "entries", `{"entries":[{"name":null}]}`: "name",
		`{"more":null}`: "more",
	} {
		err := Decode([]byte(text), &body{})
		var p *api.Problem
		if errors.As(err, &p) != (field != "") || p != nil && p.Field != field {
			t.Errorf("%s: %v, want a fault of %q", text, err, field)
		}
	}
}
