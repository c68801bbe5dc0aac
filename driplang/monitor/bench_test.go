package monitor

import (
	"fmt"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/must"
)

const day = 24 * 3600 * 1000

var benchmarks = []struct {
	name, expr string
	events     []string
	gap        int64
}{
	{"week", "user_created THEN (NOT use_feature_x WITHIN 7 days)", []string{"user_created", "use_feature_x", "user_created"}, 3 * day},
	{"chain", "a THEN b THEN (c WITHIN 2 days)", []string{"a", "b", "a", "b", "c"}, day},
	{"guard", "a THEN (NOT b) THEN c", []string{"a", "b", "a", "c"}, day},
	{"sliding", "count(login) >= 5 WITHIN 7 days", []string{"login"}, 2 * day},
	{"filter", `cart THEN (purchase[amount > 100 AND currency = "EUR"] WITHIN 2 days)`, []string{"cart", "purchase"}, day},
	{"quiet", "a THEN (NOT b WITHIN 2 days) THEN (NOT c WITHIN 3 days)", []string{"a", "c", "a", "b"}, day},
	{"mixed", "a THEN ((b AND NOT c) WITHIN 20 days)", []string{"a", "a", "a", "b"}, day},
}

var data = []byte(`{"user":{"id":17,"plan":"pro"},"items":[{"sku":"x-1","n":2}],"amount":99.5,"currency":"EUR"}`)

func compile(t testing.TB, text string) *Program {
	t.Helper()
	e := must.Get(driplang.Parse(text))(t)
	p := must.Get(Compile(e, Options{}))(t)
	return p
}

// BenchmarkEvent measures the full cost of an event for one entity: load the state, match and apply
// the event, compute the next instant, and write the state.
func BenchmarkEvent(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			p := compile(b, c.expr)
			m := New(p)
			at, state, length, n := int64(1_700_000_000_000), []byte(nil), 0, 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				at += c.gap
				must.NoError(b, m.Load(state))
				m.Step(p.Match(c.events[n%len(c.events)], data), at, uint64(1_000_000_000+n))
				if m.Settled() {
					m.Reset()
				}
				m.Next()
				state = m.AppendState(state[:0])
				length += len(state)
			}
			b.ReportMetric(float64(length)/float64(n), "stateB")
		})
	}
}

// BenchmarkStep measures only the event, for an entity in memory.
func BenchmarkStep(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			p := compile(b, c.expr)
			m := New(p)
			at, n := int64(1_700_000_000_000), 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				at += c.gap
				m.Step(p.Match(c.events[n%len(c.events)], data), at, uint64(1_000_000_000+n))
				if m.Settled() {
					m.Reset()
				}
			}
		})
	}
}

// BenchmarkDegenerate measures expressions at their worst, with the maximum number of instances.
func BenchmarkDegenerate(b *testing.B) {
	for _, text := range []string{
		"a THEN ((b AND NOT c) WITHIN 20 days)",
		"a THEN (NOT b WITHIN 20 days) THEN (c WITHIN 1 day)",
		"z AND NOT (a THEN (NOT b WITHIN 20 days) THEN (c WITHIN 1 day))",
	} {
		b.Run(fmt.Sprintf("%.30s", text), func(b *testing.B) {
			p := compile(b, text)
			m := New(p)
			at := int64(1_700_000_000_000)
			for range 2 * MaxInstances {
				at++
				m.Step(p.Match("a", nil), at, 1)
			}
			if !m.full(p.root) || !m.Degraded() {
				b.Fatalf("%d instances", m.Instances())
			}
			b.ReportMetric(float64(len(m.AppendState(nil))), "stateB")
			for b.Loop() {
				at++
				m.Step(p.Match("a", nil), at, 1)
				m.Next()
			}
		})
	}
}
