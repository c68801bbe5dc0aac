package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
)

// masks replace what differs between runs.
var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d+\b`), "<address>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}([0-9a-f]{16})?([0-9a-f]{32})?\b`), "<hex>"},
	{regexp.MustCompile(`\b1[89]\d{11}\b`), "<ms>"},
}

// varying are members whose values depend on the time, or on what else the broker has done.
var varying = []string{"receipt", "as_of", "seq", "tag", "history", "why", "oldest_seconds", "bytes", "cause"}

// masked returns JSON in one form for all languages, without what differs between runs.
func masked(text json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return string(text)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(plain(v)); err != nil {
		return string(text)
	}
	out := b.String()
	for _, m := range masks {
		out = m.pattern.ReplaceAllString(out, m.by)
	}
	return out
}

// plain returns a value without what differs.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch {
			case slices.Contains(varying, name), name == "duplicate" && value == false:
				delete(v, name)
			default:
				v[name] = plain(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		slices.SortStableFunc(v, func(a, b any) int { return cmp.Compare(partition(a), partition(b)) })
	}
	return v
}

// partition returns the partition of a record, whose order among those of others is free.
func partition(v any) string {
	m, _ := v.(map[string]any)
	n, _ := m["partition"].(json.Number)
	return string(n)
}
