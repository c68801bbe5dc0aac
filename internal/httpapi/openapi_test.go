package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
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
			Enum       []string       `json:"enum"`
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

var fullTrigger = api.Trigger{Firings: &api.TriggerFirings{}, Late: true, Blocked: "b", Cooldown: "1d", OnRetract: "notify", Deliver: []byte("{}")}

// adminValues are values of the types of administration, dry runs and expressions with all members.
var adminValues = map[string]any{
	"Expression": api.Expression{}, "ExpressionSpan": api.ExpressionSpan{}, "ExpressionWarning": api.ExpressionWarning{},
	"Stories": api.Stories{NoneFires: "n", Note: "n", Truncated: true}, "StoryEvent": api.StoryEvent{Data: []byte("{}")},
	"Story":   api.Story{FiresMS: new(int64(1)), DiffersFrom: new(1), Difference: "d"},
	"Latency": api.Latency{Since: time.Unix(1, 0), Reason: "r"}, "LatencyCurve": api.LatencyCurve{}, "LatencyPoint": api.LatencyPoint{},
	"Group": api.Group{State: "Stable", Members: []api.GroupMember{}}, "GroupMember": api.GroupMember{Instance: "i"}, "TopicPartitions": api.TopicPartitions{},
	"Upgrade": api.Upgrade{RaiseAt: time.Unix(1, 0)}, "Secrets": api.Secrets{Key: "k"},
	"DryRunEstimate": api.DryRunEstimate{}, "Estimate": api.Estimate{}, "NotFired": api.NotFired{}, "DryRunProgress": api.DryRunProgress{},
	"Cluster": api.Cluster{}, "ClusterMember": api.ClusterMember{
		Self: true, URL: "u", Kafka: "k", KafkaID: 1, Version: "v", Epoch: 1, Position: "0:1:2", LagSeconds: new(1.5), SilentSeconds: 1, Apart: true, Why: "w",
	},
	"Cost": api.Cost{PutBudget: &api.PutBudget{}}, "PutBudget": api.PutBudget{}, "RequestCost": api.RequestCost{}, "StorageCost": api.StorageCost{},
	"Stats": api.Stats{Reason: "r"}, "StatsSeries": api.StatsSeries{},
	"Settings": api.Settings{}, "Setting": api.Setting{DefaultCompacted: "d", Choices: []string{"c"}, Unit: "u", Min: "1", Max: "2", Unlimited: true},
	"Rule": api.Rule{Deny: true, Host: "h"}, "Rules": api.Rules{},
	"TokenSpec": api.TokenSpec{
		Preset: "viewer",
		ID:     "i", Expires: time.Unix(1, 0), Rules: []api.Rule{{}},
		Scopes: api.Scopes{Read: []string{"r"}, Write: []string{"w"}, Admin: []string{"a"}, Groups: []string{"g"}, Triggers: []string{"t"}, Metrics: true, Cluster: true},
	},
	"Token": api.Token{Expires: time.Unix(1, 0), Used: time.Unix(1, 0)}, "TokenSecret": api.TokenSecret{Expires: time.Unix(1, 0), Used: time.Unix(1, 0)},
	"TokenCreated": api.TokenCreated{Hint: "h", Token: api.Token{Expires: time.Unix(1, 0), Used: time.Unix(1, 0)}}, "Tokens": api.Tokens{},
}

func TestSpecDescribesEveryCodeAndMember(t *testing.T) {
	s := readSpec(t)
	var codes []string
	for c := range api.Statuses {
		codes = append(codes, string(c))
	}
	slices.Sort(codes)
	if in := slices.Sorted(slices.Values(s.Components.Schemas["Code"].Enum)); !slices.Equal(codes, in) {
		t.Errorf("codes:\n%v\nspec:\n%v", codes, in)
	}
	// All members of a filled value of each type are properties of its schema.
	one, n := int32(1), int64(1)
	text := "x"
	at := time.Unix(1, 0)
	values := map[string]any{
		"Problem": api.Problem{
			Topic: "t", Detail: "d", Partition: &one, Offset: &n, NextOffset: &n, StartOffset: &n, Field: "f", Record: &n, Limit: &n,
			Given: &n, Leader: "l", Epoch: 1, Results: []api.PartitionResult{{}}, Group: "g", Committed: &n, Offsets: []api.OffsetResult{{}},
			Line: 1, Column: 2, Pointer: "/then/0",
		},
		"Produced":        api.Produced{Partition: &one, FirstOffset: &n, Results: []api.PartitionResult{{}}, Duplicate: true},
		"PartitionResult": api.PartitionResult{FirstOffset: &n, Code: api.Internal, Detail: "d"},
		"Offsets":         api.Offsets{Duplicate: true},
		"OffsetCommit":    api.OffsetCommit{ExpectedOffset: &n, NoMembers: true, Metadata: "m"},
		"OffsetEntry":     api.OffsetCommit{Topic: "t", Partition: &one, ExpectedOffset: &n, NoMembers: true, Metadata: "m"},
		"OffsetCommits":   api.OffsetCommits{}, "OffsetResults": api.OffsetResults{},
		"OffsetResult": api.OffsetResult{Code: api.Internal, Detail: "d", Committed: &n},
		"Groups":       api.Groups{}, "GroupOffset": api.GroupOffset{Metadata: "m"},
		"Topic": api.Topic{LatestCommitAt: at}, "Partition": api.Partition{LatestCommit: at}, "PartitionOffset": api.PartitionOffset{Timestamp: &n},
		"Record":       api.Record{KeyBase64: &text, ValueBase64: &text, ValueBytes: &n, Headers: []api.Header{{}}},
		"Header":       api.Header{ValueBase64: &text},
		"PlacedRecord": api.PartitionRecord{Record: api.Record{KeyBase64: &text, ValueBase64: &text, Headers: []api.Header{{}}}},
		"KeyEntry":     api.KeyEntry{Key: &text, KeyBase64: &text}, "Keys": api.Keys{Next: &text, NextBase64: &text},
		"KeyHistory": api.KeyHistory{Next: "n"},
		"Evaluation": api.Evaluation{Steps: []api.EvaluationStep{{}}, Truncated: true}, "EvaluationStep": api.EvaluationStep{Skipped: "not_yet", Effect: "e", Expr: "x"},
		"EventStored": api.EventStored{Duplicate: new(true), OriginalOffset: &n}, "EventNames": api.EventNames{}, "EventName": api.EventName{More: true}, "RiemannIndex": api.RiemannIndex{}, "EventProperty": api.EventProperty{},
		"TopicSpec": api.TopicSpec{Partitions: 1, Settings: map[string]json.RawMessage{"a": []byte("1")}},
		"Health":    api.Health{Epoch: 1, FormatLevel: 1, Run: "r"},
		"Status":    api.Status{Version: "v", Started: at, Reason: "r", Warnings: []string{"w"}, Kafka: &api.KafkaStatus{}, Riemann: &api.RiemannStatus{}},
		"TriggerSpec": api.TriggerSpec{
			Topic: "t", Fire: "f", Cooldown: "1d", Backfill: "b", CarryFired: new(true), OnRetract: "n", Status: "s", Deliver: []byte("{}"), KeepDeliver: true,
		},
		"Trigger":  fullTrigger,
		"Triggers": api.Triggers{}, "TriggerFirings": api.TriggerFirings{},
		"TriggerStored": api.TriggerStored{Trigger: fullTrigger},
		"HistoryStart":  api.HistoryStart{},
		"Firings":       api.Firings{}, "Entity": api.Entity{}, "EntityTrigger": api.EntityTrigger{AsOf: at},
		"Firing": api.Firing{
			RecordedAt: at, RetractedAt: at, Retraction: true, NextAttempt: at, Outcome: []byte("1"), Held: "paused",
			Witness: []api.MatchedEvent{{}},
		},
		"Explanation": api.Explanation{AsOf: at}, "DryRun": api.DryRun{}, "Sample": api.Sample{Witness: []api.MatchedEvent{{}}},
		"WitnessEvent": api.MatchedEvent{ID: "i", Data: []byte("{}")}, "AwaitedEvent": api.AwaitedEvent{},
	}
	maps.Copy(values, adminValues)
	for name, v := range values {
		b := must.Get(json.Marshal(v))(t)
		var members map[string]any
		must.NoError(t, json.Unmarshal(b, &members))
		got, want := slices.Sorted(maps.Keys(members)), slices.Sorted(maps.Keys(s.Components.Schemas[name].Properties))
		if !slices.Equal(got, want) {
			t.Errorf("%s: members %v, spec %v", name, got, want)
		}
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
	}
	for _, name := range []string{api.HeaderProducerID, api.HeaderProducerEpoch, api.HeaderSequence, api.HeaderAfter} {
		known[name] = false
	}
	for _, name := range []string{
		httpconn.ParamTopic, httpconn.ParamPartition, httpconn.ParamOffset, httpconn.ParamMaxRecords, httpconn.ParamMaxBytes, httpconn.ParamMaxValueBytes, httpconn.ParamTimeout,
		httpconn.ParamWhere, httpconn.ParamContains, httpconn.ParamMaxScanBytes,
		httpconn.ParamRead, httpconn.ParamRole, httpconn.ParamExpectedOffset, httpconn.ParamGroup, httpconn.ParamKey, httpconn.ParamKey + httpconn.Base64,
		httpconn.ParamPrefix, httpconn.ParamPrefix + httpconn.Base64, httpconn.ParamAfter, httpconn.ParamAfter + httpconn.Base64, httpconn.ParamBefore,
		httpconn.ParamLimit, httpconn.ParamOrder, httpconn.ParamMinOffset, httpconn.ParamForce,
		httpconn.ParamMembers, httpconn.ParamWindow, httpconn.ParamQuery,
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
