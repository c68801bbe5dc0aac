// Package cases is the table of driplang's test cases, for tests of all code that evaluates
// expressions.
package cases

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Base is time zero of the table.
var Base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Event is an event of a case.
type Event struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	ID    string    `json:"id,omitempty"`
}

// Case is a row: the value of an expression at an instant. Error, if not "", is the start of the
// expression's error.
type Case struct {
	ID, Expr, Error, Why string
	Events               []Event
	At                   time.Time
	Value                bool
	Next                 *time.Time // nil: never
	NextKnown            bool       // the table has Next
}

// Load returns all 108 rows.
func Load(t testing.TB) []Case {
	t.Helper()
	_, own, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(own), "../../../driplang/monitor/testdata/cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID, Expr, At, Error, Order, Why string
			Events                          [][]string
			Value                           bool
			Next                            json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 108 {
		t.Fatalf("table has %d rows, want 108", len(file.Cases))
	}
	list := make([]Case, len(file.Cases))
	for i, r := range file.Cases {
		c := Case{ID: r.ID, Expr: r.Expr, Error: r.Error, Why: r.Why, At: instant(t, r.At), Value: r.Value, NextKnown: r.Next != nil}
		for _, e := range r.Events {
			c.Events = append(c.Events, Event{Event: e[0], At: instant(t, e[1]), ID: strings.Join(e[2:], "")})
		}
		if r.Order == "event_time" { // like the engine's buffer
			slices.SortStableFunc(c.Events, func(a, b Event) int { return a.At.Compare(b.At) })
		}
		if next := strings.Trim(string(r.Next), `"`); c.NextKnown && next != "null" {
			at := instant(t, next)
			c.Next = &at
		}
		list[i] = c
	}
	return list
}

// instant parses a time of the table, such as 6d23h59m59s999ms.
func instant(t testing.TB, text string) time.Time {
	at := Base
	for rest := text; rest != ""; {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		unit := rest[:len(rest)-len(strings.TrimLeft(rest, "dhms"))]
		rest = rest[len(unit):]
		n, err := strconv.ParseInt(digits, 10, 64)
		per := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond}[unit]
		if err != nil || per == 0 {
			t.Fatalf("invalid offset %q", text)
		}
		at = at.Add(time.Duration(n) * per)
	}
	return at
}
