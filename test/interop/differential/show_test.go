package differential

import "encoding/json"

// jsonOf returns a request or an answer as text.
func jsonOf(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
