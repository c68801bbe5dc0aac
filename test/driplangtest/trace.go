package driplangtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang"
)

// Traces makes random histories for an expression: of its events, with data that satisfies its
// filters or not, at times near its durations.
type Traces struct {
	events    []*written
	durations []int64
	values    map[string]map[string][]any // of the properties of an event, by name and path
}

// TracesOf returns the traces of all expressions.
func TracesOf(list ...driplang.Expr) *Traces {
	t := &Traces{durations: []int64{0, 1}, values: make(map[string]map[string][]any)}
	for _, e := range list {
		Of(e).each(func(x *Expr) {
			if x.millis > 0 {
				t.durations = append(t.durations, x.millis)
			}
			if x.op == "name" {
				t.events = append(t.events, x.event)
				values := t.values[x.event.Event]
				if values == nil {
					values = make(map[string][]any)
					t.values[x.event.Event] = values
				}
				x.event.Where.each(func(f *writtenFilter) { values[f.Property] = append(values[f.Property], f.Value) })
			}
		})
	}
	slices.Sort(t.durations)
	t.durations = slices.Compact(t.durations)
	return t
}

func (w *writtenFilter) each(do func(is *writtenFilter)) {
	if w == nil {
		return
	}
	if w.Property != "" {
		do(w)
	}
	for _, k := range slices.Concat(w.And, w.Or, []*writtenFilter{w.Not}) {
		k.each(do)
	}
}

// History returns up to n events. Times are often about a duration after an earlier event.
func (t *Traces) History(r *rand.Rand, n int) []Event {
	events := make([]Event, r.IntN(n+1))
	at := int64(0)
	for i := range events {
		from := at
		if i > 0 && r.IntN(3) == 0 {
			from = events[r.IntN(i)].At
		}
		if gap := t.durations[r.IntN(len(t.durations))]; r.IntN(4) > 0 {
			at = max(at, from+[]int64{gap, gap - 1, gap + 1, r.Int64N(gap + 1)}[r.IntN(4)])
		}
		name := t.events[r.IntN(len(t.events))].Event
		events[i] = Event{Name: name, At: at, Data: t.Data(r, name)}
	}
	return events
}

// Data returns an object for an event, with some of the properties in its filters, or "" if there are
// none. Numbers may be one more or less than those of filters.
func (t *Traces) Data(r *rand.Rand, name string) string {
	values := t.values[name]
	if len(values) == 0 {
		return ""
	}
	data := make(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(values)) {
		value := values[path][r.IntN(len(values[path]))]
		if number, ok := value.(json.Number); ok && r.IntN(3) == 0 {
			f, _ := number.Float64()
			value = f + float64(r.IntN(3)-1)
		}
		if r.IntN(10) == 0 {
			value = "other"
		}
		if r.IntN(4) > 0 {
			set(data, path, value)
		}
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// set sets the value at a path in text form.
func set(data map[string]any, path string, value any) {
	for {
		member, rest := path, ""
		if path[0] == '"' {
			dec := json.NewDecoder(strings.NewReader(path))
			if err := dec.Decode(&member); err != nil {
				panic(fmt.Sprintf("path %s: %v", path, err))
			}
			rest = strings.TrimPrefix(path[dec.InputOffset():], ".")
		} else {
			member, rest, _ = strings.Cut(path, ".")
		}
		if rest == "" {
			data[member] = value
			return
		}
		inner, ok := data[member].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			data[member] = inner
		}
		data, path = inner, rest
	}
}
