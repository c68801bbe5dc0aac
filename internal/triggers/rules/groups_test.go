package rules

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// rows returns the rows of entities u0 to un: how many have the states of which triggers, by number.
func (s *stepped) rows(n int) string {
	s.t.Helper()
	found := map[string]int{}
	groups := []int64{}
	for _, h := range must.Get(s.Triggers())(s.t) {
		groups = append(groups, h.Group, -h.No)
	}
	for i := range n {
		err := s.follower.Query(func(q store.Queries) error {
			return q.EntityInsts(s.t.Context(), fmt.Sprint("u", i), groups, func(_ store.InstKey, in store.Inst) error {
				nos := []int64{}
				err := eachEntry(&in, func(no, _ int64, _ []byte) (bool, error) {
					nos = append(nos, no)
					return true, nil
				})
				found[fmt.Sprint(nos)]++
				return err
			})
		})
		must.NoError(s.t, err)
	}
	return fmt.Sprint(found)
}

// TestTriggersShareRows: triggers that mention the same event have one row per entity, and the states
// of a removed one leave it.
func TestTriggersShareRows(t *testing.T) {
	const entities = 2*sweepPage + 50
	sizes := DefaultSizes()
	sizes.Unsafe = true
	s := stepBy(t, newLog().broker(true), "", &sizes)
	s.put(s.definition("a", "A THEN B", nil))
	s.put(s.definition("b", "A THEN (NOT B WITHIN 1 day)", nil))
	s.put(s.definition("c", "C THEN D", nil))
	s.settle()
	for i := range entities {
		s.b.post(ev(fmt.Sprint("u", i), "A"))
		s.b.post(ev(fmt.Sprint("u", i), "C"))
	}
	s.settle()
	check.Equalf(t, s.rows(entities), "map[[1 2]:250 [3]:250]", "rows")
	must.NoError(t, s.Delete(t.Context(), "b", nil))
	s.settle()
	check.Equalf(t, s.rows(entities), "map[[1]:250 [3]:250]", "rows without b")
	s.put(s.definition("b", "A THEN (NOT D WITHIN 1 day)", nil)) // reads the past, in rows of its own
	s.settle()
	check.Equalf(t, s.rows(entities), "map[[1]:250 [3]:250 [4]:250]", "rows with another b")
	for i := range entities {
		s.b.post(ev(fmt.Sprint("u", i), "A"))
	}
	s.settle()
	check.Equalf(t, s.rows(entities), "map[[1 4]:250 [3]:250]", "rows after another event")
}

// TestRowData: every row is decoded as it was encoded, and other bytes are damage.
func TestRowData(t *testing.T) {
	for _, n := range []int{1, 2, 64} {
		var x, again cached
		for i := range n {
			state := fmt.Appendf(nil, "state %d", i)
			row := rule.Row{State: slices.Clip(state), Due: int64(i%3) * 86_400_000, Last: int64(i), Flags: rule.True}
			x.set(int64(100-i), &row)
		}
		in := x.encode()
		must.NoError(t, again.decode(&in))
		check.Equalf(t, fmt.Sprint(again.entries), fmt.Sprint(x.entries), "entries of %d triggers", n)
		check.Equalf(t, again.bytes, x.bytes, "bytes of %d triggers", n)
		for cut := range len(in.Data) {
			some := store.Inst{Due: in.Due, Data: in.Data[:cut]}
			if err := new(cached).decode(&some); err != nil {
				must.ErrorIs(t, err, localdb.ErrDamaged)
			} else if n < 2 || in.Data[0] == s2Row {
				t.Errorf("%d of %d bytes are a row", cut, len(in.Data))
			}
		}
		for i := range n {
			x.remove(int64(100 - i))
		}
		check.Equalf(t, x.bytes, 0, "bytes without triggers")
	}
}
