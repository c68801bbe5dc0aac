package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sebbroker/seb/driplang"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// heap returns the bytes of the heap that are in use.
func heap(keep any) int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(keep)
	return int64(m.HeapAlloc)
}

// many returns an expression of n names that are unique to trigger i.
func many(i, n int, between string) string {
	var names []string
	for j := range n {
		names = append(names, fmt.Sprintf("name%d_%d", i, j))
	}
	return strings.Join(names, between)
}

var kinds = map[string]func(i int) (expr, deliver string){
	"short":  func(i int) (string, string) { return fmt.Sprintf("a%d", i), "" },
	"window": func(i int) (string, string) { return fmt.Sprintf("a%d THEN (NOT b%d WITHIN 7 days)", i, i), "" },
	"same":   func(int) (string, string) { return "a THEN (NOT b WITHIN 7 days)", "" },
	"names":  func(i int) (string, string) { return many(i, 50, " OR "), "" },
	"then":   func(i int) (string, string) { return many(i, 10, " THEN "), "" },
	"guards": func(i int) (string, string) { return "(" + many(i, 14, " AND NOT x) THEN (y AND ") + ")", "" },
	"large":  func(i int) (string, string) { return "a", fmt.Sprintf(`{"topic":%q}`, strings.Repeat("x", 20<<10)) },
}

// TestTriggerMemory: triggers and rules use at most their estimate of heap, and not much less. The
// deliver members are only in the file.
func TestTriggerMemory(t *testing.T) {
	sebtest.Long(t, "TestFiringsExactlyOnce and TestScenarios remain, without memory")
	n := sebtest.Runs(500, 50)
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			s := stepBy(t, newLog().broker(true), "", &defaultSizes, func(o *Options) { o.MemoryBytes = 4 })
			s.definition("none", "a", nil) // creates the topics
			s.settle()
			for i := range n {
				expr, deliver := kind(i)
				s.put(s.definition(fmt.Sprint("t", i), expr, func(d *rule.Definition) { d.Deliver = json.RawMessage(deliver) }))
			}
			before := heap(s)
			s.settle()
			takes := (heap(s) - before) / int64(n)
			if said := s.Memory() / int64(n); takes > said || takes < said/3 {
				t.Errorf("a trigger uses %d bytes, the estimate is %d", takes, said)
			}
			var rules []*rule.Rule
			before, said := heap(rules), int64(0)
			for i := range n {
				expr, _ := kind(i)
				r := must.Get(rule.Compile(s.definition("x", expr, nil)))(t)
				rules, said = append(rules, r), said+r.Bytes()
			}
			if takes := heap(rules) - before; takes > said || takes < said/4 {
				t.Errorf("a rule uses %d bytes, the estimate is %d", takes/int64(n), said/int64(n))
			}
		})
	}
}

var defaultSizes = DefaultSizes()

// TestTriggersBeyondMemory: a definition beyond the limit is refused before it is recorded, with
// the limit to set. Existing triggers can be changed and deleted, and a rebuild keeps them, even
// with less memory.
func TestTriggersBeyondMemory(t *testing.T) {
	b := newLog().broker(true)
	s := stepBy(t, b, "", &small, func(o *Options) { o.MemoryBytes = 64 << 10 })
	put := func(id, text string) error {
		expr, err := driplang.Parse(text)
		must.NoError(t, err)
		_, err = s.Put(t.Context(), rule.Definition{ID: id, Expr: expr, Fire: rule.OnEdge}, nil)
		return err
	}
	var full *FullError
	n := 0
	for ; !errors.As(put(fmt.Sprint("t", n), many(n, 5, " OR ")), &full); n++ {
		if n > 100 {
			t.Fatal("no FullError")
		}
	}
	if full.Triggers != n || full.Held+full.Wanted <= full.Max || full.Max != 48<<10 || full.Limit < 1<<20 || full.Limit%(1<<20) != 0 {
		t.Errorf("%+v", full)
	}
	if want := fmt.Sprintf("start with --memory-limit %dMiB", full.Limit>>20); !strings.HasSuffix(full.Error(), want) {
		t.Errorf("%q, want the suffix %q", full, want)
	}
	topic, _ := b.Topic("triggers")
	if p, _ := b.Position(topic.ID); p.Topics[0][0].Next != int64(n) {
		t.Errorf("%d records of %d triggers", p.Topics[0][0].Next, n)
	}
	if err := put("t0", many(0, 60, " OR ")); !errors.As(err, &full) {
		t.Errorf("a larger version: %v", err)
	}
	check.NoError(t, errors.Join(put("t0", "short"), s.Pause(t.Context(), "t1", true), s.Delete(t.Context(), "t2", nil), put("new", "A")))
	s.end()
	s = stepBy(t, b, "", &small, func(o *Options) { o.MemoryBytes = 1 << 10 })
	s.settle()
	if list, err := s.Triggers(); err != nil || len(list) != n || !errors.As(put("more", "A"), &full) {
		t.Errorf("%d triggers, want %d; %v", len(list), n, err)
	}
	b.post(ev("e", "A"))
	s.settle()
	same(t, s.fires(), []string{"new e +20 pending"})
}
