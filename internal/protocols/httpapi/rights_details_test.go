package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
)

// TestRightsThatTheHandlerAsksFor: each case has the rules of a token and a request with its answer.
func TestRightsThatTheHandlerAsksFor(t *testing.T) {
	s := everyRoute(t)
	s.must(200, s.send("PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":1}`), nil)
	s.must(201, s.send("PUT", "/topic?topic-name=hidden", ""), nil)
	s.must(200, s.send("PUT", "/offsets?group=g&topic-name=hidden&partition=0", `{"offset":0}`), nil)
	key := s.token("client", time.Time{})
	topic := func(name string, ops ...access.Operation) (rules []access.Rule) {
		for _, o := range ops {
			rules = append(rules, permit(o, access.Topic, name))
		}
		return rules
	}
	group := permit(access.Read, access.Group, "g")
	trigger := permit(access.All, access.Trigger, access.Any)
	const commits = `{"offsets":[{"topic":"t","partition":0,"offset":1},{"topic":"hidden","partition":0,"offset":1}]}`
	for name, c := range map[string]struct {
		rules               []access.Rule
		method, path, body  string
		status              int
		contains, mustNotBe string
	}{
		"a record does not create a topic":     {topic("new1", access.Write), "POST", "/records?topic-name=new1", `[{"value":"v"}]`, 403, "create on topic", ""},
		"a record creates a topic":             {topic("new2", access.Write, access.Create), "POST", "/records?topic-name=new2", `[{"value":"v"}]`, 201, "", ""},
		"an event does not create a topic":     {topic("new3", access.Write), "POST", "/event?topic-name=new3", `{"event":"e","entity_id":"1"}`, 403, "create on topic", ""},
		"settings need alter-configs":          {topic("t", access.Alter), "PUT", "/topic?topic-name=t", `{"settings":{"retention-ms":"5"}}`, 403, "create or alter on topic", ""},
		"partitions need alter":                {topic("t", access.AlterConfigs), "PUT", "/topic?topic-name=t", `{"partitions":2}`, 403, "create or alter on topic", ""},
		"alter does not create":                {topic("new4", access.Alter, access.AlterConfigs), "PUT", "/topic?topic-name=new4", "", 403, "create or alter on topic", ""},
		"create does not alter":                {topic("t", access.Create), "PUT", "/topic?topic-name=t", "", 403, "create or alter on topic", ""},
		"a commit to two topics needs both":    {append(topic("t", access.Read), group), "PUT", "/offsets?group=g", commits, 403, `read on topic \"hidden\"`, ""},
		"offsets leave out a topic":            {append(topic("t", access.Describe), group), "GET", "/offsets?group=g", "", 200, `"topic":"t"`, "hidden"},
		"a group leaves out a topic":           {append(topic("t", access.Describe), group), "GET", "/groups?group=g", "", 200, `"lag":0`, "hidden"},
		"a list of groups leaves out a topic":  {append(topic("t", access.Describe), group), "GET", "/groups", "", 200, `"topic":"t"`, "hidden"},
		"a read at a group's offset":           {topic("t", access.Read), "GET", "/records?topic-name=t&group=g&timeout=0s", "", 403, `read on group \"g\"`, ""},
		"a prefix does not match events":       {[]access.Rule{{Resource: access.Topic, Name: "ev", Prefix: true, Operation: access.Write, Host: access.Any}}, "POST", "/event", `{"event":"e","entity_id":"1"}`, 403, `write on topic \"events\"`, ""},
		"every name does not match firings":    {topic(access.Any, access.Read), "GET", "/records?topic-name=firings&offset=0&timeout=0s", "", 403, `read on topic \"firings\"`, ""},
		"a trigger needs its topic":            {[]access.Rule{trigger}, "PUT", "/triggers/spy", `{"expr":"a","topic":"hidden"}`, 403, `read on topic \"hidden\"`, ""},
		"a trigger does not create a topic":    {append(topic("new5", access.Read), trigger), "PUT", "/triggers/spy", `{"expr":"a","topic":"new5"}`, 403, `create on topic \"new5\"`, ""},
		"a check names a missing right":        {[]access.Rule{trigger}, "POST", "/triggers/check?id=spy", `{"expr":"a","topic":"hidden"}`, 200, `"field":"topic","detail":"the key does not allow read on topic`, ""},
		"a dry run needs its topic":            {[]access.Rule{trigger}, "POST", "/triggers/dry-run", `{"expr":"a","topic":"hidden"}`, 403, `read on topic \"hidden\"`, ""},
		"a topic in use names no triggers":     {topic("events", access.Delete), "DELETE", "/topic?topic-name=events", "", 409, "triggers use the topic", "fires"},
		"a denial overrides":                   {append(topic("t", access.All), access.Rule{Resource: access.Topic, Name: "t", Operation: access.Write, Deny: true, Host: access.Any}), "POST", "/records?topic-name=t", `[{"value":"v"}]`, 403, "write on topic", ""},
		"a rule for another host does nothing": {[]access.Rule{{Resource: access.Topic, Name: "t", Operation: access.Read, Host: "192.0.2.1"}}, "GET", "/topic?topic-name=t", "", 403, "", ""},
		"a rule for the client's host":         {[]access.Rule{{Resource: access.Topic, Name: "t", Operation: access.Read, Host: "127.0.0.1"}}, "GET", "/topic?topic-name=t", "", 200, "", ""},
		"firings of other triggers are hidden": {[]access.Rule{permit(access.Read, access.Trigger, "other")}, "GET", "/firings", "", 200, `"firings":[]`, "fires"},
	} {
		s.allow("client", c.rules...)
		a := s.matrix(c.method, c.path, api.JSON, c.body, authorization(key))
		checkSpec(t, c.method, c.path, a)
		body := string(a.body)
		if a.status != c.status || !strings.Contains(body, c.contains) || c.mustNotBe != "" && strings.Contains(body, c.mustNotBe) {
			t.Errorf("%s: %s, want %d with %q and without %q", name, a, c.status, c.contains, c.mustNotBe)
		}
	}
	for _, name := range []string{"new1", "new3", "new4", "new5"} {
		if _, known := s.b.TopicNamed(name); known {
			t.Errorf("topic %s was created", name)
		}
	}
	check.Equalf(t, fmt.Sprint(s.get("/triggers/spy").status), "404", "trigger spy")
}
