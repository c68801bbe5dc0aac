package rules

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
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

// TestSweepIsBounded: a turn does as much work as another one when it removes the states of a trigger
// from rows that others share, because each row is written again.
func TestSweepIsBounded(t *testing.T) {
	const entities = 3 * sweepPage
	sizes := DefaultSizes()
	sizes.Unsafe, sizes.Work = true, sweepPage*recordWork // less than that of a page
	s := stepBy(t, newLog().broker(true), "", &sizes)
	s.put(s.definition("a", "A THEN B", nil))
	s.put(s.definition("b", "A THEN C", nil))
	s.settle()
	for i := range entities {
		s.b.post(ev(fmt.Sprint("u", i), "A"))
	}
	s.settle()
	s.append("triggers", record.Record{Key: []byte("b")})
	for page := range entities / sweepPage {
		s.w.Step(t.Context())
		left := entities - (page+1)*sweepPage
		want := fmt.Sprint(map[string]int{"[1]": entities - left, "[1 2]": left})
		if left == 0 {
			want = fmt.Sprint(map[string]int{"[1]": entities})
		}
		check.Equalf(t, s.rows(entities), want, "rows after turn %d", page+1)
	}
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

// TestFetchedRowsAreBounded: rows that are read in bulk fill the cache, but do not exceed its limit by
// more than one of them, whatever their size is. Rows that fetch leaves out are read one by one.
func TestFetchedRowsAreBounded(t *testing.T) {
	const rows, state, limit = 100, 50_000, 500_000
	f := must.Get(store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "triggers.db"), Unsafe: true}))(t)
	defer func() { must.NoError(t, f.Close()) }()
	keys := make([]store.InstKey, 0, rows+1)
	for i := range rows + 1 {
		keys = append(keys, store.InstKey{Group: -1, Entity: fmt.Sprint("u", i)})
	}
	must.NoError(t, f.Update(t.Context(), func(tx *store.Tx) error {
		c := rowCache{limit: limit}
		for i := range rows { // the file has no row of the last key
			x, err := c.get(tx, keys[i])
			must.NoError(t, err)
			x.set(1, &rule.Row{State: bytes.Repeat([]byte{byte(i)}, state)})
			c.touch(keys[i], x)
		}
		return c.flush(tx, func(int64) bool { return true }, nil)
	}))
	must.NoError(t, f.Update(t.Context(), func(tx *store.Tx) error {
		c := rowCache{limit: limit}
		must.NoError(t, c.fetch(tx, slices.Clone(keys)))
		if most := int64(limit + state + 1000); c.bytes > most || c.bytes < limit {
			t.Errorf("fetched %d bytes, want %d to %d", c.bytes, limit, most)
		}
		for i, k := range keys {
			x, err := c.get(tx, k)
			must.NoError(t, err)
			j, there := x.find(1)
			if there != (i < rows) || there && x.entries[j].row.State[0] != byte(i) {
				t.Errorf("%v: entry %v is not as written", k, there)
			}
		}
		return nil
	}))
}
