package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f := must.Get(Open(t.Context(), Options{Path: path, Cluster: "one", Unsafe: true}))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func update(t *testing.T, f *File, change func(tx *Tx) error) {
	t.Helper()
	must.NoError(t, f.Update(t.Context(), change))
}

func inst(i int) (InstKey, Inst) {
	return InstKey{Group: 1, Entity: fmt.Sprintf("e%03d", i), Partition: 2}, Inst{Due: int64(i % 7), Data: []byte{byte(i)}}
}

// fill writes a hundred rows of one trigger and partition, and one of another partition.
func fill(t *testing.T, f *File) {
	t.Helper()
	update(t, f, func(tx *Tx) error {
		var keys []InstKey
		var rows []Inst
		for i := range 100 {
			k, in := inst(i)
			keys, rows = append(keys, k), append(rows, in)
		}
		k, in := inst(5)
		k.Partition = 9
		return tx.PutInsts(append(keys, k), append(rows, in))
	})
}

func TestRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "triggers.db")
	f := open(t, path)
	fill(t, f)
	f.Close()
	f = open(t, path)
	update(t, f, func(tx *Tx) error {
		var keys []InstKey
		for i := range 110 { // ten do not exist
			k, _ := inst(i)
			keys = append(keys, k)
		}
		found := map[InstKey]Inst{}
		err := tx.EachInst(keys, func(k InstKey, in Inst) error {
			if _, ok := found[k]; ok {
				t.Errorf("%+v returned twice", k)
			}
			found[k] = in
			return nil
		})
		for i := range 100 {
			k, want := inst(i)
			if got, ok := found[k]; !ok || got.Due != want.Due || string(got.Data) != string(want.Data) {
				t.Errorf("%+v is %+v, want %+v", k, got, want)
			}
		}
		check.Equalf(t, len(found), 100, "rows")
		due, e := tx.Due(nil, 1, 2, 20)
		for i, d := range due {
			if d.At < 1 || d.At > 2 || i > 0 && d.At < due[i-1].At {
				t.Errorf("due row %d is %+v", i, d)
			}
		}
		first, e2 := tx.FirstDue(1)
		if len(due) != 20 || first != 1 {
			t.Errorf("%d are due, the first at %d", len(due), first)
		}
		none, e3 := tx.FirstDue(2)
		check.Equalf(t, none, math.MaxInt64, "first due of no rows")
		return errors.Join(err, e, e2, e3)
	})
	if keys, err := f.keys(t, "e005", 1); err != nil || len(keys) != 2 {
		t.Errorf("%+v, %v", keys, err)
	}
}

func TestFailedTransactionChangesNothing(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	boom := errors.New("boom")
	err := f.Update(t.Context(), func(tx *Tx) error {
		k, in := inst(1)
		if err := tx.PutInsts([]InstKey{k}, []Inst{in}); err != nil {
			return err
		}
		return boom
	})
	if rows, _, e := f.Count(t.Context(), 1); !errors.Is(err, boom) || rows != 0 || e != nil {
		t.Errorf("%v; %d rows, %v", err, rows, e)
	}
}

func TestMarkSeen(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	update(t, f, func(tx *Tx) error {
		for i, c := range []struct {
			reader, time, since int64
			fresh               bool
		}{
			{Main, 100, 0, true},
			{Main, 150, 50, false},
			{7, 150, 50, true},
			{Main, 200, 100, false},
			{Main, 201, 101, true},
			{Main, 300, 200, false},
		} {
			if fresh, err := tx.MarkSeen(c.reader, Hash{1}, SeenEvent{Time: c.time, Offset: c.time * 10}, c.since); err != nil || fresh != c.fresh {
				t.Errorf("%d: %v, %v", i, fresh, err)
			}
		}
		return nil
	})
	if x, ok, err := f.SeenAt(t.Context(), Hash{1}); x != (SeenEvent{201, 2010}) || !ok || err != nil {
		t.Errorf("%+v, %v, %v", x, ok, err)
	}
	update(t, f, func(tx *Tx) error { return tx.PruneSeen(Main, 202, 10) })
	if _, ok, err := f.SeenAt(t.Context(), Hash{1}); ok || err != nil {
		t.Errorf("found after pruning, %v", err)
	}
}

// TestDamageIsFound changes one value, which SQLite's own checks do not find.
func TestDamageIsFound(t *testing.T) {
	for _, c := range []struct {
		change string
		read   func(f *File) error
	}{
		{"UPDATE inst SET due = 6 WHERE entity = CAST('e005' AS BLOB)", func(f *File) error {
			_, err := f.keys(t, "e005", 1)
			return err
		}},
		{"UPDATE inst SET data = x'00' WHERE entity = CAST('e006' AS BLOB)", func(f *File) error {
			_, err := f.keys(t, "e006", 1)
			return err
		}},
		{"UPDATE cursor SET next = next + 1", func(f *File) error {
			_, err := f.Cursors(t.Context())
			return err
		}},
		{"UPDATE trig SET status = 1", func(f *File) error {
			_, err := f.NextTrigger(t.Context(), 0)
			return err
		}},
		{"UPDATE fire SET data = replace(data, 'delivered', 'pending')", func(f *File) error {
			_, err := f.Firing(t.Context(), rule.ID{1})
			return err
		}},
	} {
		path := filepath.Join(t.TempDir(), "triggers.db")
		f := open(t, path)
		fill(t, f)
		update(t, f, func(tx *Tx) error {
			_, err := tx.AddFiring(&Firing{ID: rule.ID{1}, Trigger: "t", Entity: "e", Version: 1, State: rule.Delivered})
			return errors.Join(err,
				tx.PutCursor(CursorKey{Topic: record.ID{1}}, Cursor{Next: 5}),
				tx.PutTrigger(&Trigger{ID: "t", Version: 1, Status: Joined, Def: []byte("{}")}))
		})
		must.NoErrorf(t, c.read(f), "%s: before", c.change)
		f.Close()
		db := must.Get(sql.Open("sqlite", path))(t)
		if r, err := db.Exec(c.change); err != nil {
			t.Fatalf("%s: %v", c.change, err)
		} else if n, _ := r.RowsAffected(); n == 0 {
			t.Fatalf("%s changes nothing", c.change)
		}
		db.Close()
		check.ErrorIsf(t, c.read(open(t, path)), localdb.ErrDamaged, "%s", c.change)
	}
}

func TestForeignFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "triggers.db")
	open(t, path).Close()
	check.ErrorIsf(t, check.Err(Open(t.Context(), Options{Path: path, Cluster: "two"})), localdb.ErrDamaged, "another cluster")
	must.NoError(t, os.WriteFile(path, []byte("no database"), 0o600))
	check.ErrorIsf(t, check.Err(Open(t.Context(), Options{Path: path, Cluster: "one"})), localdb.ErrDamaged, "another application")
	must.NoError(t, Remove(path))
	open(t, path)
}

// TestHeldFirings: a transaction reads what it has added and changed, and the outbox has the order of
// the additions.
func TestHeldFirings(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	const n = 2*HeldMax + 10
	id := func(i int) rule.ID { return rule.MakeID("t", 1, "e", fmt.Sprint(i)) }
	for round := range 2 {
		update(t, f, func(tx *Tx) error {
			for i := range n {
				x := &Firing{ID: id(i), Trigger: "t", Entity: "e", Version: 1, State: rule.Computed}
				if added, err := tx.AddFiring(x); err != nil || added != (round == 0) {
					t.Fatalf("round %d, firing %d: added is %v, %v", round, i, added, err)
				}
				if round > 0 || i%3 > 0 {
					continue
				}
				x, err := tx.Firing(id(i / 2)) // not written yet, or read again
				if err != nil || x == nil {
					t.Fatalf("firing %d: %v, %v", i/2, x, err)
				}
				x.Recorded, x.State, x.NextTry = 1, rule.Pending, 7
				if err := errors.Join(tx.UpdateFiring(x), tx.PutRetraction(x.ID, int64(i), "c")); err != nil {
					return err
				}
			}
			list, err := tx.TriggerPending("t", 0, n)
			check.Equalf(t, len(list), (n+2)/3, "pending firings")
			return err
		})
	}
	update(t, f, func(tx *Tx) error {
		last := int64(0)
		var firings, retractions []string
		list, err := tx.Outbox(0, 2*n)
		for _, o := range list {
			if o.Seq <= last {
				t.Fatalf("entry %d after %d", o.Seq, last)
			}
			if last = o.Seq; o.Firing != nil {
				firings = append(firings, o.Firing.ID.String())
			} else {
				retractions = append(retractions, fmt.Sprint(o.At, o.Retracts))
			}
		}
		var open, retracted []string
		changed := map[int]bool{}
		for i := 0; i < n; i += 3 {
			changed[i/2] = true
			retracted = append(retracted, fmt.Sprint(i, id(i/2)))
		}
		for i := range n {
			if !changed[i] {
				open = append(open, id(i).String())
			}
		}
		must.EqualSlicesf(t, firings, open, "firings to record")
		must.EqualSlicesf(t, retractions, retracted, "retractions to record")
		return err
	})
}
