package monitor_test

import (
	"fmt"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
)

// A user is created on the first of May and does not use the feature for a week.
func Example() {
	expr, err := driplang.Parse("user_created THEN (NOT use_feature_x WITHIN 7 days)")
	if err != nil {
		fmt.Println(err)
		return
	}
	program, err := monitor.Compile(expr, monitor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}

	m := monitor.New(program)
	created := time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC)
	value := m.Step(program.Match("user_created", nil), created.UnixMilli(), 4711)
	fmt.Println(value == monitor.True)

	// The state to store for the user until the next event.
	state := m.AppendState(nil)
	fmt.Println(len(state) < 20)

	if err := m.Load(state); err != nil {
		fmt.Println(err)
		return
	}
	at, ok := m.Next()
	fmt.Println(time.UnixMilli(at).UTC().Format(time.RFC3339), ok)
	fmt.Println(m.Advance(at), m.MatchedEvents(nil))
	// Output:
	// false
	// true
	// 2024-05-08T09:00:00Z true
	// true [4711]
}
