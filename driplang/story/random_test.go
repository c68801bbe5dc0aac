package story_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/monitor"
	"github.com/sebbroker/seb/driplang/story"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/driplangtest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestStoriesOfRandomExpressions: by definition the stories end as they say, a stated difference is the
// only one, and a story fires if one of the shortest histories does.
func TestStoriesOfRandomExpressions(t *testing.T) {
	n, without, searched := 0, 0, 0
	seeds := sebtest.Runs(750, 60)
	for seed := range uint64(seeds) {
		c := driplangtest.Random(seed)
		c.Rich = seed%4 == 0
		e, err := driplang.Parse(c.Expression(1+c.Below(4), false))
		if err != nil {
			continue // for example an empty window
		}
		n++
		a, err := story.Of(e)
		must.NoErrorf(t, err, "seed %d: %s", seed, e)
		check.NoErrorf(t, verify(e, a), "seed %d: %s", seed, e)
		if again, _ := story.Of(e); !reflect.DeepEqual(a, again) {
			t.Errorf("seed %d: %s: other stories the second time", seed, e)
		}
		if a.NoneFires == "" || a.NoneFires == story.TrueAtStart {
			continue
		}
		if without++; !a.Truncated {
			searched++
			if h := firing(t, e); h != nil {
				t.Errorf("seed %d: %s: %s, but it fires for %v", seed, e, a.NoneFires, h)
			}
		}
	}
	t.Logf("%d expressions, %d without a story that fires, %d of them searched", n, without, searched)
	if n < seeds*3/5 || searched < seeds/150 {
		t.Error("too few")
	}
}

// firing looks for a history of at most three events that fires.
func firing(t *testing.T, e driplang.Expr) []driplangtest.Event {
	t.Helper()
	p := must.Get(monitor.Compile(e, monitor.Options{}))(t)
	m := monitor.New(p)
	var letters []driplangtest.Event
	for _, name := range e.Names() {
		seen := map[monitor.Kinds]bool{0: true}
		for _, data := range []string{``, `{"x":1}`, `{"x":2,"y":1}`} {
			if k := p.Match(name, []byte(data)); !seen[k] {
				seen[k] = true
				letters = append(letters, driplangtest.Event{Name: name, Data: data})
			}
		}
	}
	var search func(h []driplangtest.Event) []driplangtest.Event
	search = func(h []driplangtest.Event) []driplangtest.Event {
		if len(h) > 0 && becomesTrue(m, p, h) {
			return h
		}
		for _, letter := range letters {
			for _, gap := range []int64{1, 2, 4, 8} {
				if len(h) == 3 || len(h) == 0 && gap > 1 {
					continue
				}
				if len(h) > 0 {
					letter.At = h[len(h)-1].At + gap
				}
				if found := search(append(h[:len(h):len(h)], letter)); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return search(nil)
}

func becomesTrue(m *monitor.Monitor, p *monitor.Program, h []driplangtest.Event) bool {
	m.Reset()
	for _, e := range h {
		if at, ok := m.Next(); ok && at < e.At {
			return true
		}
		if m.Step(p.Match(e.Name, []byte(e.Data)), e.At, 0) == monitor.True {
			return true
		}
	}
	_, ok := m.Next()
	return ok
}

// checkChange checks that a story has only the stated difference from an earlier one.
func checkChange(from, to *story.Story) error {
	c := to.Change
	if to.Difference == "" {
		return errors.New("no difference")
	}
	if (c.Kind == story.Earlier) != (to.Outcome == story.Pending) || from.Outcome == story.Pending {
		return fmt.Errorf("%+v of a story that is %s, and one that is %s", c, to.Outcome, from.Outcome)
	}
	a, b := history(from), history(to)
	switch c.Kind {
	case story.Earlier:
		if to.End >= from.End || !reflect.DeepEqual(a, b) {
			return fmt.Errorf("it ends at %d, not before %d, or has other events", to.End, from.End)
		}
		return nil
	case story.Added:
		b = without(b, c.To)
	case story.Removed:
		a = without(a, c.From)
	case story.Replaced:
		if c.From != c.To || a[c.From].Name == b[c.To].Name && a[c.From].Data == b[c.To].Data {
			return fmt.Errorf("%+v is no other event", c)
		}
		a[c.From].Name, a[c.From].Data = b[c.To].Name, b[c.To].Data
	case story.Moved:
		if a[c.From].Name != b[c.To].Name || a[c.From].Data != b[c.To].Data {
			return fmt.Errorf("%+v is another event", c)
		}
		a, b = without(a, c.From), without(b, c.To)
	case story.Delayed:
		later := b[c.To].At - a[c.To].At
		if c.To < 1 || later == 0 {
			return fmt.Errorf("%+v is no delay", c)
		}
		for i := c.To; i < len(a); i++ {
			a[i].At += later
		}
	default:
		return fmt.Errorf("%+v", c)
	}
	if len(a) > 0 && len(b) > 0 {
		shift := b[0].At - a[0].At
		for i := range a {
			a[i].At += shift
		}
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("%s: %v and %v", to.Difference, a, b)
	}
	return nil
}

func without(h []driplangtest.Event, i int) []driplangtest.Event {
	return append(h[:i:i], h[i+1:]...)
}
