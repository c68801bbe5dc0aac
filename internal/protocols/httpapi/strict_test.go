package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
)

// TestManagementBodiesAreStrict: each route that takes JSON, except for records and events, refuses
// what a decoder would decide silently.
func TestManagementBodiesAreStrict(t *testing.T) {
	s := everyRoute(t)
	for i := range routes {
		rt := &routes[i]
		v := validRequests[rt.name()]
		if rt.method == http.MethodGet || !strings.HasPrefix(v.body, `{"`) || rt.path == "/records" || rt.path == "/event" {
			continue
		}
		path := v.at
		if path == "" {
			path = rt.path
		}
		path = strings.ReplaceAll(path+v.path, "%d", strconv.Itoa(i))
		name, _, _ := strings.Cut(v.body[2:], `"`)
		rest := v.body[1:]
		for what, c := range map[string]struct{ body, field string }{
			"a repeated member":        {v.body[:len(v.body)-1] + "," + rest, name},
			"an escaped name again":    {fmt.Sprintf(`{"\u%04x%s":1,`, name[0], name[1:]) + rest, name},
			"other capitals":           {`{"` + strings.ToUpper(name) + `":null,` + rest, strings.ToUpper(name)},
			"an unknown member":        {`{"nmae":1,` + rest, "nmae"},
			"two values":               {v.body + "{}", "body"},
			"half of a surrogate pair": {`{"\ud800":1,` + rest, "\ufffd"},
			"invalid UTF-8":            {"{\"\xff\":1," + rest, "body"},
			"UTF-16":                   {"\xff\xfe{\x00}\x00", "body"},
			"deep nesting":             {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "body"},
		} {
			p := s.send(rt.method, path, c.body).problem(t)
			early := p.Field == name && what == "an escaped name again" // its value is invalid too
			if p.Code == api.TooLarge && what == "deep nesting" {
				continue
			}
			if p.Code != api.BadRequest || p.Field != c.field && !early {
				t.Errorf("%s with %s: %s %q, want field %q", rt.name(), what, p.Code, p.Detail, c.field)
			}
		}
		if v.before != nil {
			v.before(s, i)
		}
		if a := s.send(rt.method, path, "\ufeff"+v.body); a.status != v.status && a.status != 200 {
			t.Errorf("%s with a byte order mark: %s", rt.name(), a)
		}
	}
	for body, want := range map[string]string{
		`{"preset":"viewer","preset":"operator"}`:                                              "preset: given twice",
		`{"preset":"viewer","Preset":"operator"}`:                                              "Preset: unknown member; want preset",
		`{"rules":[{"resource":"topic","resource":"group","pattern":"g","operation":"read"}]}`: "rules[0].resource: given twice",
	} {
		if p := s.send("POST", "/tokens", body).problem(t); p.Detail != want {
			t.Errorf("%s: %s, want %s", body, p.Detail, want)
		}
	}
	for body, want := range map[string]string{
		`{"expr":{"then":[{"event":"a"},{"event":"b"}],"then":[{"event":"c"},{"event":"d"}]}}`: "expr.then: given twice",
		`{"expr":"a","deliver":{"topic":"x","topic":"y"}}`:                                     "deliver.topic: given twice",
		`{"expr":"a","deliver":{"Topic":"x"}}`:                                                 "deliver: Topic: unknown member; want topic",
	} {
		if p := s.send("PUT", "/triggers/strict", body).problem(t); p.Detail != want {
			t.Errorf("%s: %s, want %s", body, p.Detail, want)
		}
	}
}
