package httpapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestSchedules: an operator makes, replaces, lists and removes schedules.
func TestSchedules(t *testing.T) {
	s := start(t)
	newQueue(s, "mails", `{"dead-letter":"none"}`)
	var made, checked api.Schedule
	weekly := `{"cron":"0 9 * * MON","zone":"Europe/Copenhagen","missed":"skip","key":"k","value_base64":"/w==","headers":[{"key":"h","value":"v"}]}`
	s.must(200, s.send("PUT", "/queues/mails/schedules/weekly?dry-run=true", weekly), &checked)
	check.Equal(t, s.code("GET", "/queues/mails/schedules/weekly"), api.UnknownSchedule)
	s.must(200, s.send("PUT", "/queues/mails/schedules/weekly", weekly), &made)
	var got api.Schedule
	s.must(200, s.get("/queues/mails/schedules/weekly"), &got)
	for _, x := range []api.Schedule{made, checked, got} {
		if x.Name != "weekly" || x.Zone != "Europe/Copenhagen" || x.Missed != "skip" || *x.Key != "k" || *x.ValueBase64 != "/w==" || *x.Headers[0].Value != "v" || len(x.Next) != 5 {
			t.Fatalf("schedule %+v", x)
		}
		zone, _ := time.LoadLocation(x.Zone)
		for _, at := range x.Next {
			if at = at.In(zone); at.Weekday() != time.Monday || at.Hour() != 9 || at.Minute() != 0 {
				t.Errorf("a time of the schedule: %s", at)
			}
		}
	}
	s.must(200, s.send("PUT", "/queues/mails/schedules/"+url.PathEscape("a b/c"), `{"cron":"@hourly"}`), nil)
	var page, rest api.Schedules
	s.must(200, s.get("/queues/mails/schedules?limit=1"), &page)
	if len(page.Schedules) != 1 || page.Schedules[0].Name != "a b/c" || page.Next == nil {
		t.Errorf("first page %+v", page)
	}
	s.must(200, s.get("/queues/mails/schedules?after="+url.QueryEscape(*page.Next)), &rest)
	if len(rest.Schedules) != 1 || rest.Schedules[0].Name != "weekly" || rest.Next != nil {
		t.Errorf("rest %+v", rest)
	}
	var replaced api.Schedule
	s.must(200, s.send("PUT", "/queues/mails/schedules/weekly", `{"cron":"@daily","value":"x"}`), &replaced)
	if *replaced.Value != "x" || replaced.Zone != "" || replaced.Headers != nil {
		t.Errorf("replaced by %+v", replaced)
	}
	s.must(204, s.send("DELETE", "/queues/mails/schedules/weekly", ""), nil)
	check.Equal(t, s.code("DELETE", "/queues/mails/schedules/weekly"), api.UnknownSchedule)
}

// TestBadSchedules: each error names its member.
func TestBadSchedules(t *testing.T) {
	s := start(t)
	newQueue(s, "q", "")
	newTopic(s, "plain", 1)
	for _, c := range []struct{ at, body, field, detail string }{
		{"s", ``, "cron", ""},
		{"s", `{"cron":"* * * *"}`, "cron", "expected exactly 5 fields"},
		{"s", `{"cron":"0 0 30 2 *"}`, "cron", "no such time"},
		{"s", `{"cron":"@every 1s"}`, "cron", "five fields"},
		{"s", `{"cron":"@daily","zone":"Mars"}`, "zone", "such as Europe/Copenhagen"},
		{"s", `{"cron":"@daily","missed":"never"}`, "missed", "run-once, skip or run-all"},
		{"s", `{"cron":"@daily","priority":1}`, "priority", "between 0 and 0"},
		{"s", `{"cron":"@daily","value":"x","value_base64":"eA=="}`, "value", "base64"},
		{"s", `{"cron":"@daily","key_base64":"*"}`, "key", "base64"},
		{"s", `{"cron":"@daily","headers":[{"key":"seb-x","value":"1"}]}`, "headers", "begins with seb-"},
		{"s", `{"cron":"@daily","tz":"UTC"}`, "tz", ""},
		{"s", `{"cron":"@daily","value":"` + strings.Repeat("x", 50_000) + `"}`, "schedule", "limit 65536"},
		{strings.Repeat("x", 129), `{"cron":"@daily"}`, "name", "1 to 128 bytes"},
		{"s?dry-run=yes", `{"cron":"@daily"}`, "dry-run", "true or false"},
	} {
		p := s.send("PUT", "/queues/q/schedules/"+c.at, c.body).problem(t)
		if p.Code != api.BadRequest || strings.Trim(p.Field, `"`) != c.field || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%.80s: %s (%s) %s", c.body, p.Code, p.Field, p.Detail)
		}
	}
	for queue, code := range map[string]api.Code{"none": api.UnknownTopic, "plain": api.NotAQueue} {
		check.Equal(t, s.send("PUT", "/queues/"+queue+"/schedules/s", `{"cron":"@daily"}`).problem(t).Code, code)
		check.Equal(t, s.send("PUT", "/queues/"+queue+"/schedules/s?dry-run=true", `{"cron":"@daily"}`).problem(t).Code, code)
		check.Equal(t, s.code("GET", "/queues/"+queue+"/schedules"), code)
		check.Equal(t, s.code("GET", "/queues/"+queue+"/schedules/s"), code)
		check.Equal(t, s.code("DELETE", "/queues/"+queue+"/schedules/s"), code)
	}
}

// TestScheduleRights: a schedule needs the right to configure the queue and that to send, and is shown to
// readers only.
func TestScheduleRights(t *testing.T) {
	s := start(t)
	newQueue(s, "q", "")
	topic := func(list ...access.Operation) (rules []access.Rule) {
		for _, o := range list {
			rules = append(rules, permit(o, access.Topic, "q"))
		}
		return rules
	}
	for i, c := range []struct {
		may            []access.Operation
		put, get, gone int
	}{
		{[]access.Operation{access.Write}, 403, 403, 403},
		{[]access.Operation{access.AlterConfigs}, 403, 403, 204},
		{[]access.Operation{access.AlterConfigs, access.Write}, 200, 403, 204},
		{[]access.Operation{access.Read}, 403, 200, 403},
	} {
		s.must(200, s.send("PUT", "/queues/q/schedules/s", `{"cron":"@daily"}`), nil)
		as := authorization(s.token(fmt.Sprint("client", i), time.Time{}, topic(c.may...)...))
		check.Equalf(t, s.matrix("PUT", "/queues/q/schedules/s", api.JSON, `{"cron":"@daily"}`, as).status, c.put, "PUT with %v", c.may)
		check.Equalf(t, s.matrix("PUT", "/queues/q/schedules/s?dry-run=true", api.JSON, `{"cron":"@daily"}`, as).status, c.put, "dry run with %v", c.may)
		check.Equalf(t, s.matrix("GET", "/queues/q/schedules/s", "", "", as).status, c.get, "GET with %v", c.may)
		check.Equalf(t, s.matrix("DELETE", "/queues/q/schedules/s", "", "", as).status, c.gone, "DELETE with %v", c.may)
	}
}

// TestSchedulesOfOtherBrokers: a standby forwards changes and lists by itself, and a read-only broker only lists.
func TestSchedulesOfOtherBrokers(t *testing.T) {
	t.Parallel()
	leads, standby, _ := pair(t)
	newQueue(standby, "q", "")
	a := standby.send("PUT", "/queues/q/schedules/s", `{"cron":"@daily"}`)
	if a.status != 200 || a.header.Get(api.HeaderLeader) == "" {
		t.Errorf("PUT at a standby: %s", a)
	}
	var list api.Schedules
	sebtest.Eventually(t, "the standby lists it", func() bool {
		a := standby.get("/queues/q/schedules")
		standby.must(200, a, &list)
		return a.header.Get(api.HeaderLeader) == "" && len(list.Schedules) == 1
	})
	standby.must(204, standby.send("DELETE", "/queues/q/schedules/s", ""), nil)
	check.Equal(t, leads.code("GET", "/queues/q/schedules/s"), api.UnknownSchedule)

	store := objstore.NewMemory()
	first := start(t, func(c *setup) { c.store = store })
	newQueue(first, "q", "")
	first.must(200, first.send("PUT", "/queues/q/schedules/s", `{"cron":"@daily"}`), nil)
	s := start(t, func(c *setup) { c.store, c.broker.Core.ReadOnly = store, true })
	s.must(200, s.get("/queues/q/schedules"), &list)
	check.Equal(t, list.Schedules[0].Name, "s")
	check.Equal(t, s.send("PUT", "/queues/q/schedules/s", `{"cron":"@daily"}`).problem(t).Code, api.ReadOnly)
	check.Equal(t, s.code("DELETE", "/queues/q/schedules/s"), api.ReadOnly)
}
