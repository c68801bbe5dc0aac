package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// masks replace what differs between runs.
var masks = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d+\b`), "<address>"},
	{regexp.MustCompile(`at most \d+, given \d{8,}`), "at most <bytes>"}, // the forms of bodies differ
	{regexp.MustCompile(`\b[0-9a-f]{16}([0-9a-f]{16})?([0-9a-f]{32})?\b`), "<hex>"},
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
			case slices.Contains(varying, name), name == "duplicate" && value == false, name == "headers" && isEmpty(value), value == nil:
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
	case json.Number:
		if ms, err := v.Int64(); err == nil && time.Since(time.UnixMilli(ms)).Abs() < time.Hour {
			return "<ms>"
		}
	}
	return v
}

func isEmpty(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) == 0
}

// different returns two texts from shortly before their first difference on.
func different(got, want string) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	cut := func(s string) string { return s[max(0, at-120):min(len(s), at+240)] }
	return fmt.Sprintf("%q, want %q", cut(got), cut(want))
}

// partition returns the partition of a record, whose order among those of others is free.
func partition(v any) string {
	m, _ := v.(map[string]any)
	n, _ := m["partition"].(json.Number)
	return string(n)
}
