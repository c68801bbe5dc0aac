package problem

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// WrongKind describes the expected and the given kind of a JSON value.
func WrongKind(err *json.UnmarshalTypeError) string {
	kind := err.Type.String()
	switch err.Type.Kind() {
	case reflect.Struct, reflect.Map:
		kind = "an object"
	case reflect.String:
		kind = "a string"
	case reflect.Bool:
		kind = "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		kind = "a whole number"
	case reflect.Slice:
		kind = "an array"
	}
	return fmt.Sprintf("want %s, given a JSON %s", kind, err.Value)
}
