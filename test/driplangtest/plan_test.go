package driplangtest_test

import (
	"encoding/json"
	"slices"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
)

// plan is an expression for traces that often make it true.
type plan struct {
	op     string // event, and, or, then, not, window
	kids   []*plan
	events []traceEvent // event: those that match
	n      int          // event: number of them
	millis int64
}

// planOf converts a tree of JSON.
func (c *comparison) planOf(tree map[string]any) *plan {
	window := func(key, time string) *plan {
		d := millis(tree[time])
		c.durations = append(c.durations, d)
		return &plan{op: "window", kids: []*plan{c.planOf(tree[key].(map[string]any))}, millis: d}
	}
	switch {
	case tree["event"] != nil:
		return &plan{op: "event", events: c.matching(tree), n: 1}
	case tree["count"] != nil:
		n, _ := tree["n"].(json.Number).Int64()
		return &plan{op: "event", events: c.matching(tree["count"].(map[string]any)), n: int(n)}
	case tree["not"] != nil:
		return &plan{op: "not", kids: []*plan{c.planOf(tree["not"].(map[string]any))}}
	case tree["within"] != nil:
		return window("within", "for")
	case tree["after"] != nil:
		return window("after", "by")
	}
	for _, op := range []string{"and", "or", "then"} {
		if kids, ok := tree[op].([]any); ok {
			p := &plan{op: op}
			for _, k := range kids {
				p.kids = append(p.kids, c.planOf(k.(map[string]any)))
			}
			return p
		}
	}
	panic("unknown operator")
}

// matching returns the events that an event of an expression means.
func (c *comparison) matching(event map[string]any) (list []traceEvent) {
	text, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	e, err := driplang.ParseJSON(text)
	if err != nil {
		panic(err)
	}
	p, err := monitor.Compile(e, monitor.Options{})
	if err != nil {
		panic(err)
	}
	for _, e := range c.events {
		if p.Match(e.Name, []byte(e.Data)) != 0 {
			list = append(list, e)
		}
	}
	return list
}

// follow makes a trace that follows the plan, with a few changes.
func (c *comparison) follow() {
	end := c.walk(c.plan, 0, c.random.IntN(4) == 0)
	for range c.random.IntN(3) {
		c.insert(c.random.IntN(len(c.trace)+1), end+2)
	}
	if len(c.trace) > 1 && c.random.IntN(4) == 0 {
		i := c.random.IntN(len(c.trace))
		c.trace = slices.Delete(c.trace, i, i+1)
	}
}

// insert adds an event at a position, if it can about a duration after an earlier one. end is the
// time of the last position.
func (c *comparison) insert(i int, end int64) {
	from, to := int64(0), end
	if i > 0 {
		from = c.trace[i-1].At
	}
	if i < len(c.trace) {
		to = c.trace[i].At
	}
	at := from + c.random.Int64N(max(to-from, 0)+1)
	if i > 0 && len(c.durations) > 0 && c.random.IntN(2) > 0 {
		since := c.trace[c.random.IntN(i)].At
		if t := since + c.durations[c.random.IntN(len(c.durations))] + int64(c.random.IntN(3)) - 1; t >= from && (t <= to || i == len(c.trace)) {
			at = t
		}
	}
	e := c.events[c.random.IntN(len(c.events))]
	e.At = at
	c.trace = slices.Insert(c.trace, i, e)
}

// walk adds the events of a part, from an instant on, and returns the instant of the end. wild: also
// those that must not happen.
func (c *comparison) walk(p *plan, at int64, wild bool) int64 {
	switch p.op {
	case "event":
		n := max(p.n-c.random.IntN(8)/7, 0) + c.random.IntN(5)/4
		if n > 100 && c.random.IntN(50) > 0 {
			n = 2
		}
		for range n {
			if len(p.events) == 0 {
				break
			}
			at += int64(c.random.IntN(8) / 5)
			e := p.events[c.random.IntN(len(p.events))]
			e.At = at
			c.trace = append(c.trace, e)
		}
	case "not":
		if wild && c.random.IntN(3) == 0 || p.kids[0].op == "not" {
			return c.walk(p.kids[0], at, wild)
		}
	case "window":
		to := at + max(0, p.millis+int64(c.random.IntN(3))-1)
		if c.random.IntN(4) == 0 {
			to = at + c.random.Int64N(p.millis+1)
		}
		if c.random.IntN(2) > 0 {
			at = to
		}
		return max(to, c.walk(p.kids[0], at, wild))
	case "or":
		return c.walk(p.kids[c.random.IntN(len(p.kids))], at, wild)
	case "and":
		for _, i := range c.random.Perm(len(p.kids)) {
			at = c.walk(p.kids[i], at, wild)
		}
	case "then":
		for _, k := range p.kids {
			at = c.walk(k, at, wild)
		}
	}
	return at
}

func millis(duration any) int64 {
	d, err := driplang.ParseDuration(duration.(string))
	if err != nil {
		panic(err)
	}
	return d.Milliseconds()
}
