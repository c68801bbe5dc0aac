package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
)

func TestEventNames(t *testing.T) {
	c := newTestBroker(t)
	happen(t, c, "login u1", "signup u1", "login u2")
	data := json.RawMessage(`{"plan":"pro","seats":3}`)
	must.Get(c.ProduceEvent(t.Context(), client.Event{Name: "signup all", EntityID: "u3", Data: data}, client.EventOptions{}))(t)
	got := regexp.MustCompile(`20\S+Z`).ReplaceAllString(mustTrigger(t, c, "names"), "TIME")
	got = regexp.MustCompile(`(LAST|TIME) +`).ReplaceAllString(got, "$1  ") // times differ in length
	if want := "NAME        COUNT  LAST  PROPERTIES\nlogin       2      TIME  \nsignup      1      TIME  \nsignup all  1      TIME  plan string, seats number\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := mustTrigger(t, c, "names", "signup", "-n", "1"); !regexp.MustCompile(`(?m)^NAME.*\nsignup .*\nmore names exist: give a PREFIX, or raise --limit\n$`).MatchString(got) {
		t.Error(got)
	}
	var out client.EventNames
	if err := json.Unmarshal([]byte(mustTrigger(t, c, "names", "signup ", "--json", "--topic-name", "events")), &out); err != nil || len(out.Names) != 1 ||
		fmt.Sprint(out.Names[0].Properties) != "[{plan [string] 1} {seats [number] 1}]" || out.Sampled != 4 {
		t.Errorf("%+v, %v", out, err)
	}
	if r := triggered(t, c, "", "names", "--topic-name", "none"); r.fault == nil {
		t.Errorf("%+v", r)
	}
}
