package monitor

import "github.com/sebbroker/seb/test/driplang/reference"

// happening is an event of a history.
type happening struct {
	name string
	at   int64
	data string
}

// point is a point of history: the first k events are applied; done says that the instant t is complete.
type point struct {
	k    int
	t    int64
	done bool
}

// given is a history as the definitions' evaluator has it.
func given(history []happening) []reference.Event {
	events := make([]reference.Event, len(history))
	for i, e := range history {
		events[i] = reference.Event{Name: e.name, At: e.at, Data: e.data}
	}
	return events
}

// byDefinition is what an expression is worth at a point.
func byDefinition(x *reference.Expr, events []reference.Event, p point) Value {
	return Value(x.Value(events, reference.Point{Events: p.k, At: p.t, Done: p.done}))
}
