package encoding

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

func oneEvent(body string) (Event, *api.Problem) {
	s := NewEventBody([]byte(body), testNow, false)
	rec, p := s.Next()
	if p == nil && rec == nil {
		p = problem.BadField("body", "none")
	}
	return s.Last, p
}

func TestEventKeepsItsText(t *testing.T) {
	for body, want := range map[string]Event{
		`{"event":"user_created","entity_id":"u1","data":{"plan":"pro"}}`: {
			Name: []byte("user_created"), Entity: []byte("u1"), Text: []byte(`{"event":"user_created","entity_id":"u1","data":{"plan":"pro"}}`),
		},
		" { \"id\" : \"a b\" ,\r\n\t\"data\" : { \"x\" : [ 1.50e+3 , -0 , true , null , \" \\\" \" ] , \"x\" : { } } , \"entity_id\" : \"\\u00e4\\n\" , \"event\" : \"ä\" } \n": {
			Name: []byte("ä"), Entity: []byte("ä\n"), ID: []byte("a b"),
			Text: []byte(`{"id":"a b","data":{"x":[1.50e+3,-0,true,null," \" "],"x":{}},"entity_id":"\u00e4\n","event":"ä"}`),
		},
		`{"event":"e","entity_id":"1","id":null,"data":null,"occurred_at":null}`: {
			Name: []byte("e"), Entity: []byte("1"), Text: []byte(`{"event":"e","entity_id":"1","id":null,"data":null,"occurred_at":null}`),
		},
		`{"\u0065vent":"e","entity_id":"1","occurred_at":"2026-03-01T12:00:00.123+01:00","data":{"half":"\ud800"}}`: {
			Name: []byte("e"), Entity: []byte("1"), Text: []byte(`{"\u0065vent":"e","entity_id":"1","occurred_at":"2026-03-01T12:00:00.123+01:00","data":{"half":"\ud800"}}`),
		},
		`{"event":"e","entity_id":"1","occurred_at":"2016-12-31t23:59:60.0123456789z"}`: {
			Name: []byte("e"), Entity: []byte("1"), Text: []byte(`{"event":"e","entity_id":"1","occurred_at":"2016-12-31t23:59:60.0123456789z"}`),
		},
	} {
		e, p := oneEvent(body)
		if p != nil {
			t.Errorf("%s: %v", body, p)
		} else if string(e.Name) != string(want.Name) || string(e.Entity) != string(want.Entity) || string(e.ID) != string(want.ID) ||
			(e.ID == nil) != (want.ID == nil) || string(e.Text) != string(want.Text) {
			t.Errorf("%s: %q %q %q %s", body, e.Name, e.Entity, e.ID, e.Text)
		}
	}
}

func TestEventFaultsNameTheMember(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for body, want := range map[string]string{
		`{"entity_id":"1"}`:                                                       "event: missing",
		`{"event":"e"}`:                                                           "entity_id: missing",
		`{"event":"","entity_id":"1"}`:                                            "event: empty",
		`{"event":"e","entity_id":""}`:                                            "entity_id: empty",
		`{"event":"e","entity_id":"1","id":""}`:                                   "id: empty",
		`{"event":null,"entity_id":"1"}`:                                          "event: want a string",
		`{"event":"e","entity_id":1}`:                                             "entity_id: want a string",
		`{"event":"e","entity_id":"1","id":7}`:                                    "id: want a string",
		`{"event":"e","entity_id":"1","data":[]}`:                                 "data: want an object, or null",
		`{"event":"e","entity_id":"1","data":"x"}`:                                "data: want an object, or null",
		`{"event":"e","entity_id":"1","Data":{}}`:                                 `"Data": unknown member of an event; it has event, entity_id, data, id and occurred_at`,
		`{"event":"e","entity_id":"1","extra":1}`:                                 `"extra": unknown member of an event; it has event, entity_id, data, id and occurred_at`,
		`{"event":"e","entity_id":"1","event":"f"}`:                               "event: given twice",
		`{"event":"e","entity_id":"1","data":{},"d\u0061ta":{}}`:                  "data: given twice",
		`{"event":"e","entity_id":"1","occurred_at":"yesterday"}`:                 `occurred_at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "yesterday"`,
		`{"event":"e","entity_id":"1","occurred_at":"2026-03-01T12:00:00,5Z"}`:    `occurred_at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "2026-03-01T12:00:00,5Z"`,
		`{"event":"e","entity_id":"1","occurred_at":"2026-03-01T12:00:00+24:00"}`: `occurred_at: want RFC 3339, such as 2026-03-01T12:00:00Z, given "2026-03-01T12:00:00+24:00"`,
		`{"event":"e","entity_id":"1","occurred_at":1700000000}`:                  "occurred_at: want a string",
		`{"event":"` + long(257) + `","entity_id":"1"}`:                           "event: at most 256, given 257",
		`{"event":"e","entity_id":"` + long(1025) + `"}`:                          "entity_id: at most 1024, given 1025",
		`{"event":"e","entity_id":"1","id":"` + long(257) + `"}`:                  "id: at most 256, given 257",
		`{"event":"\ud800","entity_id":"1"}`:                                      "event: half of a surrogate pair in a string",
		"{\"event\":\"\xff\",\"entity_id\":\"1\"}":                                "body: not valid UTF-8",
		`[{"event":"e","entity_id":"1"}]`:                                         "body: an array; give one event as an object, or several as application/x-ndjson, one on a line",
		`{"event":"e","entity_id":"1"}{}`:                                         `body: JSON: want the end of the event at byte 29, found '{'`,
		`{"event":"e" "entity_id":"1"}`:                                           `body: JSON: want ',' or '}' at byte 13, found '"'`,
		`{"event":"e","entity_id":"1","data":{"n":1 2}}`:                          `body: JSON: want ',' or '}' at byte 43, found '2'`,
		`{"event":"e","entity_id":"1","data":{"n":01}}`:                           `body: JSON: want ',' or '}' at byte 42, found '1'`,
		`{"event":"e","entity_id":"1","data":{"n":1.}}`:                           `body: JSON: want a digit at byte 43, found '}'`,
		`{"event":"e","entity_id":"1","data":{"n":tru}}`:                          `body: JSON: want a value at byte 41, found 't'`,
		`{"event":"e","entity_id":"1","data":{"n":"\x"}}`:                         `body: JSON: want an escape at byte 43, found 'x'`,
		`{"event":"e","entity_id":"1","data":{"n":"\u00g0"}}`:                     `body: JSON: want four hex digits at byte 46, found 'g'`,
		"{\"event\":\"e\",\"entity_id\":\"1\",\"data\":{\"n\":\"\n":               `body: JSON: want no control character in a string at byte 42, found '\n'`,
		`{"event":"e","entity_id":"1","data":{"n":1,}}`:                           `body: JSON: want the name of a member at byte 43, found '}'`,
		`{"event":"e","entity_id":"1","data":{1:1}}`:                              `body: JSON: want the name of a member at byte 37, found '1'`,
		`{"event":"e","entity_id":"1"`:                                            `body: JSON ends where ',' or '}' must follow`,
		`"e"`:                                                                     `body: JSON: want an object at byte 0, found '"'`,
		`{"event":"e","entity_id":"1","data":{"a":` + long(0) + `}}`:              `body: JSON: want a value at byte 41, found '}'`,
	} {
		e, p := oneEvent(body)
		if p == nil {
			t.Errorf("%s was accepted: %+v", body, e)
		} else if p.Code != api.BadRequest || p.Detail != want {
			t.Errorf("%.80s: %s %s, want %s", body, p.Code, p.Detail, want)
		}
	}
}

func TestEventLimits(t *testing.T) {
	nested := func(depth int) string {
		return `{"event":"e","entity_id":"1","data":{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`
	}
	if _, p := oneEvent(nested(EventDepthMax - 2)); p != nil {
		t.Error(p)
	}
	if _, p := oneEvent(nested(EventDepthMax - 1)); p == nil || !strings.Contains(p.Detail, "more than 64 deep") {
		t.Error(p)
	}
	sized := func(n int) string {
		const frame = `{"event":"e","entity_id":"1","data":{"x":""}}`
		return `{"event":"e","entity_id":"1",` + strings.Repeat(" ", 100) + `"data":{"x":"` + strings.Repeat("x", n-len(frame)) + `"}}`
	}
	if e, p := oneEvent(sized(EventMax)); p != nil || len(e.Text) != EventMax {
		t.Error(len(e.Text), p)
	}
	if _, p := oneEvent(sized(EventMax + 1)); p == nil || p.Code != api.TooLarge || *p.Limit != EventMax || *p.Given != EventMax+1 {
		t.Error(p)
	}
}

func TestEventsOnLines(t *testing.T) {
	s := NewEventBody([]byte("\n{\"event\":\"a\",\"entity_id\":\"1\"}\r\n \n{ \"event\":\"b\",\"entity_id\":\"2\"}"), testNow, true)
	var got []string
	for {
		rec, p := s.Next()
		if p != nil {
			t.Fatal(p) // a nil *Problem in an error is not nil
		}
		if rec == nil {
			break
		}
		if rec.Timestamp != testNow || string(rec.Key) != string(s.Last.Entity) {
			t.Errorf("%+v", rec)
		}
		got = append(got, string(rec.Value))
	}
	check.Equalf(t, strings.Join(got, "|"), `{"event":"a","entity_id":"1"}|{"event":"b","entity_id":"2"}`, "%s", got)
}

// FuzzEvent checks that an accepted event is JSON for encoding/json too, loses only white space,
// and has the same members. Parsing allocates almost nothing, and parsing the stored text gives the
// same event.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(` {"event":"e", "entity_id" : "\u00e4", "data":{"a":[1,-2.5e3,true,null,"\\\""]},"id":"i","occurred_at":"2026-03-01T12:00:00Z"}`))
	f.Add([]byte(`{"event":"e","entity_id":"1","data":null}{"event":"f"}`))
	f.Add([]byte("{\"event\":\"\xff\",\"entity_id\":1}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Event
		var p *api.Problem
		own := bytes.Clone(b)
		sebtest.Allocates(t, sebtest.DecoderBound(b), b, func() {
			copy(own, b)
			s := NewEventBody(own, testNow, false)
			_, p = s.Next()
			e = s.Last
		})
		if p != nil || e.Text == nil {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, b); err != nil || !bytes.Equal(want.Bytes(), e.Text) {
			t.Fatalf("%q became %q, want %q (%v)", b, e.Text, want.Bytes(), err)
		}
		var v struct {
			Event, ID string
			Entity    string          `json:"entity_id"`
			Data      json.RawMessage `json:"data"`
			At        *time.Time      `json:"occurred_at"`
		}
		d := json.NewDecoder(bytes.NewReader(e.Text))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil || v.Event != string(e.Name) || v.Entity != string(e.Entity) || v.ID != string(e.ID) {
			t.Fatalf("%q: %+v, %q %q %q, %v", e.Text, v, e.Name, e.Entity, e.ID, err)
		}
		again, p := oneEvent(string(e.Text))
		if p != nil || !bytes.Equal(again.Text, e.Text) || !bytes.Equal(again.Entity, e.Entity) {
			t.Fatalf("%q: again %q, %v", e.Text, again.Text, p)
		}
	})
}
