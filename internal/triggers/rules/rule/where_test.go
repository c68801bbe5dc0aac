package rule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// whereWords are random parts of events and filters, with the confusing ones.
var (
	whereNames  = []string{`"a"`, `"b c"`, `"é"`, `"Data"`, `"id"`, `"and"`, `"x"`}
	whereValues = []string{`1`, `-2.5`, `1e2`, `100`, `9007199254740993`, `"a"`, `"\u0061"`, `"\ud83d\ude00"`, `"é"`, `""`, `true`, `false`, `null`}
)

// whereDocument returns a random JSON value.
func whereDocument(rnd *rand.Rand, depth int) string {
	switch k := rnd.IntN(8); {
	case depth > 0 && k < 5:
		members := make([]string, rnd.IntN(5))
		for i := range members {
			members[i] = strings.Replace(pick(rnd, whereNames), "a", pick(rnd, []string{"a", `\u0061`}), 1) + " :" + whereDocument(rnd, depth-1)
		}
		return "{" + strings.Join(members, " ,") + "}"
	case depth > 0 && k == 5:
		return "[" + whereDocument(rnd, depth-1) + "," + whereDocument(rnd, 0) + "]"
	}
	return pick(rnd, whereValues)
}

// whereEvent returns a random value of a record, mostly an event.
func whereEvent(rnd *rand.Rand) string {
	members := []string{pick(rnd, []string{`"event"`, `"Event"`, `"\u0065vent"`}) + `:"purchase"`, pick(rnd, []string{`"entity_id"`, `"ENTITY_id"`}) + `:"u7"`}
	for range rnd.IntN(3) {
		members = append(members, pick(rnd, []string{`"data"`, `"DATA"`, `"d\u0061ta"`})+":"+whereDocument(rnd, 3))
	}
	for range rnd.IntN(2) {
		members = append(members, pick(rnd, []string{`"id":"e1"`, `"event":null`, `"entity_id":null`, `"other":[{"event":"x"}]`, `"event":"refund"`, `"entity_id":""`, `"event":7`}))
	}
	rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ", ") + pick(rnd, []string{"}", "}", "}", "}", "", "}}", ",}"})
}

// whereFilter returns a random filter.
func whereFilter(rnd *rand.Rand, depth int) string {
	switch k := rnd.IntN(6); {
	case depth > 0 && k < 2:
		return "(" + whereFilter(rnd, depth-1) + pick(rnd, []string{" AND ", " OR "}) + whereFilter(rnd, depth-1) + ")"
	case depth > 0 && k == 2:
		return "NOT " + whereFilter(rnd, depth-1)
	}
	path := make([]string, 1+rnd.IntN(2))
	for i := range path {
		path[i] = pick(rnd, whereNames)
	}
	is, value := pick(rnd, []string{"=", "!=", "<", "<=", ">", ">="}), pick(rnd, whereValues)
	if value == "true" || value == "false" || value == "null" {
		is = pick(rnd, []string{"=", "!="})
	}
	return strings.Join(path, ".") + " " + is + " " + value
}

func pick(rnd *rand.Rand, list []string) string { return list[rnd.IntN(len(list))] }

// TestFilterOfEvent: on an event a filter is true exactly if a trigger for purchase[filter] would
// count the event, and `event =` has the name that the trigger sees.
func TestFilterOfEvent(t *testing.T) {
	events, matches := 0, 0
	seeds := sebtest.Runs(20_000, 4000)
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		value, text := whereEvent(rnd), whereFilter(rnd, 3)
		e, err := rule.ParseEvent([]byte("u7"), []byte(value))
		if err != nil {
			continue
		}
		filter, err := driplang.ParseFilter(text + fmt.Sprintf(" AND event = %q", e.Name))
		must.NoErrorf(t, err, "%s", text)
		x, err := driplang.Parse(e.Name + "[" + text + "]")
		must.NoErrorf(t, err, "%s", text)
		p := must.Get(monitor.Compile(x, monitor.Options{}))(t)
		want := p.Match(e.Name, e.Data) != 0
		if got := filter.Match([]byte(value)); got != want {
			t.Fatalf("seed %d: %s on %s: %v, a trigger %v", seed, filter, value, got, want)
		}
		events++
		if want {
			matches++
		}
	}
	if events < seeds/4 || matches < events/10 || matches > events*9/10 {
		t.Errorf("%d events, %d matches", events, matches)
	}
}
