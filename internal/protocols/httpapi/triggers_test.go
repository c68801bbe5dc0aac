package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// triggerServer is a broker with a trigger engine.
func triggerServer(t *testing.T, change ...func(*setup)) *server {
	t.Helper()
	return start(t, append(change, func(c *setup) { c.keys = true })...)
}

// putTrigger creates or changes a trigger.
func (s *server) putTrigger(status int, id, body string) (out api.TriggerStored) {
	s.t.Helper()
	s.must(status, s.send("PUT", "/triggers/"+id, body), &out)
	return out
}

// delivery returns the delivery of a trigger with its secrets.
func (s *server) delivery(id string) []byte {
	s.t.Helper()
	e := s.api.o.Triggers
	_, stored := must.Get2(e.Stored(s.t.Context(), id))(s.t)
	text := must.Get(e.Opened(&stored.Definition))(s.t)
	return text
}

func (s *server) postEvents(list ...string) {
	s.t.Helper()
	for _, e := range list {
		name, entity, _ := strings.Cut(e, " ")
		s.must(201, s.event("", "", fmt.Sprintf(`{"event":%q,"entity_id":%q,"data":{"n":1.50}}`, name, entity)), nil)
	}
}

// fired waits until a trigger has n recorded firings, and returns them.
func (s *server) fired(t *testing.T, trigger string, n int) (out api.Firings) {
	t.Helper()
	sebtest.Eventually(t, fmt.Sprintf("%d firings of %s", n, trigger), func() bool {
		s.must(200, s.get("/firings?trigger="+trigger), &out)
		return len(out.Firings) == n && !slices.ContainsFunc(out.Firings, func(x api.Firing) bool { return x.RecordedAt.IsZero() })
	})
	return out
}

// TestFirstRequestsAfterAStart: no route refuses because what it reads is not open yet.
func TestFirstRequestsAfterAStart(t *testing.T) {
	store := objstore.NewMemory()
	again := func(c *setup) { c.store = store }
	s := keyedServer(t, 1, again)
	s.putTrigger(201, "t", `{"expr":"a"}`)
	s.postEvents("a u")
	value := "v"
	s.putKey([]byte("k"), &value, 0)
	for _, path := range []string{
		"/triggers", "/triggers?counts=true", "/triggers/t", "/triggers/t/entities/u", "/entities/u", "/firings", "/secrets",
		"/keys?topic-name=t", "/key?topic-name=t&key=k&read=latest", "/key/history?topic-name=t&key=k", "/riemann/index?query=true", "/topics", "/groups", "/status",
	} {
		s := triggerServer(t, again)
		if a := s.get(path); a.status != http.StatusOK {
			t.Errorf("GET %s: %s", path, a)
		}
	}
}

// TestLongListOfTriggers checks that a long list is sent in parts and has each trigger once,
// ordered by ID.
func TestLongListOfTriggers(t *testing.T) {
	s := triggerServer(t)
	var want, got []string
	for i := range 80 {
		id := fmt.Sprintf("t%02d", i)
		s.putTrigger(201, id, fmt.Sprintf(`{"expr":"a OR %s%d"}`, strings.Repeat("n", 250), i))
		want = append(want, id)
	}
	a := s.get("/triggers")
	var out api.Triggers
	s.must(200, a, &out)
	for i := range out.Triggers {
		got = append(got, out.Triggers[i].ID)
	}
	if !slices.Equal(got, want) || a.header.Get("Content-Length") != "" {
		t.Errorf("%d bytes of length %q have %v", len(a.body), a.header.Get("Content-Length"), got)
	}
}

const signed = `{"url":"https://example.com/hook","secrets":["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"],"headers":{"Authorization":"swordfish"}}`

// TestKeptDelivery: a new definition can keep the delivery with its secrets.
func TestKeptDelivery(t *testing.T) {
	s := triggerServer(t)
	created := s.putTrigger(201, "t", `{"expr":"a","deliver":`+signed+`}`)
	kept := s.putTrigger(200, "t", `{"expr":"a THEN b","keep_deliver":true}`)
	if kept.Version != 2 || string(kept.Deliver) != string(created.Deliver) {
		t.Errorf("%+v, want the delivery of %+v", kept, created)
	}
	if got := s.delivery("t"); !secrets.Same(got, []byte(signed)) {
		t.Errorf("the kept delivery is %s, want %s", got, signed)
	}
	s.putTrigger(201, "none", `{"expr":"a"}`)
	if got := s.putTrigger(200, "none", `{"expr":"b","keep_deliver":true}`); got.Deliver != nil {
		t.Errorf("%+v, want no delivery", got)
	}
	for id, body := range map[string]string{"t": `{"expr":"a","keep_deliver":true,"deliver":` + signed + `}`, "new": `{"expr":"a","keep_deliver":true}`} {
		if p := s.send("PUT", "/triggers/"+id, body).problem(t); p.Status != 400 || p.Field != "keep_deliver" {
			t.Errorf("%s: %+v", id, p)
		}
	}
}

func TestTriggerLifecycle(t *testing.T) {
	s := triggerServer(t)
	var none api.Triggers
	if a := s.get("/triggers"); a.status != 200 || string(a.body) != `{"triggers":[]}` {
		t.Errorf("%s", a)
	}
	if a := s.get("/firings"); a.status != 200 || string(a.body) != `{"firings":[],"next":null}` {
		t.Errorf("%s", a)
	}
	body := `{"expr":"created\nTHEN (NOT used WITHIN 7 days)","fire":"edge","cooldown":"90 min","on_retract":"notify","deliver":` + signed + `}`
	a := s.send("PUT", "/triggers/no-x", body)
	for _, secret := range []string{"c2VjcmV0", "swordfish"} {
		if bytes.Contains(a.body, []byte(secret)) {
			t.Errorf("%s is in %s", secret, a)
		}
	}
	var created api.TriggerStored
	s.must(201, a, &created)
	if created.Version != 1 || created.Class != "windowed" || fmt.Sprint(created.Names) != "[created used]" || created.Text != "created\nTHEN (NOT used WITHIN 7 days)" ||
		created.Cooldown != "1h30m" || created.Topic != "events" || created.Status != "active" || created.Backfill != "silent" || !created.CarryFired ||
		created.OnRetract != "notify" || created.Warnings == nil || len(created.History) != 1 || created.CreatedAt.IsZero() ||
		string(created.Expr) != `{"then":[{"event":"created"},{"not":{"within":{"event":"used"},"for":"7d"}}]}` ||
		string(created.Deliver) != `{"url":"https://example.com/hook","headers":{"Authorization":"***"},"secrets":["whsec_***"]}` {
		t.Errorf("%+v", created)
	}
	if again := s.putTrigger(200, "no-x", body); again.Version != 1 || !again.VersionAt.Equal(created.VersionAt) {
		t.Errorf("%+v", again)
	}
	for path, status := range map[string]string{"/pause": "paused", "/resume": "active"} {
		var got api.Trigger
		s.must(200, s.send("POST", "/triggers/no-x"+path, ""), &got)
		check.Equalf(t, got.Status, status, "%s: %+v", path, got)
	}
	s.must(200, s.send("POST", "/triggers/no-x/pause", ""), nil)
	changed := s.putTrigger(200, "no-x", `{"expr":{"then":[{"event":"created"},{"event":"b"}]}}`)
	if changed.Version != 2 || changed.Status != "paused" || changed.Text != "created THEN b" || changed.Class != "constant" || changed.Deliver != nil ||
		changed.Fire != "once" || !changed.CreatedAt.Equal(created.CreatedAt) || !changed.VersionAt.After(created.VersionAt) {
		t.Errorf("%+v", changed)
	}
	if active := s.putTrigger(200, "no-x", `{"expr":"created THEN b","status":"active"}`); active.Version != 2 || active.Status != "active" {
		t.Errorf("%+v", active)
	}
	var got api.Trigger
	s.must(200, s.get("/triggers/no-x"), &got)
	s.must(200, s.get("/triggers"), &none)
	if len(none.Triggers) != 1 || none.Triggers[0].ID != "no-x" || got.Version != 2 {
		t.Errorf("%+v, %+v", none, got)
	}
	s.must(204, s.send("DELETE", "/triggers/no-x", ""), nil)
	for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/pause"}, {"POST", "/resume"}, {"GET", "/entities/u1"}} {
		if p := s.send(c[0], "/triggers/no-x"+c[1], "").problem(t); p.Code != api.UnknownTrigger {
			t.Errorf("%s %s: %+v", c[0], c[1], p)
		}
	}
	if again := s.putTrigger(201, "no-x", `{"expr":"created"}`); again.Version < 1 {
		t.Errorf("%+v", again)
	}
}

func TestTriggerFaults(t *testing.T) {
	s := triggerServer(t)
	for body, want := range map[string]api.Problem{
		`{"expr":"A\nTHEN (B WITHIN 2 parsecs)"}`:   {Field: "expr", Line: 2, Column: 16, Detail: "expr: 2:16: unknown unit 'parsecs'"},
		`{"expr":{"then":[{"event":"A"},{"x":1}]}}`: {Field: "expr", Pointer: "/then/1/x", Detail: "expr: /then/1/x: "},
		`{"expr":"NOT A"}`:                          {Field: "expr", Detail: "expr: is true before anything has happened"},
		`{"expr":null}`:                             {Field: "expr", Detail: "expr: missing"},
		`{}`:                                        {Field: "expr", Detail: "expr: missing"},
		`{"expr":"A","colour":1}`:                   {Field: "colour", Detail: "colour: unknown member"},
		`{"expr":"A","version":1}`:                  {Field: "version", Detail: "version: unknown member"},
		`{"expr":"A","fire":7}`:                     {Field: "fire", Detail: "fire: want a string, given a JSON number"},
		`{"expr":"A"} {}`:                           {Field: "body", Detail: "body: more than one JSON value"},
		`{"expr":"A"`:                               {Field: "body", Detail: "body: line 1, column 11: unexpected end of JSON input"},
		`{"expr":"A","fire":"twice"}`:               {Field: "fire", Detail: `fire: invalid mode "twice", want once, edge or reset`},
		`{"expr":"A","cooldown":"1d"}`:              {Field: "cooldown", Detail: "cooldown: requires fire edge or reset"},
		`{"expr":"A","fire":"edge","cooldown":"1 fortnight"}`:                           {Field: "cooldown", Detail: "cooldown: unknown unit 'fortnight'"},
		`{"expr":"A","backfill":"all"}`:                                                 {Field: "backfill", Detail: `backfill: invalid policy "all"`},
		`{"expr":"A","on_retract":"x"}`:                                                 {Field: "on_retract", Detail: `on_retract: invalid value "x"`},
		`{"expr":"A","status":"off"}`:                                                   {Field: "status", Detail: `status: invalid value "off"`},
		`{"expr":"A","topic":"triggers"}`:                                               {Field: "topic", Detail: "topic: topic \"triggers\" does not hold events"},
		`{"expr":"A","deliver":{"uri":"x"}}`:                                            {Field: "deliver", Detail: "deliver: uri: unknown member"},
		`{"expr":"A","deliver":{"url":"http://127.0.0.1/","secrets":[]}}`:               {Field: "deliver", Detail: "deliver: url: host refused"},
		`{"expr":"A","deliver":` + strings.Replace(signed, "swordfish", "***", 1) + `}`: {Field: "deliver", Detail: `deliver: headers: the value of Authorization is masked`},
		`{"expr":"A","deliver":{"url":"https://e.com","secrets":["whsec_***"]}}`:        {Field: "deliver", Detail: "deliver: secrets: number 1 is masked"},
		`{"expr":"A","deliver":["x"]}`:                                                  {Field: "deliver", Detail: "deliver: want an object"},
		`["A"]`:                                                                         {Field: "body", Detail: "body: want an object, given a JSON array"},
		`{"expr":"A","topic":"a/b"}`:                                                    {Field: "topic", Detail: `topic: topic name "a/b": want 1 to 249`},
		`{"expr":"A","deliver":` + strings.TrimSuffix(signed, "}") + `,"template":"{{.Witness.B}}"}}`: {Field: "deliver", Detail: "deliver: template: "},
	} {
		for _, path := range []string{"/triggers/t", "/triggers/dry-run"} {
			method := "PUT"
			if path != "/triggers/t" {
				if method = "POST"; want.Field == "status" || want.Field == "topic" || want.Field == "backfill" {
					continue // irrelevant, or reported differently
				}
			}
			p := s.send(method, path, body).problem(t)
			if p.Code != api.BadRequest || p.Field != want.Field || p.Line != want.Line || p.Column != want.Column || p.Pointer != want.Pointer ||
				!strings.HasPrefix(p.Detail, want.Detail) {
				t.Errorf("%s %s: %+v", path, body, p)
			}
			if strings.Contains(p.Detail, "c2VjcmV0") || strings.Contains(p.Detail, "swordfish") {
				t.Errorf("a secret: %s", p.Detail)
			}
		}
		var checked api.TriggerCheck
		a := s.send("POST", "/triggers/check?id=t", body)
		if a.status == 200 {
			s.must(200, a, &checked)
		} else {
			p := a.problem(t)
			checked.Faults = []api.TriggerFault{{Field: p.Field, Detail: strings.TrimPrefix(p.Detail, p.Field+": ")}}
		}
		if len(checked.Faults) == 0 || !strings.HasPrefix(strings.Replace(checked.Faults[0].Field, ".", ": ", 1)+": "+checked.Faults[0].Detail, want.Detail) || strings.Contains(string(a.body), "c2VjcmV0") {
			t.Errorf("POST /triggers/check %s: %s", body, a)
		}
	}
	if a := s.get("/triggers"); string(a.body) != `{"triggers":[]}` {
		t.Errorf("triggers were created: %s", a)
	}
}

// TestTriggerCheck: all faults of a definition have their fields, also before its expression is
// there, and a check changes nothing.
func TestTriggerCheck(t *testing.T) {
	t.Parallel()
	s := triggerServer(t)
	s.must(201, s.send("PUT", "/topic?topic-name=plain", `{}`), nil)
	s.putTrigger(201, "taken", `{"expr":"A","deliver":{"url":"https://e.com","secrets":["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"],"template":"{{.Witness.A.Time}}"}}`)
	for name, c := range map[string]struct {
		id, body string
		want     []string
	}{
		"nothing":         {"new", `{"expr":"A"}`, nil},
		"no expression":   {"", `{"topic":"a/b","fire":"edge","cooldown":"100000d"}`, []string{"cooldown", "expr", "id", "topic"}},
		"an ID in use":    {"taken", `{"expr":"A"}`, []string{"id"}},
		"kept delivery":   {"taken", `{"expr":"B","keep_deliver":true}`, []string{"deliver.template", "id"}},
		"nothing to keep": {"new", `{"expr":"A","keep_deliver":true}`, []string{"keep_deliver"}},
		"no append times": {"new", `{"expr":"A","topic":"plain"}`, []string{"topic"}},
		"its own topics":  {"new", `{"expr":"A","topic":"firings","deliver":{"topic":"triggers"}}`, []string{"deliver.topic", "topic"}},
		"a delivery": {
			"new", `{"expr":"A","deliver":{"url":"ftp://e.com","secrets":["whsec_x"],"headers":{"Host":"x","Te":"y"},"template":"{{.Witness.B}}","content_type":"x",` +
				`"quiet_hours":{"from":"1","to":"2","zone":"Here"},"frequency_cap":{"count":0,"per":"x"},"retries":["soon"]}}`,
			[]string{
				"deliver.content_type", "deliver.frequency_cap", "deliver.headers", "deliver.quiet_hours", "deliver.quiet_hours", "deliver.quiet_hours",
				"deliver.retries", "deliver.secrets", "deliver.template", "deliver.url",
			},
		},
	} {
		var got api.TriggerCheck
		s.must(200, s.do(call{method: "POST", path: "/triggers/check?id=" + c.id, body: strings.NewReader(c.body), header: map[string]string{"Content-Type": api.JSON, "If-None-Match": "*"}}), &got)
		var fields []string
		for _, f := range got.Faults {
			fields = append(fields, f.Field)
		}
		slices.Sort(fields)
		check.Equalf(t, fmt.Sprint(fields), fmt.Sprint(c.want), "%s: faults of %+v", name, got)
	}
	if a := s.get("/triggers/new"); a.status != 404 {
		t.Errorf("a check stored a trigger: %s", a)
	}
}

// TestWarningsByRole: only a key that may change the broker learns that its bucket has readable
// secrets. The author of a trigger cannot act on it.
func TestWarningsByRole(t *testing.T) {
	t.Parallel()
	s := triggerServer(t, func(c *setup) { c.plain = true })
	key := s.token("author", time.Time{})
	author := []access.Rule{permit(access.All, access.Trigger, access.Any), permit(access.All, access.Topic, "events")}
	operator := append(author, permit(access.Alter, access.Cluster, access.ClusterName))
	for want, rules := range map[string][]access.Rule{`"warnings":[]`: author, `the secrets are readable in the bucket: seb secrets init`: operator} {
		s.allow("author", rules...)
		a := s.matrix("PUT", "/triggers/t", api.JSON, `{"expr":"A","deliver":{"url":"https://e.com","secrets":["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"]}}`, authorization(key))
		if a.status > 201 || !strings.Contains(string(a.body), want) {
			t.Errorf("with %v: %s, want %s", rules, a, want)
		}
	}
}

// TestBadTriggerRequests covers faults in the path, the size, the query and the state.
func TestBadTriggerRequests(t *testing.T) {
	t.Parallel()
	s := triggerServer(t)
	for _, id := range []string{"a%20b", "%C3%A4", strings.Repeat("a", 129)} {
		if p := s.send("PUT", "/triggers/"+id, `{"expr":"A"}`).problem(t); p.Code != api.BadRequest || p.Field != "id" {
			t.Errorf("%s: %+v", id, p)
		}
	}
	if p := s.send("PUT", "/triggers/t", strings.Repeat(" ", 512<<10+1)).problem(t); p.Code != api.TooLarge || *p.Limit != 512<<10 {
		t.Errorf("%+v", p)
	}
	s.must(201, s.send("PUT", "/topic?topic-name=plain", `{}`), nil)
	if p := s.send("PUT", "/triggers/t", `{"expr":"A","topic":"plain"}`).problem(t); p.Code != api.BadRequest || !strings.Contains(p.Detail, "timestamp-type=append") {
		t.Errorf("%+v", p)
	}
	if a := s.get("/triggers"); string(a.body) != `{"triggers":[]}` {
		t.Errorf("triggers were created: %s", a)
	}
	for _, query := range []string{"limit=1001", "limit=x", "after=-1", "before=-1", "trigger=a&trigger=b", "entity=", "state=lost", "order=", "order=up"} {
		if p := s.get("/firings?" + query).problem(t); p.Code != api.BadRequest {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for _, path := range []string{"/firings/1", "/firings/" + strings.Repeat("0", 32), "/firings/" + strings.Repeat("g", 32)} {
		if p := s.get(path).problem(t); p.Code != api.UnknownFiring {
			t.Errorf("%s: %+v", path, p)
		}
		if p := s.send("POST", path+"/resend", "").problem(t); p.Code != api.UnknownFiring {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// TestTriggersInPages: the list of triggers has pages, and finds triggers by ID and by their events.
func TestTriggersInPages(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "each", `{"expr":"a"}`)
	s.putTrigger(201, "held", `{"expr":"a"}`)
	for query, want := range map[string]string{
		"limit=2": "each held", "limit=1": "each, next each", "limit=1&after=each": "held", "limit=1&contains=HEL&counts=true": "held", "contains=a": "each held", "contains=b": "",
	} {
		l := s.list("/triggers?"+query, "id")
		got := strings.Join(l.names, " ")
		if l.next != "" {
			got += ", next " + l.next
		}
		check.Equalf(t, got, want, "triggers?%s", query)
	}
}

// TestFiringsAreSelectedOverHTTP: filters and orders give the same firings in pages of every size,
// also if a page ends because of the firings that it leaves out.
func TestFiringsAreSelectedOverHTTP(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "each", `{"expr":"a","fire":"reset"}`)
	s.putTrigger(201, "held", `{"expr":"a","fire":"reset","status":"paused"}`)
	s.postEvents("a u1", "a u2", "a u1", "a u2", "a u1", "a u1")
	s.fired(t, "each", 6)
	s.fired(t, "held", 6)
	var all api.Firings
	s.must(200, s.get("/firings"), &all)
	var list api.Triggers
	s.must(200, s.get("/triggers?counts=true"), &list)
	var one api.Trigger
	s.must(200, s.get("/triggers/held?counts=true"), &one)
	for _, f := range []*api.TriggerFirings{list.Triggers[1].Firings, one.Firings} {
		if f == nil || f.States["suppressed"] != 6 || len(f.States) != 1 || f.Day != 6 || f.Week != 6 || f.Since != nil || f.Last == nil || f.OldestPending != nil {
			t.Errorf("%+v", f)
		}
	}
	if f := list.Triggers[0].Firings; f.Pending != 6 || f.OldestPending == nil || !f.OldestPending.Equal(all.Firings[0].At) {
		t.Errorf("%+v", f)
	}
	if p := s.get("/triggers?counts=1").problem(t); p.Code != api.BadRequest || p.Field != "counts" {
		t.Errorf("%+v", p)
	}
	for query, match := range map[string]func(x *api.Firing) bool{
		"":                              func(*api.Firing) bool { return true },
		"entity=u1":                     func(x *api.Firing) bool { return x.Entity == "u1" },
		"entity=u2&trigger=held":        func(x *api.Firing) bool { return x.Entity == "u2" && x.Trigger == "held" },
		"state=suppressed":              func(x *api.Firing) bool { return x.Trigger == "held" },
		"state=pending&entity=u2":       func(x *api.Firing) bool { return x.Trigger == "each" && x.Entity == "u2" },
		"state=dead":                    func(*api.Firing) bool { return false },
		"entity=u9":                     func(*api.Firing) bool { return false },
		"state=suppressed&trigger=each": func(*api.Firing) bool { return false },
	} {
		var want []string
		for i := range all.Firings {
			if x := &all.Firings[i]; match(x) {
				want = append(want, x.ID)
			}
		}
		for _, order := range []string{"oldest", "newest"} {
			cursor := map[string]string{"oldest": "after", "newest": "before"}[order]
			for _, page := range []struct{ limit, passed int }{{100, passedMax}, {1, passedMax}, {2, 2}, {100, 1}} {
				s.api.triggers.passedMax = page.passed
				var got []string
				for next := ""; ; {
					var out api.Firings
					s.must(200, s.get(fmt.Sprintf("/firings?%s&order=%s&limit=%d%s", query, order, page.limit, next)), &out)
					for i := range out.Firings {
						got = append(got, out.Firings[i].ID)
					}
					if out.Next == nil {
						break
					}
					if len(out.Firings) > page.limit || len(got) > len(want) {
						t.Fatalf("%s, %s: %v, want %v", query, order, got, want)
					}
					next = fmt.Sprintf("&%s=%d", cursor, *out.Next)
				}
				check.EqualSlicesf(t, got, want, "%s, %s, pages of %d, %d left out", query, order, page.limit, page.passed)
			}
			slices.Reverse(want)
		}
	}
}

func TestFiringsOverHTTP(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "ab", `{"expr":"a THEN b","fire":"reset"}`)
	s.putTrigger(201, "never", `{"expr":"x"}`)
	s.postEvents("a u1", "b u1", "a u1", "b u1", "a ü/2", "b ü/2")
	all := s.fired(t, "ab", 3)
	if all.Next != nil || all.Firings[0].Entity != "u1" || all.Firings[2].Entity != "ü/2" || fmt.Sprint(all.Firings[1].Offsets) != "[2 3]" {
		t.Errorf("%+v", all)
	}
	first := all.Firings[0]
	if want := rule.MakeID("ab", 1, "u1", rule.EventCause(0, 1)).String(); first.ID != want || first.Cause != "o:0:1" || first.Version != 1 ||
		first.Topic != "events" || first.State != "pending" && first.State != "delivered" || first.At.IsZero() || first.Witness != nil {
		t.Errorf("%+v", first)
	}
	var seen []string
	for path := "/firings?limit=1&trigger=ab"; ; {
		var page api.Firings
		s.must(200, s.get(path), &page)
		for _, x := range page.Firings {
			seen = append(seen, x.ID)
		}
		if page.Next == nil {
			break
		}
		path = fmt.Sprintf("/firings?limit=1&trigger=ab&after=%d", *page.Next)
	}
	if len(seen) != 3 || seen[0] != all.Firings[0].ID || seen[2] != all.Firings[2].ID {
		t.Errorf("%q", seen)
	}
	var one api.Firing
	s.must(200, s.get("/firings/"+first.ID), &one)
	if len(one.Witness) != 2 || one.Witness[0].Event != "a" || one.Witness[1].Event != "b" || string(one.Witness[1].Data) != `{"n":1.50}` ||
		one.Witness[1].Offset != 1 || one.Witness[1].Time.IsZero() {
		t.Errorf("%+v", one)
	}
	s.must(200, s.send("POST", "/firings/"+first.ID+"/resend", ""), &one)
	if one.ID != first.ID || one.Attempts != 0 {
		t.Errorf("%+v", one)
	}
	if n := s.fired(t, "ab", 3); len(n.Firings) != 3 {
		t.Errorf("%+v", n)
	}
}

func TestExplainAndEraseEntity(t *testing.T) {
	s := triggerServer(t)
	s.putTrigger(201, "no-x", `{"expr":"created THEN (NOT used WITHIN 7 days)"}`)
	s.putTrigger(201, "now", `{"expr":"created"}`)
	const name = "a b/ü?"
	explain := func(trigger string) (x api.Explanation) {
		t.Helper()
		s.must(200, s.get("/triggers/"+trigger+"/entities/"+url.PathEscape(name)), &x)
		return x
	}
	if x := explain("no-x"); x.Known || x.Value || x.Next != nil || x.Entity != name || x.WaitsFor == "" || fmt.Sprint(x.Names) != "[created used]" {
		t.Errorf("%+v", x)
	}
	var at api.EventStored
	s.must(201, s.event("", "", fmt.Sprintf(`{"event":"created","entity_id":%q}`, name)), &at)
	s.fired(t, "now", 1)
	sebtest.Eventually(t, "the entity is known", func() bool { return explain("no-x").Known })
	if x := explain("no-x"); x.Value || x.Completed || x.Next == nil || !x.Next.Equal(at.Time.Add(7*24*time.Hour)) || x.Instances == 0 || len(x.Firings) != 0 {
		t.Errorf("%+v", x)
	} else {
		end := at.Time.Add(7 * 24 * time.Hour)
		want, _ := json.Marshal([]api.AwaitedEvent{
			{Event: "used", Expr: "used", Role: api.MustNotCome, Need: 1, Until: &end},
			{Event: "created", Expr: "created", Role: api.Starts, Need: 1},
		})
		if got, _ := json.Marshal(x.Awaited); string(got) != string(want) {
			t.Errorf("awaited %s, want %s", got, want)
		}
	}
	if x := explain("now"); !x.Fired || !x.Completed || len(x.Firings) != 1 || x.Firings[0].Entity != name {
		t.Errorf("%+v", x)
	}
	s.must(204, s.send("DELETE", "/entities/"+url.PathEscape(name), ""), nil)
	if x := explain("no-x"); x.Known {
		t.Errorf("%+v", x)
	}
	s.fired(t, "now", 0)
	for path, field := range map[string]string{
		"/entities/" + strings.Repeat("a", 1025): "entity", "/entities/%ff": "entity", "/entities/u?topic-name=none": "", "/entities/u?topic-name=a%20b": "topic-name",
	} {
		if p := s.send("DELETE", path, "").problem(t); p.Code != api.BadRequest || p.Field != field {
			t.Errorf("%.40s: %+v", path, p)
		}
	}
}

func TestDryRunOverHTTP(t *testing.T) {
	s := triggerServer(t)
	if p := s.send("POST", "/triggers/dry-run", `{"expr":"a"}`).problem(t); p.Code != api.BadRequest || p.Field != "topic" {
		t.Errorf("without events: %+v", p)
	}
	s.postEvents("a u1", "b u1", "c u1", "a u2", "a u3", "b u3")
	var out api.DryRun
	s.must(200, s.send("POST", "/triggers/dry-run", `{"expr":"a THEN b"}`), &out)
	days := int64(0)
	for _, n := range out.Days {
		days += n
	}
	if out.Events != 6 || out.Matched != 5 || out.Entities != 3 || out.Firings != 2 || out.True != 2 || days != 2 || out.Truncated || out.Class != "constant" ||
		fmt.Sprint(out.Names) != "[a b]" || len(out.Samples) != 2 || len(out.Samples[1].Witness) != 2 || out.Samples[1].Entity != "u3" || out.AsOf.IsZero() {
		t.Errorf("%+v", out)
	}
	if a := s.get("/triggers"); string(a.body) != `{"triggers":[]}` {
		t.Errorf("triggers were created: %s", a)
	}
	var topics api.Topics
	if s.must(200, s.get("/topics"), &topics); len(topics.Topics) != 1 {
		t.Errorf("%+v", topics)
	}
}

// TestBrokersWithoutTriggers covers every route of triggers.
func TestBrokersWithoutTriggers(t *testing.T) {
	s := start(t)
	for _, rt := range routes {
		if !strings.HasPrefix(rt.path, "/triggers") && !strings.HasPrefix(rt.path, "/firings") && !strings.HasPrefix(rt.path, "/entities") {
			continue
		}
		l := validRequests[rt.name()]
		if p := s.send(rt.method, l.target(rt, 1), l.body).problem(t); p.Code != api.TriggersOff || p.Status != http.StatusNotFound {
			t.Errorf("%s: %+v", rt.name(), p)
		}
	}
}

// TestTriggersWithoutAStore: a change that may have been stored has an unknown outcome and can be
// repeated.
func TestTriggersWithoutAStore(t *testing.T) {
	t.Parallel()
	var store *storetest.Faulty
	s := triggerServer(t, func(c *setup) {
		store = storetest.NewFaulty(c.store, 1, storetest.Faults{})
		c.store, c.http.AckTimeout = store, 300*time.Millisecond
	})
	sebtest.Eventually(t, "the trigger is stored", func() bool { // on a busy machine not within the short timeout
		return s.send("PUT", "/triggers/t", `{"expr":"a"}`).status < 300
	})
	store.SetFaults(storetest.Faults{Put: storetest.Rates{storetest.Before: 1}})
	for _, c := range [][3]string{{"PUT", "/triggers/t", `{"expr":"b"}`}, {"POST", "/triggers/t/pause", ""}, {"DELETE", "/entities/u", ""}} {
		p := s.send(c[0], c[1], c[2]).problem(t)
		if p.Code != api.OutcomeUnknown && p.Code != api.StoreUnavailable {
			t.Errorf("%s %s: %+v", c[0], c[1], p)
		}
	}
	store.SetFaults(storetest.Faults{})
	sebtest.Eventually(t, "the change is made", func() bool {
		a := s.send("PUT", "/triggers/t", `{"expr":"c","status":"active"}`)
		var out api.TriggerStored
		return a.status == 200 && json.Unmarshal(a.body, &out) == nil && out.Text == "c" && out.Status == "active"
	})
}

// TestFiringsFitIntoLittleMemory: a broker with little memory still answers, and large answers end
// early.
func TestFiringsFitIntoLittleMemory(t *testing.T) {
	sebtest.Long(t, "TestScanInLittleMemory and TestLongListOfTriggers remain")
	s := triggerServer(t, func(c *setup) { c.limit = 64 << 20 })
	s.putTrigger(201, "abc", `{"expr":"a THEN b THEN c THEN d"}`)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.must(201, s.event("", "", fmt.Sprintf(`{"event":%q,"entity_id":"u","data":{"x":%q}}`, name, strings.Repeat("x", 250<<10))), nil)
	}
	id := s.fired(t, "abc", 1).Firings[0].ID
	var one api.Firing
	s.must(200, s.get("/firings/"+id), &one)
	if len(one.Offsets) != 4 || len(one.Witness) != 3 || one.Witness[2].Event != "c" {
		t.Errorf("%d events at %v", len(one.Witness), one.Offsets)
	}
	s.must(200, s.get("/triggers/abc/entities/u"), nil)
	var run api.DryRun
	s.must(200, s.send("POST", "/triggers/dry-run", `{"expr":"a THEN b THEN c THEN d"}`), &run)
	if len(run.Samples) != 1 || len(run.Samples[0].Offsets) != 4 || len(run.Samples[0].Witness) != 3 {
		t.Errorf("%d samples", len(run.Samples))
	}
	// Entities with long names fill a page before its limit.
	s.putTrigger(201, "hit", `{"expr":"hit"}`)
	const n = 400
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "{\"event\":\"hit\",\"entity_id\":\"%01000d\"}\n", i)
	}
	s.must(201, s.event("", api.NDJSON, lines.String()), nil)
	seen := map[string]bool{}
	sebtest.Eventually(t, "all are listed", func() bool {
		for path := "/firings?limit=1000&trigger=hit"; ; {
			var page api.Firings
			s.must(200, s.get(path), &page)
			for _, x := range page.Firings {
				seen[x.Entity] = true
			}
			if len(page.Firings) >= n {
				t.Fatalf("%d in one page", len(page.Firings))
			}
			if page.Next == nil {
				return len(seen) == n
			}
			path = fmt.Sprintf("/firings?limit=1000&trigger=hit&after=%d", *page.Next)
		}
	})
}
