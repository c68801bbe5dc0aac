package monitor

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
)

// testCase is a row of testdata/cases.json.
type testCase struct {
	ID, Source, Expr string
	Events           [][]string
	At               string
	Value            bool
	Fires            *[]string
	Next             json.RawMessage
	Policy, Order    string
	Vacuous          bool
	Error, Why       string
}

func loadCases(t testing.TB) []testCase {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []testCase }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// offset is a time of a row: 7d, 6d23h59m59s999ms, 0s.
func offset(t testing.TB, text string) int64 {
	var millis int64
	for rest := text; rest != ""; {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		unit := rest[:len(rest)-len(strings.TrimLeft(rest, "dhms"))]
		rest = rest[len(unit):]
		n, err := strconv.ParseInt(digits, 10, 64)
		per := map[string]int64{"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}[unit]
		if err != nil || per == 0 {
			t.Fatalf("offset %q", text)
		}
		millis += n * per
	}
	return millis
}

func (c testCase) history(t testing.TB) []testEvent {
	var history []testEvent
	seen := map[string]bool{}
	for _, e := range c.Events {
		if len(e) > 2 {
			if seen[e[2]] {
				continue // the engine drops duplicates
			}
			seen[e[2]] = true
		}
		history = append(history, testEvent{name: e[0], at: offset(t, e[1])})
	}
	if c.Order == "event_time" { // as the engine's buffer orders events
		slices.SortStableFunc(history, func(a, b testEvent) int { return int(a.at - b.at) })
	}
	return history
}

func TestCases(t *testing.T) {
	cases := loadCases(t)
	if len(cases) != 108 {
		t.Fatalf("%d rows, want 108", len(cases))
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			e, err := driplang.Parse(c.Expr)
			if c.Error != "" {
				var fault *driplang.Error
				if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), c.Error) {
					t.Fatalf("%s: got %v, want %s", c.Expr, err, c.Error)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", c.Expr, err)
			}
			c.check(t, e)
		})
	}
}

func (c testCase) check(t *testing.T, e driplang.Expr) {
	p, err := Compile(e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if (p.Initially() == True) != c.Vacuous {
		t.Errorf("initially %v", p.Initially())
	}
	at := offset(t, c.At)
	f := &follower{m: New(p), policy: c.Policy}
	f.follow(c.history(t), at)
	plain := &follower{m: New(p)}
	plain.follow(c.history(t), at)
	if got := plain.m.Value() == True; got != c.Value {
		t.Errorf("%s at %s is %v: %s", c.Expr, c.At, plain.m.Value(), c.Why)
	}
	if c.Fires != nil {
		want := []int64{}
		for _, fire := range *c.Fires {
			want = append(want, offset(t, fire))
		}
		if !slices.Equal(append([]int64{}, f.fires...), want) {
			t.Errorf("%s fires at %v, want %v: %s", c.Expr, f.fires, want, c.Why)
		}
	}
	if c.Next != nil {
		next, ok := f.m.Next()
		want := strings.Trim(string(c.Next), `"`)
		if (want != "null") != ok || ok && next != offset(t, want) {
			t.Errorf("%s: next change at %d, %v, want %s: %s", c.Expr, next, ok, want, c.Why)
		}
	}
}

// follower drives a monitor as an engine does: it stops at every deadline.
type follower struct {
	m      *Monitor
	policy string
	out    bool
	fires  []int64
	last   int64
	ref    uint64
}

func (f *follower) follow(history []testEvent, until int64) {
	for _, e := range history {
		f.advance(max(e.at, f.last) - 1)
		f.step(e)
	}
	f.advance(until)
}

func (f *follower) note(v Value, at int64) {
	was := f.out
	f.last, f.out = at, v == True
	if was || !f.out || f.policy == "once" && len(f.fires) > 0 {
		return
	}
	f.fires = append(f.fires, at)
	if f.policy == "reset" {
		f.m.Reset()
		f.out = false
	}
}

func (f *follower) step(e testEvent) {
	f.ref++
	if k := f.m.program.Match(e.name, []byte(e.data)); k != 0 {
		at := max(e.at, f.last)
		f.note(f.m.Step(k, at, f.ref), at)
	}
}

func (f *follower) advance(to int64) {
	for {
		at, ok := f.m.Next()
		if !ok || at > to {
			break
		}
		f.note(f.m.Advance(at), at)
	}
	if to >= f.last {
		f.last = to
		f.m.Advance(to)
	}
}
