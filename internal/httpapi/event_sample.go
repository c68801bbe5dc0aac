package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/sorting"
	"github.com/sebbroker/seb/internal/trigger/rule"
	"github.com/sebbroker/seb/record"
)

// Bounds of a sample of events. sampleMemory bounds the memory of a sample with the one event that
// is being parsed.
const (
	sampleRecords    = 5000
	sampleBytes      = 1 << 20 // of keys and values
	sampleNames      = 1000
	sampleProperties = 2000 // of all names
	samplePath       = 256  // bytes of a path
	sampleMemory     = 3 << 20
)

// eventSample collects the names and properties of events. It is a Sink that keeps no record.
type eventSample struct {
	prefix     string // only names with it; all records count
	records    int64
	bytes      int64
	oldest     int64 // timestamp (ms)
	names      map[string]*sampledName
	properties int
	full       bool // there are more names
}

type sampledName struct {
	name       string
	count      int
	last       int64
	properties map[string]*sampledProperty // by path
	more       bool                        // there are more properties
}

type sampledProperty struct {
	count int
	types jsonTypes
}

// jsonTypes is a set of JSON types.
type jsonTypes uint8

const (
	jsonString jsonTypes = 1 << iota
	jsonNumber
	jsonBoolean
	jsonNull
	jsonArray
	jsonObject
)

var jsonTypeNames = []string{"string", "number", "boolean", "null", "array", "object"}

func (t jsonTypes) list() (names []string) {
	for i, name := range jsonTypeNames {
		if t&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ValuesOnly implements encoding.Sink.
func (s *eventSample) ValuesOnly() bool { return false }

// Take implements encoding.Sink.
func (s *eventSample) Take(_ *budget.Arena, rec *record.Record, _ bool) error {
	if s.records == 0 || rec.Timestamp < s.oldest {
		s.oldest = rec.Timestamp
	}
	s.records++
	s.bytes += int64(len(rec.Key) + len(rec.Value))
	e, err := rule.ParseEvent(rec.Key, rec.Value)
	if err != nil || !strings.HasPrefix(e.Name, s.prefix) {
		return nil
	}
	n := s.names[e.Name]
	if n == nil {
		if len(s.names) == sampleNames {
			s.full = true
			return nil
		}
		n = &sampledName{name: e.Name, properties: map[string]*sampledProperty{}}
		s.names[e.Name] = n
	}
	n.count++
	n.last = max(n.last, rec.Timestamp)
	if len(e.Data) > 0 {
		d := json.NewDecoder(bytes.NewReader(e.Data))
		d.UseNumber()
		s.value(n, d, nil)
	}
	return nil
}

// value reads a JSON value, and adds the properties in it. A path ends at a value that is no
// object, at an empty object, and after driplang.MaxPath members.
func (s *eventSample) value(n *sampledName, d *json.Decoder, path []string) {
	token, _ := d.Token() // the event was parsed before
	kind := jsonNull
	switch x := token.(type) {
	case string:
		kind = jsonString
	case json.Number:
		kind = jsonNumber
	case bool:
		kind = jsonBoolean
	case json.Delim:
		if x == '{' && len(path) < driplang.MaxPath && d.More() {
			for d.More() {
				name, _ := d.Token()
				member, _ := name.(string)
				s.value(n, d, append(path, member))
			}
			_, _ = d.Token()
			return
		}
		kind = jsonArray
		if x == '{' {
			kind = jsonObject
		}
		skip(d)
	}
	if len(path) > 0 {
		s.property(n, driplang.FormatPath(path), kind)
	}
}

// skip reads the rest of an array or an object.
func skip(d *json.Decoder) {
	for depth := 1; depth > 0; {
		switch token, err := d.Token(); {
		case err != nil:
			return
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
	}
}

func (s *eventSample) property(n *sampledName, path string, kind jsonTypes) {
	p := n.properties[path]
	if p == nil {
		if len(path) > samplePath || s.properties == sampleProperties {
			n.more = true
			return
		}
		p = &sampledProperty{}
		n.properties[path] = p
		s.properties++
	}
	p.count++
	p.types |= kind
}

// list returns the names, the most frequent first. total is the number of records of the topic.
func (s *eventSample) list(total int64) []api.EventName {
	out := make([]api.EventName, 0, len(s.names))
	for _, n := range s.names {
		x := api.EventName{
			Name: n.name, Count: int64(math.Round(float64(n.count) / float64(s.records) * float64(total))), Sampled: n.count, Last: new(instant(n.last)),
			Properties: []api.EventProperty{}, More: n.more,
		}
		for path, p := range n.properties {
			x.Properties = append(x.Properties, api.EventProperty{Path: path, Types: p.types.list(), Sampled: p.count})
		}
		sorting.Sort(x.Properties, func(a, b api.EventProperty) int {
			return cmp.Or(b.Sampled-a.Sampled, cmp.Compare(a.Path, b.Path))
		})
		out = append(out, x)
	}
	sorting.Sort(out, func(a, b api.EventName) int { return cmp.Or(b.Sampled-a.Sampled, cmp.Compare(a.Name, b.Name)) })
	return out
}
