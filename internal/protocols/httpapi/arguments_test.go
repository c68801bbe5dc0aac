package httpapi

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestNoArgumentIsIgnored: each route that changes something, or takes a body, refuses a parameter and
// a body that it does not read, before it does anything.
func TestNoArgumentIsIgnored(t *testing.T) {
	s := everyRoute(t)
	spec := readSpec(t)
	for i := range routes {
		rt := &routes[i]
		if rt.method == http.MethodGet {
			continue
		}
		op := spec.Paths[rt.path][strings.ToLower(rt.method)]
		a := takes[rt.key()]
		check.Equalf(t, a.body, op.RequestBody != nil, "%s: takes a body", rt.name())
		var described []string
		for _, p := range op.Parameters {
			name, _ := p["name"].(string)
			in, _ := p["in"].(string)
			if ref, ok := p["$ref"].(string); ok {
				of := spec.Components.Parameters[ref[strings.LastIndexByte(ref, '/')+1:]]
				name, in = of.Name, of.In
			}
			if in == "query" {
				described = append(described, name)
			}
		}
		check.Equalf(t, strings.Join(slices.Sorted(slices.Values(a.query)), " "), strings.Join(slices.Sorted(slices.Values(described)), " "), "%s: parameters", rt.name())
		v := validRequests[rt.name()]
		path := v.at
		if path == "" {
			path = rt.path
		}
		path = strings.ReplaceAll(path+v.path, "%d", "77")
		mark := "?"
		if strings.Contains(path, "?") {
			mark = "&"
		}
		header := map[string]string{"Content-Type": v.kind}
		p := must.Get(s.try(call{method: rt.method, path: path + mark + "forse=true", body: strings.NewReader(v.body), header: header}))(t).problem(t)
		if p.Code != api.BadRequest || p.Field != "forse" || !strings.Contains(p.Detail, rt.name()) {
			t.Errorf("%s: unknown parameter: %+v", rt.name(), p)
		}
		if a.body {
			continue
		}
		for what, body := range map[string]io.Reader{
			"a body": strings.NewReader(`{"overlap":"0s"}`), "chunks": io.MultiReader(strings.NewReader(" ")), // of unknown length
		} {
			p := must.Get(s.try(call{method: rt.method, path: path, body: body}))(t).problem(t)
			if p.Code != api.BadRequest || p.Field != "body" || !strings.Contains(p.Detail, "takes none") || len(a.query) > 0 && !strings.HasSuffix(p.Detail, strings.Join(a.query, ", ")) {
				t.Errorf("%s with %s: %+v", rt.name(), what, p)
			}
		}
	}
	s.must(201, s.send("POST", "/tokens", `{"id":"leaked"}`), nil)
	if a := must.Get(s.try(call{method: "POST", path: "/tokens/leaked/rotate", body: io.MultiReader()}))(t); a.status != 201 {
		t.Errorf("an empty body of unknown length: %s", a)
	}
	s.must(200, s.get("/topics?_=1700000000"), nil) // added by programs against caches
}
