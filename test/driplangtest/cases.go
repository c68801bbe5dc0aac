package driplangtest

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

//go:embed cases.json
var table []byte

// Base is time zero of the table.
var Base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// CaseEvent is an event of a case.
type CaseEvent struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	ID    string    `json:"id,omitempty"`
}

// Case is a row: the value of an expression at an instant. Error, if not "", is the start of the
// expression's error.
type Case struct {
	ID, Expr, Error, Why string
	Events               []CaseEvent
	At                   time.Time
	Value                bool
	Initially            bool       // its value without events
	Next                 *time.Time // nil: never
	NextKnown            bool       // the table has Next
	Policy               string     // how often it fires
	Fires                []time.Time
	FiresKnown           bool // the table has Fires
}

// Cases returns all 108 rows.
func Cases(t testing.TB) []Case {
	t.Helper()
	var file struct {
		Cases []struct {
			ID, Expr, At, Error, Order, Why, Policy string
			Events                                  [][]string
			Value, Vacuous                          bool
			Next                                    json.RawMessage
			Fires                                   *[]string
		}
	}
	must.NoError(t, json.Unmarshal(table, &file))
	if len(file.Cases) != 108 {
		t.Fatalf("table has %d rows, want 108", len(file.Cases))
	}
	list := make([]Case, len(file.Cases))
	for i, r := range file.Cases {
		c := Case{
			ID: r.ID, Expr: r.Expr, Error: r.Error, Why: r.Why, At: Instant(t, r.At), Value: r.Value, Initially: r.Vacuous,
			NextKnown: r.Next != nil, Policy: r.Policy, FiresKnown: r.Fires != nil,
		}
		for _, e := range r.Events {
			c.Events = append(c.Events, CaseEvent{Event: e[0], At: Instant(t, e[1]), ID: strings.Join(e[2:], "")})
		}
		if r.Order == "event_time" { // like the engine's buffer
			slices.SortStableFunc(c.Events, func(a, b CaseEvent) int { return a.At.Compare(b.At) })
		}
		if next := strings.Trim(string(r.Next), `"`); c.NextKnown && next != "null" {
			c.Next = new(Instant(t, next))
		}
		if c.FiresKnown {
			for _, at := range *r.Fires {
				c.Fires = append(c.Fires, Instant(t, at))
			}
		}
		list[i] = c
	}
	return list
}

// Instant parses a time of the table, such as 6d23h59m59s999ms.
func Instant(t testing.TB, text string) time.Time {
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

var documented = regexp.MustCompile("(?m)^\\| (?:[^|`]+ \\| )?`([^`]+)`")

// Documented returns the texts of the cases and of the tables in the documents about the language, valid
// ones and others. root is the folder of the repository.
func Documented(t testing.TB, root string) (texts []string) {
	t.Helper()
	for _, c := range Cases(t) {
		texts = append(texts, c.Expr)
	}
	for _, name := range []string{"docs/guide/driplang.md", "docs/reference/driplang.md"} {
		text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		for _, row := range documented.FindAllStringSubmatch(string(text), -1) {
			if strings.ContainsAny(row[1], " [") { // else a property or header
				texts = append(texts, row[1])
			}
		}
	}
	return texts
}
