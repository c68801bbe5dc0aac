package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// spec is the part of openapi.json that the tests use.
type spec struct {
	Paths map[string]map[string]struct {
		OperationID string                            `json:"operationId"`
		Rights      string                            `json:"x-rights"`
		Security    *[]any                            `json:"security"`
		Parameters  []map[string]any                  `json:"parameters"`
		RequestBody *struct{ Content map[string]any } `json:"requestBody"`
		Responses   map[string]struct {
			Ref     string         `json:"$ref"`
			Content map[string]any `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Parameters map[string]struct{ Name, In string } `json:"parameters"`
		Responses  map[string]struct {
			Content map[string]any `json:"content"`
		} `json:"responses"`
		Schemas map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

// parsedSpec is the description that all answers of all tests are compared with. It is read-only.
var parsedSpec = sync.OnceValues(func() (s spec, err error) {
	text, err := specJSON()
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
})

func readSpec(t testing.TB) spec {
	t.Helper()
	s := must.Get(parsedSpec())(t)
	return s
}

// checkSpec fails the test if the status and media type of an answer are not described.
func checkSpec(t testing.TB, method, target string, a *answered) {
	t.Helper()
	s := readSpec(t)
	check.Equal(t, s.fault(method, target, a), "")
}

// fault returns which part of an answer is not described, or "".
func (s *spec) fault(method, target string, a *answered) string {
	path, _, _ := strings.Cut(target, "?")
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, ok := s.Paths[path][strings.ToLower(method)]
	if u, err := url.Parse(path); err == nil && !ok {
		if rt, p := findRoute(&http.Request{Method: method, URL: u}); p == nil {
			op, ok = s.Paths[rt.path][strings.ToLower(method)]
		}
	}
	if !ok && (path == "/" || path == "/console" || strings.HasPrefix(path, "/console/")) {
		return "" // a file of the console, which is not part of the API
	}
	if !ok {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			return fmt.Sprintf("%s %s: %d, and the spec does not know the route", method, path, a.status)
		}
		return ""
	}
	described, ok := op.Responses[strconv.Itoa(a.status)]
	if !ok {
		return fmt.Sprintf("%s %s: status %d is not in the spec", method, path, a.status)
	}
	content := described.Content
	if name, ok := strings.CutPrefix(described.Ref, "#/components/responses/"); ok {
		content = s.Components.Responses[name].Content
	}
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if _, ok := content[kind]; !ok && a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		return fmt.Sprintf("%s %s: status %d with %q is not in the spec", method, path, a.status, kind)
	}
	return ""
}

// rightsOf describes needs for the reference: "read topic".
func rightsOf(list needs) string {
	var all []string
	for i := range list {
		text := list[i].operation.String() + " " + list[i].resource.String()
		if list[i].operation == 0 {
			text = "any key"
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

func TestSpecAndRoutesAreTheSame(t *testing.T) {
	s := readSpec(t)
	var routed, described []string
	for _, rt := range routes {
		routed = append(routed, rt.name())
		op, ok := s.Paths[rt.path][strings.ToLower(rt.method)]
		if ok && rt.needsKey() != (op.Security == nil) {
			t.Errorf("%s: the spec has the wrong security", rt.name())
		}
		if ok && op.Rights != rightsOf(rt.needs) {
			t.Errorf("%s: the spec has x-rights %q, the table of routes %q", rt.name(), op.Rights, rightsOf(rt.needs))
		}
		if _, described := op.Responses["401"]; ok && described != rt.needsKey() {
			t.Errorf("%s: the spec has the wrong 401 response", rt.name())
		}
	}
	for path, ops := range s.Paths {
		for method := range ops {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routed)
	slices.Sort(described)
	if !slices.Equal(routed, described) {
		t.Errorf("routes:\n%s\nspec:\n%s", strings.Join(routed, "\n"), strings.Join(described, "\n"))
	}
}

// TestSpecDescribesEveryMember: a value of each type of package api has the members of its schema.
func TestSpecDescribesEveryMember(t *testing.T) {
	s := readSpec(t)
	const golden = "../../../api/testdata/"
	for _, file := range must.Get(os.ReadDir(golden))(t) {
		name, _ := strings.CutSuffix(file.Name(), ".json")
		name = schemaName(name)
		if name == "OffsetCommit" {
			name = "OffsetEntry" // has the members that the query can give instead
		}
		schema, ok := s.Components.Schemas[name]
		if !ok {
			continue // audit records, and types whose schema is part of another
		}
		var full struct{ Full map[string]any }
		must.NoError(t, json.Unmarshal(must.Get(os.ReadFile(golden+file.Name()))(t), &full))
		check.EqualSlicesf(t, slices.Sorted(maps.Keys(full.Full)), slices.Sorted(maps.Keys(schema.Properties)), "members of %s", name)
	}
}

func TestSpecDescribesEncodingsAndParameters(t *testing.T) {
	s := readSpec(t)
	post, get := s.Paths["/records"]["post"], s.Paths["/records"]["get"]
	if got, want := slices.Sorted(maps.Keys(get.Responses["200"].Content)), slices.Sorted(slices.Values(readTypes)); !slices.Equal(got, want) {
		t.Errorf("GET /records: spec has %v, code %v", got, want)
	}
	for kind := range post.RequestBody.Content {
		p := producing{a: &API{o: Options{}.withDefaults()}, kind: kind}
		p.in.R = &http.Request{ContentLength: 1 << 40}
		if err := p.readBody(); problemOf(err).Code != api.TooLarge { // reached the encoding
			t.Errorf("POST /records does not accept %s: %v", kind, err)
		}
	}
	known := map[string]bool{
		"Last-Event-ID": true, "If-None-Match": true, "If-Match": false, VariableID: false, VariableEntity: false, ParamTrigger: false, ParamState: false, ParamCounts: false, VariableRun: false,
		variableQueue: false, variableMessage: false, variableSchedule: false, ParamDryRun: false, paramDelay: false, paramAt: false, paramDedup: false, paramPriority: false, paramExpire: false, paramOpen: false,
	}
	for _, name := range []string{api.HeaderProducerID, api.HeaderProducerEpoch, api.HeaderSequence, api.HeaderAfter} {
		known[name] = false
	}
	for _, name := range []string{
		httpconn.ParamTopic, httpconn.ParamPartition, httpconn.ParamOffset, httpconn.ParamMaxRecords, httpconn.ParamMaxBytes, httpconn.ParamMaxValueBytes, httpconn.ParamTimeout,
		httpconn.ParamWhere, httpconn.ParamContains, httpconn.ParamMaxScanBytes,
		httpconn.ParamRead, httpconn.ParamRole, httpconn.ParamExpectedOffset, httpconn.ParamAtomic, httpconn.ParamGroup, httpconn.ParamKey, httpconn.ParamKey + httpconn.Base64,
		httpconn.ParamPrefix, httpconn.ParamPrefix + httpconn.Base64, httpconn.ParamAfter, httpconn.ParamAfter + httpconn.Base64, httpconn.ParamBefore,
		httpconn.ParamLimit, httpconn.ParamOrder, httpconn.ParamMinOffset, httpconn.ParamIsolation, httpconn.ParamForce,
		httpconn.ParamMembers, httpconn.ParamTransactional, httpconn.ParamWindow, httpconn.ParamQuery,
		httpconn.ParamTime, httpconn.ParamSince, httpconn.ParamUntil, httpconn.ParamSample, httpconn.ParamOverlap, httpconn.ParamPrincipal, httpconn.ParamResource, httpconn.ParamPattern, httpconn.ParamOperation, httpconn.ParamDeny, httpconn.ParamHost,
	} {
		known[name] = false
	}
	for path, ops := range s.Paths {
		for _, op := range ops {
			for _, p := range op.Parameters {
				name, _ := p["name"].(string)
				if ref, ok := p["$ref"].(string); ok {
					name = s.Components.Parameters[strings.TrimPrefix(ref, "#/components/parameters/")].Name
				}
				if _, ok := known[name]; !ok {
					t.Errorf("%s: the spec has a parameter %q", path, name)
				}
				known[name] = true
			}
		}
	}
	for name, described := range known {
		if !described {
			t.Errorf("parameter %s is not in the spec", name)
		}
	}
}

func TestSpecIsServed(t *testing.T) {
	s := start(t)
	a := s.do(call{method: "GET", path: "/openapi.json", noKey: true})
	var served map[string]any
	if err := json.Unmarshal(a.body, &served); err != nil || fmt.Sprint(served["openapi"]) != "3.0.3" {
		t.Fatalf("%v: %.80s", err, a.body)
	}
	// Every reference resolves.
	var verify func(v any)
	verify = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				var at any = served
				for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					at, _ = at.(map[string]any)[step]
				}
				if at == nil {
					t.Errorf("dead reference %s", ref)
				}
			}
			for _, inner := range v {
				verify(inner)
			}
		case []any:
			for _, inner := range v {
				verify(inner)
			}
		}
	}
	verify(served)
}
