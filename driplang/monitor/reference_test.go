package monitor

import "github.com/sebbroker/seb/test/driplangtest"

// testEvent is an event of a history.
type testEvent struct {
	name string
	at   int64
	data string
}

// point is a point of a history: the first k events are applied; done means that the instant t is
// complete.
type point struct {
	k    int
	t    int64
	done bool
}

// given converts a history for the reference evaluator.
func given(history []testEvent) []driplangtest.Event {
	events := make([]driplangtest.Event, len(history))
	for i, e := range history {
		events[i] = driplangtest.Event{Name: e.name, At: e.at, Data: e.data}
	}
	return events
}

// byDefinition returns the value of an expression at a point, according to the reference evaluator.
func byDefinition(x *driplangtest.Expr, events []driplangtest.Event, p point) Value {
	return Value(x.Value(events, driplangtest.Point{Events: p.k, At: p.t, Done: p.done}))
}
