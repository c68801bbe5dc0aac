package monitor

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/sebtest"
)

var compareTime = flag.Duration("comparetime", 0, "time to compare monitor and definitions on random histories")

// comparison evaluates one history with the monitor and with the reference evaluator.
type comparison struct {
	expr    driplang.Expr
	ref     *driplangtest.Expr
	history []testEvent
	events  []driplangtest.Event // the same
	plain   *Monitor             // as used by triggers
	pending *Monitor             // with exact pending
	choose  *chooser
	out     bool
	fires   []int64
}

// horizon returns an instant after which nothing changes by time alone.
func (c *comparison) horizon() int64 {
	sum := 2 + c.ref.Span()
	if len(c.history) > 0 {
		sum += c.history[len(c.history)-1].at
	}
	return sum
}

func (c *comparison) at(p point) Value { return byDefinition(c.ref, c.events, p) }

// compareHistory returns the first difference.
func compareHistory(text string, history []testEvent, choose *chooser) error {
	e, err := driplang.Parse(text)
	if err != nil {
		return nil // for example an empty window
	}
	p, err := Compile(e, Options{})
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	exact, _ := Compile(e, Options{Pending: true})
	c := &comparison{
		expr: e, ref: driplangtest.Of(e), history: history, events: given(history), plain: New(p), pending: New(exact), choose: choose,
	}
	if c.out = p.Initially() == True; exact.Initially() != c.at(point{0, -1, true}) {
		return fmt.Errorf("initially %v, by definition %v", exact.Initially(), c.at(point{0, -1, true}))
	}
	if err := c.run(); err != nil {
		return fmt.Errorf("%s\nhistory %v\n%w", e, history, err)
	}
	return nil
}

func (c *comparison) run() error {
	for k, e := range c.history {
		if err := c.advance(k, e.at-1); err != nil {
			return err
		}
		kinds := c.plain.program.Match(e.name, []byte(e.data))
		if kinds == 0 && c.choose.Below(2) > 0 {
			continue
		}
		ref := uint64(k + 1)
		c.plain.Step(kinds, e.at, ref)
		c.pending.Step(kinds, e.at, ref)
		if err := c.check(point{k + 1, e.at, false}); err != nil {
			return err
		}
	}
	if err := c.advance(len(c.history), c.horizon()); err != nil {
		return err
	}
	return c.checkFires()
}

// advance advances to an instant after k events, by deadlines or millisecond by millisecond.
func (c *comparison) advance(k int, to int64) error {
	each := c.choose.Below(2) > 0
	now, _ := c.plain.Now()
	for at := max(now, 0); each && at < to; at++ {
		if err := c.advanceTo(k, at); err != nil {
			return err
		}
	}
	for {
		at, ok := c.plain.Next()
		if !ok || at > to {
			break
		}
		if err := c.advanceTo(k, at); err != nil {
			return err
		}
	}
	if c.choose.Below(3) == 0 && k < len(c.history) {
		return nil // directly to the next event
	}
	return c.advanceTo(k, to)
}

func (c *comparison) advanceTo(k int, at int64) error {
	if at < 0 {
		return nil
	}
	c.plain.Advance(at)
	c.pending.Advance(at)
	return c.check(point{k, at, true})
}

// check compares all results at a point.
func (c *comparison) check(p point) error {
	if now, done := c.plain.Now(); now != p.t || done != p.done {
		return nil // the monitor is already ahead
	}
	if err := c.reload(); err != nil {
		return fmt.Errorf("at %+v: %w", p, err)
	}
	want := c.at(p)
	if got := c.pending.Value(); got != want {
		return fmt.Errorf("at %+v: %v, by definition %v", p, got, want)
	}
	if got := c.plain.Value(); (got == True) != (want == True) {
		return fmt.Errorf("at %+v, without pending: %v, by definition %v", p, got, want)
	}
	next, ok := c.next(p, want)
	for _, m := range []*Monitor{c.plain, c.pending} {
		if got, gotOk := m.Next(); gotOk != ok || ok && got != next {
			return fmt.Errorf("at %+v: next change %d, %v, by definition %d, %v", p, got, gotOk, next, ok)
		}
		if m.Settled() && ok {
			return fmt.Errorf("at %+v: settled, but changes at %d", p, next)
		}
		if m.Degraded() || m.Instances() != m.count(m.program.root, m.root) {
			return fmt.Errorf("at %+v: %d instances, counted %d", p, m.Instances(), m.count(m.program.root, m.root))
		}
	}
	if is := want == True; is != c.out {
		if c.out = is; is {
			c.fires = append(c.fires, p.t)
		}
	}
	return c.checkWitness(p)
}

func (m *Monitor) count(r *region, f *frame) int {
	n := 0
	for i := range f.cells {
		for _, right := range f.cells[i].rights {
			n += 1 + m.count(r.cells[i].right, right)
		}
	}
	return n
}

// next evaluates every millisecond.
func (c *comparison) next(p point, now Value) (int64, bool) {
	for at := p.t; at <= c.horizon(); at++ {
		if q := (point{p.k, at, true}); q != p && (c.at(q) == True) != (now == True) {
			return at, true
		}
	}
	return 0, false
}

// reload saves the state of a monitor and loads it again.
func (c *comparison) reload() error {
	for _, m := range []**Monitor{&c.plain, &c.pending} {
		if c.choose.Below(3) > 0 {
			continue
		}
		state := (*m).AppendState(nil)
		fresh := New((*m).program)
		if c.choose.Below(2) > 0 { // a monitor that was used before
			fresh = *m
		}
		now, done := (*m).Now()
		if err := fresh.Load(state); err != nil {
			return fmt.Errorf("state %x: %w", state, err)
		}
		if len(state) == 0 {
			fresh.now, fresh.done = now, done
		}
		if again := fresh.AppendState(nil); !slices.Equal(again, state) {
			return fmt.Errorf("state %x, after a reload %x", state, again)
		}
		*m = fresh
	}
	return nil
}

// checkWitness removes all other events: the expression must stay true. The matched events of a
// count, and of a negated THEN, are not complete.
func (c *comparison) checkWitness(p point) error {
	witness := c.plain.MatchedEvents(nil)
	if c.ref.Counting() || c.plain.Value() != True {
		return nil
	}
	var kept []testEvent
	for _, ref := range witness {
		if ref < 1 || ref > uint64(p.k) {
			return fmt.Errorf("at %+v: matched events %v", p, witness)
		}
		kept = append(kept, c.history[ref-1])
	}
	if v := byDefinition(c.ref, given(kept), point{len(kept), p.t, p.done}); v != True {
		return fmt.Errorf("at %+v: only with the matched events %v: %v", p, kept, v)
	}
	return nil
}

// checkFires compares the rising edges with those of every event and every millisecond.
func (c *comparison) checkFires() error {
	var want []int64
	out := c.at(point{0, -1, true}) == True
	edge := func(p point) {
		if is := c.at(p) == True; is != out {
			if out = is; is {
				want = append(want, p.t)
			}
		}
	}
	k := 0
	for at := int64(0); at <= c.horizon(); at++ {
		for ; k < len(c.history) && c.history[k].at == at; k++ {
			edge(point{k + 1, at, false})
		}
		edge(point{k, at, true})
	}
	if !slices.Equal(c.fires, want) {
		return fmt.Errorf("fires at %v, by definition %v", c.fires, want)
	}
	// Evaluation at fewer instants finds the same edges.
	var few []int64
	for _, f := range c.ref.Firings(c.events, driplangtest.Edge) {
		few = append(few, f.At)
	}
	if !slices.Equal(few, want) {
		return fmt.Errorf("found at %v, by definition %v", few, want)
	}
	return nil
}

// compareBytes derives one comparison from a fuzzer's bytes.
func compareBytes(b []byte) (string, error) {
	c := chooserOf(b)
	history := c.history(9 + 6*c.Below(2))
	text := c.Expression(4+c.Below(2), false)
	return text, compareHistory(text, history, c)
}

func FuzzMonitor(f *testing.F) {
	for seed := range 40 {
		f.Add(seeded(uint64(seed)).Bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 400 {
			return
		}
		if text, err := compareBytes(b); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

func TestMonitorAgainstDefinitions(t *testing.T) {
	few := sebtest.Runs(1500, 150)
	until := time.Now().Add(*compareTime)
	first := uint64(0)
	if *compareTime > 0 {
		first = rand.Uint64() >> 8
	}
	n := 0
	for seed := first; n < few || time.Now().Before(until); seed++ {
		n++
		if text, err := compareBytes(seeded(seed).Bytes); err != nil {
			t.Fatalf("seed %d: %s\n%v", seed, text, err)
		}
	}
	t.Logf("%d histories", n)
}
