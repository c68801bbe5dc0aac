package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// fillInsts writes rows of a trigger, a thousand per transaction.
func fillInsts(t testing.TB, f *File, from, to int) {
	t.Helper()
	for ; from < to; from += 1000 {
		var keys []InstKey
		var rows []Inst
		for i := from; i < min(from+1000, to); i++ {
			keys = append(keys, InstKey{Group: 1, Entity: fmt.Sprintf("user-%07d", i*7919%1_000_003), Partition: uint32(i % 2)})
			rows = append(rows, Inst{Due: int64(1_700_000_000_000 + i), Data: []byte(fmt.Sprintf("%024d and what a monitor keeps", i))})
		}
		must.NoError(t, f.Update(t.Context(), func(tx *Tx) error { return tx.PutInsts(keys, rows) }))
	}
}

func openCopy(t testing.TB, path string) *File {
	t.Helper()
	f := must.Get(Open(t.Context(), Options{Path: path, Cluster: "c", Unsafe: true}))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	f := openCopy(t, filepath.Join(dir, "a.db"))
	fillInsts(t, f, 0, 5000)
	x := Firing{ID: rule.ID{1}, Trigger: "t", Entity: "e", Version: 1, Cause: "o:0:1", State: rule.Pending, NextTry: 5}
	err := f.Update(t.Context(), func(tx *Tx) error {
		if _, err := tx.AddFiring(&x); err != nil {
			return err
		}
		if err := tx.PutTrigger(&Trigger{ID: "t", Version: 1, Status: Joined, Def: []byte("{}")}); err != nil {
			return err
		}
		if err := tx.Erase(Hash{2}, Erasure{Offset: 3, Time: 44}); err != nil {
			return err
		}
		return tx.PutCursor(CursorKey{Partition: 1}, Cursor{Next: 7, Clock: 8})
	})
	must.NoError(t, err)
	must.NoError(t, f.Copy(t.Context(), filepath.Join(dir, "b.db")))
	fillInsts(t, f, 5000, 6000)
	c := openCopy(t, filepath.Join(dir, "b.db"))
	rows, due, err := c.Count(t.Context(), 1)
	if err != nil || rows != 5000 || due != 5000 {
		t.Fatalf("%d rows, %d due: %v", rows, due, err)
	}
	if got, err := c.Firing(t.Context(), x.ID); err != nil || got == nil || got.Seq != 1 || got.NextTry != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	if at, err := c.LastErasure(t.Context()); err != nil || at != 44 {
		t.Fatalf("%d, %v", at, err)
	}
	cursors, err := c.Cursors(t.Context())
	if err != nil || cursors[CursorKey{Partition: 1}].Next != 7 {
		t.Fatalf("%v, %v", cursors, err)
	}
	// A copy is a complete file: its numbers continue.
	again := Trigger{ID: "u", Version: 1, Status: Joined, Def: []byte("{}")}
	err = c.Update(t.Context(), func(tx *Tx) error {
		if err := tx.DropTrigger(1); err != nil {
			return err
		}
		return tx.PutTrigger(&again)
	})
	if err != nil || again.No != 2 {
		t.Fatalf("number %d: %v", again.No, err)
	}
	must.Error(t, f.Copy(t.Context(), filepath.Join(dir, "b.db")), "a copy overwrote a file")
}

// An invalid row is not copied, because it would outlive the file.
func TestCopyReadsAllRows(t *testing.T) {
	for table, change := range map[string]string{
		"inst": "UPDATE inst SET data = x'00112233445566778899' WHERE entity = (SELECT max(entity) FROM inst)",
		"fire": "UPDATE fire SET data = x'7b7d'", "cursor": "UPDATE cursor SET next = 9", "trig": "UPDATE trig SET def = x'00'",
	} {
		t.Run(table, func(t *testing.T) {
			dir := t.TempDir()
			f := openCopy(t, filepath.Join(dir, "a.db"))
			fillInsts(t, f, 0, 100)
			err := f.Update(t.Context(), func(tx *Tx) error {
				if _, err := tx.AddFiring(&Firing{ID: rule.ID{1}, Trigger: "t", Entity: "e"}); err != nil {
					return err
				}
				if err := tx.PutTrigger(&Trigger{ID: "t", Version: 1, Status: Joined, Def: []byte("{}")}); err != nil {
					return err
				}
				return tx.PutCursor(CursorKey{Partition: 1}, Cursor{Next: 7, Clock: 8})
			})
			must.NoError(t, err)
			must.Get(f.tx.Exec(t.Context(), change))(t)
			must.ErrorIs(t, f.Copy(t.Context(), filepath.Join(dir, "b.db")), localdb.ErrDamaged)
		})
	}
}

func TestCanceledCopy(t *testing.T) {
	sebtest.Long(t, "TestCopy remains")
	dir := t.TempDir()
	f := openCopy(t, filepath.Join(dir, "a.db"))
	fillInsts(t, f, 0, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.ErrorIs(t, f.Copy(ctx, filepath.Join(dir, "b.db")), context.Canceled)
	fillInsts(t, f, 1000, sebtest.Runs(30_000, 10_000)) // the file stays usable
	for _, after := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if err := f.Copy(ctx, filepath.Join(dir, "b.db")); err != nil && (ctx.Err() == nil || errors.Is(err, localdb.ErrDamaged)) {
			t.Fatalf("%v", err)
		}
		cancel()
		must.NoError(t, Remove(filepath.Join(dir, "b.db")))
		fillInsts(t, f, 0, 1000)
	}
}
