package driplangtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/test/driplangtest"
)

// comparison compares an expression with what its sentence is read as, on random traces.
type comparison struct {
	random    *rand.Rand
	programs  [2]*monitor.Program
	monitors  [2]*monitor.Monitor
	traces    *driplangtest.Traces
	events    []traceEvent // that differ in what they match
	plan      *plan
	durations []int64
	trace     []traceEvent
	values    [monitor.True + 1]bool // that the first expression had
}

// traceEvent is an event with what it is for each monitor.
type traceEvent struct {
	driplangtest.Event
	kinds [2]monitor.Kinds
}

func newComparison(random *rand.Rand, e, read driplang.Expr) (*comparison, error) {
	c := &comparison{random: random, traces: driplangtest.TracesOf(e, read)}
	for i, x := range []driplang.Expr{e, read} {
		p, err := monitor.Compile(x, monitor.Options{Pending: true})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x, err)
		}
		c.programs[i], c.monitors[i] = p, monitor.New(p)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(e.Names(), read.Names()...)))) {
		c.addEvents(name)
	}
	text, err := e.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	c.plan = c.planOf(tree)
	return c, nil
}

// addEvents adds events with a name and data that differ for the filters.
func (c *comparison) addEvents(name string) {
	known := make(map[[2]monitor.Kinds]bool)
	for data, tries := "", 0; tries == 0 || data != "" && tries < 300; tries++ {
		data = c.traces.Data(c.random, name)
		e := traceEvent{Event: driplangtest.Event{Name: name, Data: data}}
		for i, p := range c.programs {
			e.kinds[i] = p.Match(name, []byte(data))
		}
		if !known[e.kinds] {
			known[e.kinds] = true
			c.events = append(c.events, e)
		}
	}
}

// run compares on one trace.
func (c *comparison) run() error {
	c.trace = c.trace[:0]
	if c.random.IntN(2) > 0 {
		c.follow()
	} else {
		c.wander()
	}
	for _, m := range c.monitors {
		m.Reset()
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("without events: %w", err)
	}
	for i, e := range c.trace {
		if err := c.step(e); err != nil {
			return fmt.Errorf("after %+v: %w", c.trace[:i+1], err)
		}
	}
	if err := c.advance(monitor.MaxTime); err != nil {
		return fmt.Errorf("long after %+v: %w", c.trace, err)
	}
	return nil
}

// wander makes a trace of random events, most of them of a few kinds, because one of another kind
// may make the expression false for good.
func (c *comparison) wander() {
	few := c.random.Perm(len(c.events))[:1+c.random.IntN(len(c.events))]
	for _, e := range c.traces.History(c.random, 12) {
		x := c.events[few[c.random.IntN(len(few))]]
		if c.random.IntN(8) == 0 {
			x = c.events[c.random.IntN(len(c.events))]
		}
		x.At = e.At
		c.trace = append(c.trace, x)
	}
}

// step advances to the event and applies it.
func (c *comparison) step(e traceEvent) error {
	if err := c.advance(e.At); err != nil {
		return err
	}
	if now, _ := c.monitors[0].Now(); now >= 0 && now < e.At-1 && c.random.IntN(2) > 0 {
		if err := c.advanceTo(e.At - 1); err != nil {
			return err
		}
	}
	for i, m := range c.monitors {
		m.Step(e.kinds[i], e.At, 1)
	}
	return c.check()
}

// advance completes the instants of all changes before an event.
func (c *comparison) advance(to int64) error {
	for range 1000 {
		at, ok := c.monitors[0].Next()
		if other, otherOK := c.monitors[1].Next(); ok != otherOK || ok && at != other {
			return fmt.Errorf("the next changes are at %d, %v and %d, %v", at, ok, other, otherOK)
		}
		if !ok || at >= to {
			return nil
		}
		if err := c.advanceTo(at); err != nil {
			return err
		}
	}
	return fmt.Errorf("1000 changes without an event")
}

func (c *comparison) advanceTo(at int64) error {
	for _, m := range c.monitors {
		m.Advance(at)
	}
	return c.check()
}

func (c *comparison) check() error {
	a, b := c.monitors[0].Value(), c.monitors[1].Value()
	if c.values[a] = true; a != b {
		now, complete := c.monitors[0].Now()
		return fmt.Errorf("%v and %v at %d (complete: %v)", a, b, now, complete)
	}
	return nil
}
