package monitor

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestStateIsSmall(t *testing.T) {
	for _, c := range benchmarks {
		p := compile(t, c.expr)
		m := New(p)
		check.Equalf(t, len(m.AppendState(nil)), 0, "%s: bytes before anything has happened", c.expr)
		at, total, n := int64(1_700_000_000_000), 0, 200
		for i := range n {
			at += c.gap
			m.Step(p.Match(c.events[i%len(c.events)], data), at, uint64(5_000_000_000+i))
			total += len(m.AppendState(nil))
		}
		if total/n > 60 {
			t.Errorf("%s: %d bytes on average", c.expr, total/n)
		}
	}
}

// TestStateIsStable: a new version must read the states of earlier ones. A change of these bytes
// needs a new state version.
func TestStateIsStable(t *testing.T) {
	p := compile(t, "user_created THEN (NOT use_feature_x WITHIN 7 days)")
	m := New(p)
	m.Step(p.Match("user_created", nil), 1_700_000_000_000, 4711)
	state := m.AppendState(nil)
	want := []byte{1, byte(p.print), byte(p.print >> 8)}
	want = binary.AppendVarint(want, 1_700_000_000_000)
	want = append(want, 2, 0, 1)           // one frame, anchored now, by one event
	want = binary.AppendVarint(want, 4711) // that event
	want = append(want, 0)                 // no forbidden event
	const print = 0xa147                   // of the expression; it is in every stored state
	if !slices.Equal(state, want) || p.print != print {
		t.Fatalf("state %x, want %x; checksum %#x, want %#x", state, want, p.print, print)
	}
	fresh := New(p)
	must.NoError(t, fresh.Load(state))
	if at, ok := fresh.Next(); !ok || at != 1_700_000_000_000+7*day {
		t.Errorf("next %d, %v", at, ok)
	}
	check.Equalf(t, fresh.Advance(1_700_000_000_000+7*day), True, "after a week")
	check.EqualSlicesf(t, fresh.MatchedEvents(nil), []uint64{4711}, "matched events")
}

// TestLargestStates: a written state can be loaded, also for expressions at the limits.
func TestLargestStates(t *testing.T) {
	all := strings.Repeat("B AND ", 60) + "B"
	for text, events := range map[string]uint64{
		"A THEN ((B AND NOT C) WITHIN 20 days)":                                         1200,
		"A THEN (((NOT C) THEN (" + all + ")) WITHIN 2 days)":                           300,
		"A THEN ((" + strings.Repeat("(B THEN C) AND ", 500) + "NOT D) WITHIN 20 days)": 60,
		"(" + strings.Repeat("A AND ", 100) + "A) THEN ((B AND NOT C) WITHIN 20 days)":  1200,
	} {
		p := compile(t, text)
		m := New(p)
		for i := range events / uint64(sebtest.Runs(1, 3)) {
			m.Step(p.Match("A", nil), int64(i), i*0x9e3779b97f4a7c15)
		}
		state := m.AppendState(nil)
		check.NoErrorf(t, m.Load(state), "%.40s", text)
		if again := m.AppendState(nil); !slices.Equal(state, again) {
			t.Errorf("%.40s: different state after a reload", text)
		}
		t.Logf("%.40s: %d instances, %d bytes", text, m.Instances(), len(state))
	}
}

func TestLoadRefuses(t *testing.T) {
	p, other := compile(t, "A THEN (B WITHIN 2d)"), compile(t, "A THEN (C WITHIN 2d)")
	m := New(p)
	m.Step(p.Match("A", nil), 5, 1)
	good := m.AppendState(nil)
	changed := func(i int, b byte) []byte {
		bad := slices.Clone(good)
		bad[i] = b
		return bad
	}
	for name, bad := range map[string][]byte{
		"another version":      changed(0, 2),
		"unknown flags":        changed(0, 0x81),
		"another expression":   changed(1, good[1]+1),
		"more than the state":  append(slices.Clone(good), 0),
		"a count too high":     changed(len(good)-1, 2),
		"too long":             make([]byte, MaxState+1),
		"a time out of bounds": append(slices.Clone(good[:3]), binary.AppendVarint(nil, math.MaxInt64)...),
	} {
		check.ErrorIsf(t, m.Load(bad), ErrState, "%s", name)
		if state := m.AppendState(nil); len(state) != 0 || m.Value() != False {
			t.Errorf("%s: the monitor is not reset: %x", name, state)
		}
	}
	for n := 1; n < len(good); n++ {
		check.ErrorIsf(t, m.Load(good[:n]), ErrState, "%d of %d bytes", n, len(good))
	}
	check.ErrorIsf(t, New(other).Load(good), ErrState, "a state of another expression")
	if err := m.Load(good); err != nil || m.Instances() != 1 {
		t.Errorf("%v, %d instances", err, m.Instances())
	}
}

// TestInstancesAreBounded fills a monitor beyond its limit.
func TestInstancesAreBounded(t *testing.T) {
	sebtest.Long(t, "TestStateStaysSmall remains")
	p := compile(t, "A THEN ((B AND NOT C) WITHIN 20 days)")
	m := New(p)
	n := int64(sebtest.Runs(3, 2) * MaxInstances)
	for i := range n {
		m.Step(p.Match("A", nil), i, uint64(i))
	}
	state := m.AppendState(nil)
	if m.Instances() != MaxInstances || !m.Degraded() || len(state) > MaxState {
		t.Errorf("%d instances, degraded %v, %d bytes", m.Instances(), m.Degraded(), len(state))
	}
	fresh := New(p)
	if err := fresh.Load(state); err != nil || !fresh.Degraded() || fresh.Instances() != MaxInstances {
		t.Errorf("%v: %d instances", err, fresh.Instances())
	}
	fresh.Step(p.Match("B", nil), n, 1)
	// The oldest and the newest instance are kept.
	if at, ok := fresh.Next(); !ok || at != 20*day {
		t.Errorf("next %d, %v", at, ok)
	}
	check.Equalf(t, fresh.Advance(20*day-1), Pending, "before the first window ends")
	if v := fresh.Advance(20 * day); v != True || len(fresh.AppendState(nil)) > 30 {
		t.Errorf("when it ends: %v, %d bytes", v, len(fresh.AppendState(nil)))
	}
}

var hostile = []string{
	"A THEN (B WITHIN 2d)",
	"A THEN ((NOT B) WITHIN 2s) THEN ((NOT (C THEN D)) WITHIN 3s)",
	"count(A) >= 3 WITHIN 7 days",
	"(A AND (C THEN (NOT B AFTER 1s))) THEN (D AND (NOT count(A) < 3 WITHIN 4s))",
	"NOT (((NOT A) THEN B) THEN (NOT C WITHIN 3s) THEN (D WITHIN 2s)) AND A",
}

// FuzzLoad loads any bytes and continues from there: nothing panics, memory is bounded, and a valid
// state is written again with the same bytes.
func FuzzLoad(f *testing.F) {
	programs := make([]*Program, len(hostile))
	for i, text := range hostile {
		programs[i] = compile(f, text)
		m := New(programs[i])
		for k, name := range []string{"A", "C", "A", "A", "D", "B"} {
			m.Step(programs[i].Match(name, nil), int64(1000*k), uint64(k))
			if state := m.AppendState(nil); len(state) > 3 {
				f.Add(i, state[0], state[3:])
			}
		}
	}
	f.Fuzz(func(t *testing.T, which int, flags byte, body []byte) {
		p := programs[uint(which)%uint(len(programs))]
		state := append([]byte{flags, byte(p.print), byte(p.print >> 8)}, body...)
		m := New(p)
		var err error
		sebtest.Allocates(t, 8<<10+1000*len(state), state, func() { err = m.Load(state) })
		if err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatal(err)
			}
			return
		}
		again := m.AppendState(nil)
		if err := New(p).Load(again); err != nil {
			t.Fatalf("state %x, after a reload %x: %v", state, again, err)
		}
		now, _ := m.Now()
		m.MatchedEvents(nil)
		m.AwaitedEvents(nil, 10)
		m.Next()
		for i, name := range []string{"B", "A", "C", "D"} {
			m.Step(p.Match(name, nil), now+int64(i)*500, uint64(i))
			m.Advance(now + int64(i)*700)
		}
		if at, ok := m.Next(); ok {
			if was := m.Value() == True; (m.Advance(at) == True) == was {
				t.Fatalf("no change at %d", at)
			}
		}
		if n := m.Instances(); n > MaxInstances || n != m.count(p.root, m.root) {
			t.Fatalf("%d instances, counted %d", n, m.count(p.root, m.root))
		}
	})
}

func TestAwaitedEvents(t *testing.T) {
	const start = 1_700_000_000_000
	p := compile(t, `user_created THEN ((NOT use[x = 1] WITHIN 7 days) AND (count(login) >= 3))`)
	m := New(p)
	want := []AwaitedEvent{{Name: "user_created", Expr: "user_created", Need: 1, From: math.MinInt64, Until: math.MaxInt64}}
	check.EqualSlicesf(t, m.AwaitedEvents(nil, 10), want, "at first")
	m.Step(p.Match("user_created", nil), start, 1)
	m.Step(p.Match("login", nil), start+5, 2)
	want[0].Begins = true
	want = append(want,
		AwaitedEvent{Name: "use", Expr: "use[x = 1]", Absent: true, Need: 1, From: math.MinInt64, Until: start + 7*day},
		AwaitedEvent{Name: "login", Expr: "count(login) >= 3", Have: 1, Need: 3, From: math.MinInt64, Until: math.MaxInt64},
	)
	check.EqualSlicesf(t, m.AwaitedEvents(nil, 10), want, "then")
	if got := m.AwaitedEvents(nil, 2); len(got) != 2 {
		t.Errorf("at most two: %+v", got)
	}
	for i := range int64(3) {
		m.Step(p.Match("login", nil), start+8+i, 3)
	}
	if m.Advance(start + 7*day); m.Value() != True || !m.Settled() || m.AwaitedEvents(nil, 10) != nil {
		t.Errorf("at last %v %+v", m.Value(), m.AwaitedEvents(nil, 10))
	}
}

func TestTimes(t *testing.T) {
	p := compile(t, "A THEN (NOT B WITHIN 2ms)")
	m := New(p)
	if at, done := m.Now(); at >= MinTime || done {
		t.Errorf("at first %d, %v", at, done)
	}
	a := p.Match("A", nil)
	m.Step(a, math.MinInt64, 1)
	if at, _ := m.Now(); at != MinTime {
		t.Errorf("the earliest time is %d", at)
	}
	m.Reset()
	m.Step(a, 10, 1)
	m.Step(a, 5, 1)
	if at, done := m.Now(); at != 10 || done {
		t.Errorf("time ran backwards to %d, %v", at, done)
	}
	m.Advance(10)
	if m.Step(p.Match("B", nil), 10, 2); m.Advance(12) != False {
		t.Error("an event after its instant was complete did not count")
	}
	if at, _ := m.Now(); at != 12 {
		t.Errorf("now %d", at)
	}
	if m.Advance(11); m.Value() != False {
		t.Error("an advance to the past changed the value")
	}
	m.Step(a, math.MaxInt64, 3)
	m.Advance(math.MaxInt64)
	if at, done := m.Now(); at != MaxTime || !done {
		t.Errorf("the latest time is %d, %v", at, done)
	}
}

func TestCompileRefuses(t *testing.T) {
	check.Error(t, check.Err(Compile(driplang.Expr{}, Options{})), "the zero expression: no error")
}

// TestSettledOfDeepExpressions: each operand is examined once, because otherwise the work doubles
// at each level.
func TestSettledOfDeepExpressions(t *testing.T) {
	text := "a"
	for i := range 58 {
		if i%2 == 0 {
			text = "((" + text + ") AND b)"
		} else {
			text = "((" + text + ") OR c)"
		}
	}
	e := must.Get(driplang.Parse("s THEN (" + text + " WITHIN 1h)"))(t)
	p := must.Get(Compile(e, Options{}))(t)
	m := New(p)
	for i, name := range []string{"s", "b", "s", "a"} {
		m.Step(p.Match(name, nil), int64(i), uint64(i))
		if settled, yes := m.Settled(), name == "a"; settled != yes {
			t.Fatalf("settled %v after %s", settled, name)
		}
	}
}

// TestAwaitedEventsUnderNot: required and forbidden events are distinguished from events that would
// start another instance.
func TestAwaitedEventsUnderNot(t *testing.T) {
	for _, c := range []struct {
		expr, events, want string
	}{
		{"A AND NOT (B THEN C)", "", "+A ~B"},
		{"A AND NOT (B THEN C)", "B", "+A ~B -C"},
		{"A AND NOT (B THEN (NOT C WITHIN 7 days))", "B", "+A ~B +C"},
		{"A THEN B", "", "+A"},
		{"A THEN B", "A", "~A +B"},
		{"(A AND NOT C) THEN B", "A", "~A ~C +B"},
		{"A AND (B OR C)", "A", "+B +C"},
	} {
		p := compile(t, c.expr)
		m := New(p)
		for i, name := range strings.Fields(c.events) {
			m.Step(p.Match(name, nil), int64(i), uint64(i))
		}
		var got []string
		for _, w := range m.AwaitedEvents(nil, 10) {
			sign := "+"
			if w.Absent {
				sign = "-"
			}
			if w.Begins {
				sign = "~"
			}
			got = append(got, sign+w.Expr)
		}
		slices.Sort(got)
		want := strings.Fields(c.want)
		slices.Sort(want)
		check.EqualSlicesf(t, got, want, "%s after %q", c.expr, c.events)
	}
}
