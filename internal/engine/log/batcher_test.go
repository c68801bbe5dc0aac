package log_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

type item = log.Item[int]

const ms = int64(time.Millisecond)

func TestTake(t *testing.T) {
	blocking := log.NewBatcher[int]
	null := func(c log.Config) *log.Batcher[int] {
		c.NoWait = true
		return blocking(c)
	}
	type add struct{ at, bytes int64 }
	early := func(c log.Config) *log.Batcher[int] {
		c.BytesEnough = 50
		return blocking(c)
	}
	busy := func(c log.Config) *log.Batcher[int] {
		b := early(c)
		b.Storing(100)
		b.Storing(40)
		return b
	}
	ten := log.Config{Wait: 10 * time.Millisecond, BytesMax: 100, ItemsMax: 4}
	for _, c := range []struct {
		name  string
		make  func(log.Config) *log.Batcher[int]
		adds  []add
		now   int64
		force bool
		due   int64
		want  [][]int // objects taken at now, in order
	}{
		{"empty queue", blocking, nil, 50 * ms, true, -1, nil},
		{"the wait starts at the first item", blocking, []add{{5 * ms, 1}, {9 * ms, 1}}, 15*ms - 1, false, 15 * ms, nil},
		{"due after the wait", blocking, []add{{5 * ms, 1}, {9 * ms, 1}}, 15 * ms, false, 15 * ms, [][]int{{0, 1}}},
		{"force skips the wait", blocking, []add{{5 * ms, 1}}, 5 * ms, true, 15 * ms, [][]int{{0}}},
		{"the soft limit ends the wait", blocking, []add{{5 * ms, 60}, {6 * ms, 40}}, 6 * ms, false, 5 * ms, [][]int{{0, 1}}},
		{"the rest has its own wait", blocking, []add{{5 * ms, 60}, {6 * ms, 60}}, 6 * ms, false, 5 * ms, [][]int{{0}}},
		{"a backlog is cut at the soft limit", blocking, []add{{1, 40}, {2, 60}, {3, 100}, {4, 30}, {5, 80}}, 90 * ms, false, 1, [][]int{{0, 1}, {2}, {3}, {4}}},
		{"a larger item is an object of its own", blocking, []add{{1, 10}, {2, 500}, {3, 10}}, 90 * ms, false, 1, [][]int{{0}, {1}, {2}}},
		{"the limit of items ends the wait", blocking, []add{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1, false, 1, [][]int{{0, 1, 2, 3}}},
		{"null does not wait", null, []add{{5 * ms, 1}}, 5 * ms, false, 5 * ms, [][]int{{0}}},
		{"null takes all queued items", null, []add{{1, 50}, {2, 50}, {3, 1}}, 5, false, 1, [][]int{{0, 1}, {2}}},
		{"enough ends the wait", early, []add{{5 * ms, 30}, {6 * ms, 20}}, 6 * ms, false, 5 * ms, [][]int{{0, 1}}},
		{"less than enough waits", early, []add{{5 * ms, 30}, {6 * ms, 19}}, 15*ms - 1, false, 15 * ms, nil},
		{"less than twice the bytes being stored waits", busy, []add{{5 * ms, 30}, {6 * ms, 49}}, 15*ms - 1, false, 15 * ms, nil},
		{"twice the bytes being stored does not wait", busy, []add{{5 * ms, 30}, {6 * ms, 50}}, 6 * ms, false, 5 * ms, [][]int{{0, 1}}},
		{"a backlog is not cut at BytesEnough", early, []add{{1, 30}, {2, 30}, {3, 30}, {4, 30}}, 5, false, 1, [][]int{{0, 1, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.make(ten)
			for i, a := range c.adds {
				b.Add(&item{Value: i}, a.bytes, a.at)
			}
			at, ok := b.Due()
			if ok != (c.due >= 0) || ok && at != c.due {
				t.Fatalf("due at %d %v, want %d", at, ok, c.due)
			}
			for _, want := range c.want {
				must.EqualSlicesf(t, b.Take(nil, c.now, c.force), want, "took")
			}
			if got := b.Take(nil, c.now, false); len(got) != 0 {
				t.Fatalf("took %v, want nothing", got)
			}
		})
	}
}

func TestInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		prompt         bool
		storing, bytes int64
		wait           time.Duration
	}{
		"no wait while nothing is stored": {true, 0, 1, 0},
		"waits while an object is stored": {true, 1, 1, 10 * time.Millisecond},
		"a large object does not wait":    {true, 1, 50, 0},
		"waits if it is not prompt":       {false, 0, 1, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			b := log.NewBatcher[int](log.Config{Wait: 10 * time.Millisecond, BytesEnough: 50, InTurn: true})
			b.Prompt(c.prompt)
			b.Storing(c.storing)
			b.Add(&item{Value: 1}, c.bytes, 5*ms)
			if at, ok := b.Due(); !ok || at != 5*ms+int64(c.wait) {
				t.Errorf("due at %d %v, want a wait of %v", at, ok, c.wait)
			}
		})
	}
	b := log.NewBatcher[int](log.Config{Wait: 10 * time.Millisecond})
	b.Prompt(true)
	b.Add(&item{}, 1, 5*ms)
	if at, _ := b.Due(); at != 15*ms {
		t.Errorf("due at %d without InTurn", at)
	}
}

// fixedBudget has one pace, and records the objects that have left.
type fixedBudget struct {
	pace  log.Pace
	extra []bool
	short atomic.Bool
}

func (b *fixedBudget) Next() log.Pace  { return b.pace }
func (b *fixedBudget) Left(extra bool) { b.extra = append(b.extra, extra) }
func (b *fixedBudget) Short() bool     { return b.short.Load() }

func TestBudget(t *testing.T) {
	const wait = 250 * time.Millisecond
	for name, c := range map[string]struct {
		pace    log.Pace
		storing int64
		bytes   int64
		left    int64 // when an object left before, ms; 0: none
		due     int64 // ms after the item, which comes at 1,000 ms
	}{
		"at once":                            {pace: log.Pace{Busy: wait}},
		"waits":                              {pace: log.Pace{Wait: 40 * time.Millisecond, Busy: wait}, due: 40},
		"waits while an object is stored":    {pace: log.Pace{Busy: wait}, storing: 1, due: 250},
		"a gap after the object before":      {pace: log.Pace{Busy: wait, Gap: 3 * time.Second}, left: 500, due: 2500},
		"a gap that has passed":              {pace: log.Pace{Busy: wait, Gap: 300 * time.Millisecond}, left: 500, due: 0},
		"the longer of wait and gap":         {pace: log.Pace{Wait: wait, Busy: wait, Gap: 600 * time.Millisecond}, left: 500, due: 250},
		"no gap before the first":            {pace: log.Pace{Busy: wait, Gap: 3 * time.Second}},
		"a full object leaves without money": {pace: log.Pace{Wait: wait, Busy: wait, Gap: time.Minute}, left: 999, storing: 1, bytes: 100},
	} {
		t.Run(name, func(t *testing.T) {
			budget := &fixedBudget{pace: log.Pace{}}
			b := log.NewBatcher[int](log.Config{Wait: wait, BytesMax: 100, Budget: budget})
			if c.left > 0 {
				b.Add(&item{}, 1, c.left*ms)
				b.Take(nil, c.left*ms, false)
			}
			budget.pace = c.pace
			b.Storing(c.storing)
			b.Add(&item{Value: 1}, max(c.bytes, 1), 1000*ms)
			if at, ok := b.Due(); !ok || at != (1000+c.due)*ms {
				t.Errorf("due at %d ms, want %d", at/ms, 1000+c.due)
			}
		})
	}
}

// TestExtraObjects: an object is extra if the fixed wait of 250 ms had stored its items with those
// before it.
func TestExtraObjects(t *testing.T) {
	budget := &fixedBudget{}
	b := log.NewBatcher[int](log.Config{Wait: 250 * time.Millisecond, Budget: budget})
	for _, at := range [][]int64{{1000}, {1100}, {1249}, {1250}, {1499}, {2000, 2300}, {2499}, {2500}} {
		for _, a := range at {
			b.Add(&item{}, 1, a*ms)
		}
		b.Take(nil, at[len(at)-1]*ms, false)
	}
	check.EqualSlicesf(t, budget.extra, []bool{false, true, true, false, true, false, true, false}, "extra")
}

func TestCancelledFirstItemMovesTheDeadline(t *testing.T) {
	b := log.NewBatcher[int](log.Config{Wait: 10 * time.Millisecond})
	one, two := &item{Value: 1}, &item{Value: 2}
	b.Add(one, 5, 1*ms)
	b.Add(two, 7, 4*ms)
	if !b.Cancel(one) || b.Cancel(one) {
		t.Fatal("the item was not cancelled exactly once")
	}
	if at, ok := b.Due(); !ok || at != 14*ms {
		t.Fatalf("due at %d %v", at, ok)
	}
	must.EqualSlicesf(t, b.Take(nil, 14*ms, false), []int{2}, "took")
	if b.Cancel(two) {
		t.Fatal("a taken item was cancelled")
	}
	b.Add(two, 7, 20*ms)
	if b.Len() != 1 || b.Bytes() != 7 || !two.Queued() {
		t.Fatal("a removed item was not queued again")
	}
}

func TestDeferredItems(t *testing.T) {
	cfg := log.Config{Wait: 10 * time.Millisecond, DeferWait: time.Second}
	for _, c := range []struct {
		name   string
		b      *log.Batcher[int]
		urgent int64 // wait of an item that is not deferred
	}{
		{"blocking", log.NewBatcher[int](cfg), 10 * ms},
		{"null", log.NewBatcher[int](log.Config{NoWait: true, Wait: cfg.Wait, DeferWait: cfg.DeferWait}), 0},
		{"not shorter than other items", log.NewBatcher[int](log.Config{Wait: time.Second, DeferWait: time.Millisecond}), 1000 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.b
			due := func(want int64) {
				t.Helper()
				if at, ok := b.Due(); !ok || at != want {
					t.Fatalf("due at %d %v, want %d", at, ok, want)
				}
			}
			one, two, three := &item{Value: 1, Deferred: true}, &item{Value: 2}, &item{Value: 3, Deferred: true}
			b.Add(one, 1, 1*ms)
			due(1001 * ms)
			if got := b.Take(nil, 1001*ms-1, false); got != nil {
				t.Fatalf("took %v before its time", got)
			}
			b.Add(two, 1, 1*ms)
			b.Add(three, 1, 2*ms)
			due(1*ms + c.urgent)
			b.Cancel(one)
			due(1*ms + c.urgent)
			b.Cancel(two)
			due(1002 * ms)
			b.Add(two, 1, 5*ms)
			b.Cancel(three)
			due(5*ms + c.urgent)
			b.Add(one, 1, 6*ms)
			must.EqualSlicesf(t, b.Take(nil, 5*ms+c.urgent, false), []int{2, 1}, "took: a deferred item joins a due object")
		})
	}
}

func TestAddTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	b := log.NewBatcher[int](log.Config{})
	it := &item{}
	b.Add(it, 1, 1)
	b.Add(it, 1, 1)
}

// model is a simple, slow batcher.
type model struct {
	vals  []int
	bytes map[int]int64
	until map[int]int64 // when each has waited long enough
	// the same while no object is stored
	prompts map[int]int64

	storing int64
	prompt  bool
}

// due reports whether an object may be cut.
func (m *model) due(cfg log.Config, now int64) bool {
	waited := slices.ContainsFunc(m.vals, func(v int) bool {
		return m.until[v] <= now || m.prompt && m.storing == 0 && m.prompts[v] <= now
	})
	if cfg.BytesEnough > 0 && m.sum() >= cfg.BytesEnough && m.sum() >= 2*m.storing {
		waited = true
	}
	return waited || len(m.vals) > 0 && m.sum() >= cfg.BytesMax || len(m.vals) >= cfg.ItemsMax
}

func (m *model) add(cfg log.Config, it *item, bytes, now int64) {
	wait, prompt := cfg.Wait, time.Duration(0)
	if it.Deferred {
		wait, prompt = max(wait, cfg.DeferWait), cfg.DeferWait
	}
	m.vals, m.bytes[it.Value] = append(m.vals, it.Value), bytes
	m.until[it.Value], m.prompts[it.Value] = now+int64(wait), now+int64(prompt)
}

func (m *model) sum() (n int64) {
	for _, v := range m.vals {
		n += m.bytes[v]
	}
	return n
}

func (m *model) cut(cfg log.Config) (out []int) {
	var n int64
	for _, v := range m.vals {
		if len(out) == cfg.ItemsMax || len(out) > 0 && n+m.bytes[v] > cfg.BytesMax {
			break
		}
		n += m.bytes[v]
		out = append(out, v)
	}
	m.vals = m.vals[len(out):]
	return out
}

func TestRandomAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := log.Config{
			Wait:      time.Duration(rapid.Int64Range(0, 20).Draw(t, "wait")),
			DeferWait: time.Duration(rapid.Int64Range(0, 60).Draw(t, "patience")),
			BytesMax:  rapid.Int64Range(1, 100).Draw(t, "bytesMax"),
			ItemsMax:  rapid.IntRange(1, 8).Draw(t, "itemsMax"),

			BytesEnough: rapid.Int64Range(0, 120).Draw(t, "bytesEnough"),
		}
		cfg.InTurn = rapid.Bool().Draw(t, "inTurn")
		null := rapid.Bool().Draw(t, "null")
		cfg.NoWait = null
		b := log.NewBatcher[int](cfg)
		if null {
			cfg.Wait, cfg.BytesEnough = 0, 0
		}
		m := &model{bytes: map[int]int64{}, until: map[int]int64{}, prompts: map[int]int64{}}
		items, now := []*item{}, int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				it := &item{Value: len(items), Deferred: rapid.Bool().Draw(t, "deferred")}
				items = append(items, it)
				n := rapid.Int64Range(0, 150).Draw(t, "bytes")
				m.add(cfg, it, n, now)
				b.Add(it, n, now)
			},
			"cancel": func(t *rapid.T) {
				if len(items) == 0 {
					t.Skip()
				}
				v := rapid.IntRange(0, len(items)-1).Draw(t, "item")
				i := slices.Index(m.vals, v)
				if i >= 0 {
					m.vals = slices.Delete(slices.Clone(m.vals), i, i+1)
				}
				must.Equalf(t, b.Cancel(items[v]), i >= 0, "cancel of %d", v)
			},
			"store": func(t *rapid.T) {
				m.storing = rapid.Int64Range(0, 60).Draw(t, "storing")
				b.Storing(m.storing)
			},
			"prompt": func(t *rapid.T) {
				on := rapid.Bool().Draw(t, "on")
				m.prompt = on && cfg.InTurn && !null
				b.Prompt(on)
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(1, 15).Draw(t, "ns") },
			"take": func(t *rapid.T) {
				force := rapid.Bool().Draw(t, "force")
				var want []int
				if len(m.vals) > 0 && force || m.due(cfg, now) {
					want = m.cut(cfg)
				}
				must.EqualSlicesf(t, b.Take(nil, now, force), want, "took")
			},
			"": func(t *rapid.T) {
				if b.Len() != len(m.vals) || b.Bytes() != m.sum() {
					t.Fatalf("%d items, %d bytes; want %d, %d", b.Len(), b.Bytes(), len(m.vals), m.sum())
				}
			},
		})
	})
}

func BenchmarkAddTake(b *testing.B) {
	q := log.NewBatcher[int](log.Config{Wait: time.Millisecond})
	items := make([]item, 100)
	dst := make([]int, 0, len(items))
	b.ReportAllocs()
	for b.Loop() {
		for i := range items {
			q.Add(&items[i], 1000, 1)
		}
		dst = q.Take(dst[:0], 2*ms, false)
	}
	_ = dst
}

// TestSlack: items within the slack do not make the next object due earlier.
func TestSlack(t *testing.T) {
	within := 0
	rapid.Check(t, func(t *rapid.T) {
		inTurn := rapid.Bool().Draw(t, "in turn")
		b := log.NewBatcher[int](log.Config{Wait: 10, DeferWait: 50, BytesEnough: 60, BytesMax: 100, ItemsMax: 5, InTurn: inTurn})
		b.Prompt(inTurn)
		for now := int64(1); now < 40; now++ {
			dueBefore, queued := b.Due()
			bytes, items := b.Slack()
			it := &item{Deferred: rapid.IntRange(0, 3).Draw(t, "deferred") == 0}
			size := rapid.Int64Range(1, 50).Draw(t, "bytes")
			b.Add(it, size, now)
			if size < bytes && items > 1 {
				within++
				if due, _ := b.Due(); !queued || due < dueBefore {
					t.Fatalf("an item of %d bytes within %d makes the object due at %d instead of %d", size, bytes, due, dueBefore)
				}
			}
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0:
				b.Take(nil, now, true)
			case 1:
				b.Cancel(it)
			case 2:
				b.Storing(rapid.Int64Range(0, 100).Draw(t, "storing"))
			}
		}
	})
	if within == 0 {
		t.Error("no item was within the slack")
	}
}
