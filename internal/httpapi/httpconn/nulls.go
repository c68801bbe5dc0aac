package httpconn

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/sebbroker/seb/internal/problem"
)

var rawMessage = reflect.TypeFor[json.RawMessage]()

// noNulls refuses null in a JSON text that was decoded into a value of type t, except for pointers
// and raw messages: encoding/json ignores null for other types, as if the member were absent. name
// is the member that holds text.
func noNulls(text json.RawMessage, t reflect.Type, name string) error {
	null := string(text) == "null"
	switch {
	case t == rawMessage || null && t.Kind() == reflect.Pointer:
		return nil
	case null:
		return problem.BadField(cmp.Or(name, "body"), "must not be null; leave it out")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return noNulls(text, t.Elem(), name)
	case reflect.Slice:
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil {
			return err
		}
		for _, e := range elements {
			if err := noNulls(e, t.Elem(), name); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			return err
		}
		for _, f := range reflect.VisibleFields(t) {
			member, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if given, ok := members[member]; ok && !f.Anonymous {
				if err := noNulls(given, f.Type, member); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
