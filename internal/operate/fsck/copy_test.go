package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// content returns the records that clients read from a bucket. It starts a broker on the bucket.
func content(t testing.TB, s objstore.Store) *reading {
	t.Helper()
	b := open(t, options(s, 1000))
	defer closeBroker(t, b)
	return readAll(t, b)
}

// sameRecords compares the records of a bucket with the expected ones. A restored log has a gap
// after them.
func sameRecords(t testing.TB, s objstore.Store, want *reading) {
	t.Helper()
	got := content(t, s)
	if !maps.Equal(got.values, want.values) {
		t.Errorf("it has %d records, want %d: %v, want %v", len(got.values), len(want.values), got.values, want.values)
	}
	for name, err := range got.errs {
		check.ErrorIsf(t, err, errNothing, "%s", name)
	}
}

// inFiles is a MemoryBytes with which no object is held in memory.
const inFiles = 1

func backup(t testing.TB, from, to objstore.Store, keep int) *fsck.CopyReport {
	t.Helper()
	r := must.Get(fsck.Backup(t.Context(), fsck.CopyOptions{From: from, To: to, Keep: keep, MemoryBytes: inFiles}))(t)
	must.Get(fsck.Verify(t.Context(), fsck.CopyOptions{From: to, At: &r.At}))(t)
	return r
}

// restored restores a restore point to a new bucket and checks it.
func restored(t testing.TB, from objstore.Store, at *state.Position) objstore.Store {
	t.Helper()
	to := objstore.NewMemory()
	must.Get2(fsck.Restore(t.Context(), fsck.CopyOptions{From: from, To: to, At: at, MemoryBytes: inFiles}))(t)
	clean(t, to)
	return to
}

// TestBackup: each restore point holds every record acknowledged before it. The second transfers
// only new objects.
func TestBackup(t *testing.T) {
	t.Parallel()
	for _, snapshotSlots := range []int{1000, 4} {
		t.Run(fmt.Sprint(snapshotSlots), func(t *testing.T) {
			from, to := objstore.NewMemory(), disk(t)
			live(t, from, snapshotSlots)
			before := settled(t, from)
			first := backup(t, from, to, 0)
			if first.Copied != (fsck.Count{Objects: first.Whole.Objects - 1, Bytes: first.Copied.Bytes}) || first.Points != 1 || first.At.Epoch != 3 {
				t.Errorf("%+v", first)
			}
			if !maps.Equal(before, keys(t, from)) {
				t.Error("the bucket was changed")
			}
			early := content(t, from) // a broker takes the bucket over
			b := open(t, options(from, snapshotSlots))
			for i := range 20 {
				produce(t, b, "a", i%2, "later")
			}
			end := b.Topics(t.Context())[0].Partitions
			closeBroker(t, b)
			settled(t, from)
			second := backup(t, from, to, 0)
			if second.Points != 2 || second.Copied.Objects >= second.Whole.Objects || !first.At.Less(second.At) {
				t.Errorf("the second backup: %+v", second)
			}
			late := content(t, from)
			sameRecords(t, restored(t, to, &first.At), early)
			s := restored(t, to, nil)
			sameRecords(t, s, late)

			b = open(t, options(s, snapshotSlots))
			defer closeBroker(t, b)
			if b.Epoch() <= 1<<16 {
				t.Errorf("the restored log is in epoch %d: clients may have seen it", b.Epoch())
			}
			for i, p := range b.Topics(t.Context())[0].Partitions {
				if p.Start != end[i].Start || p.Next < end[i].Next+1<<32-1 {
					t.Errorf("partition %d is [%d, %d), it was [%d, %d)", i, p.Start, p.Next, end[i].Start, end[i].Next)
				}
				produce(t, b, "a", i, "after the restore")
			}
			points, err := fsck.RestorePoints(t.Context(), to, 0)
			if err != nil || len(points) != 2 || points[0].Position != second.At || points[1].Position != first.At || points[0].Records != int64(len(late.values)) {
				t.Errorf("%+v, %v", points, err)
			}
		})
	}
}

// TestBackupOfABusyBroker: each backup holds every record acknowledged before it, while a broker
// writes, merges and collects.
func TestBackupOfABusyBroker(t *testing.T) {
	t.Parallel()
	from, to := objstore.NewMemory(), objstore.NewMemory()
	b := open(t, options(from, 4))
	create(t, b, "a", 2)
	var acked atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			produce(t, b, "a", i%2, fmt.Sprint(i))
			acked.Add(1)
			if i%10 == 9 {
				merged(t, b, from)
			}
		}
	}()
	for range 8 {
		least := acked.Load()
		r := backup(t, from, to, 3)
		if r.Points > 3 {
			t.Errorf("%d restore points", r.Points)
		}
		points, err := fsck.RestorePoints(t.Context(), to, 0)
		if err != nil || points[0].Records < least {
			t.Fatalf("%d records of %d: %+v, %v", points[0].Records, least, points, err)
		}
		s := restored(t, to, nil)
		if got := content(t, s); int64(len(got.values)) != points[0].Records {
			t.Errorf("%d records, want %d", len(got.values), points[0].Records)
		}
		for until := acked.Load() + 20; acked.Load() < until; {
			time.Sleep(time.Millisecond)
		}
	}
	close(stop)
	<-done
	points, err := fsck.RestorePoints(t.Context(), to, 0)
	if err != nil || len(points) != 3 {
		t.Fatal(points, err)
	}
	for _, p := range points { // each kept point is complete
		restored(t, to, &p.Position)
	}
}

// TestStartsWithoutTheSnapshotOfARecovery: the snapshot at the cut is the newest, and a broker
// leads at once.
func TestStartsWithoutTheSnapshotOfARecovery(t *testing.T) {
	t.Parallel()
	from, to := objstore.NewMemory(), objstore.NewMemory()
	live(t, from, 4)
	settled(t, from)
	backup(t, from, to, 0)
	want := content(t, from)
	s := restored(t, to, nil)
	remove(t, s, snapshots(t, s)[0])
	sameRecords(t, s, want)
	if seals := len(slots(t, s, record.KindSeal)); seals > 5 {
		t.Errorf("%d SEALs: the broker started over", seals)
	}
}

// breaks is a store that refuses writes after a number of them.
type breaks struct {
	objstore.Store
	left atomic.Int64
}

func (s *breaks) Put(ctx context.Context, key string, body objstore.Body) error {
	if s.left.Add(-1) < 0 {
		return objstore.ErrRefused
	}
	return s.Store.Put(ctx, key, body)
}

func (s *breaks) Delete(ctx context.Context, keys ...string) error {
	if s.left.Add(-1) < 0 {
		return objstore.ErrRefused
	}
	return s.Store.Delete(ctx, keys...)
}

// TestCopiesAreInterrupted interrupts each operation after each of its writes. A backup keeps its
// restore points, a broker refuses an unfinished copy, and a repeated call completes the operation.
func TestCopiesAreInterrupted(t *testing.T) {
	t.Parallel()
	from, whole := objstore.NewMemory(), objstore.NewMemory()
	live(t, from, 4)
	settled(t, from)
	first := backup(t, from, whole, 1)
	want := content(t, from)
	b := open(t, options(from, 4))
	for range 10 {
		produce(t, b, "a", 0, "later")
	}
	merged(t, b, from)
	closeBroker(t, b)
	settled(t, from)
	late := content(t, from)
	for name, f := range map[string]func(from, to objstore.Store) error{
		"backup": func(from, to objstore.Store) error {
			_, err := fsck.Backup(t.Context(), fsck.CopyOptions{From: from, To: to, Keep: 1})
			return err
		},
		"restore": func(_, to objstore.Store) error {
			_, _, err := fsck.Restore(t.Context(), fsck.CopyOptions{From: whole, To: to})
			return err
		},
		"copy": func(from, to objstore.Store) error {
			_, err := fsck.Copy(t.Context(), fsck.CopyOptions{From: from, To: to})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for after := int64(0); ; after += int64(sebtest.Runs(1, 3)) {
				to := &breaks{Store: objstore.NewMemory()}
				if name == "backup" {
					to.Store = contentOf(t, whole).store(t)
				}
				to.left.Store(after)
				err := f(from, to)
				if err == nil {
					if after < 5 {
						t.Fatalf("whole after %d writes", after)
					}
					return
				}
				must.ErrorIsf(t, err, objstore.ErrRefused, "after %d writes", after)
				interrupted(t, name, to.Store, first.At, want)
				to.left.Store(1 << 40)
				if err := f(from, to); err != nil && !errors.Is(err, fsck.ErrIsBucket) { // only the mark is left to delete
					t.Fatalf("after %d writes, again: %v", after, err)
				}
				switch name {
				case "backup":
					sameRecords(t, restored(t, to, nil), late)
				case "restore":
					clean(t, to)
					sameRecords(t, to.Store, want)
				case "copy":
					clean(t, to)
					sameRecords(t, to.Store, late)
				}
			}
		})
	}
}

// interrupted checks the objects that an interrupted backup, restore or copy leaves.
func interrupted(t *testing.T, name string, to objstore.Store, first state.Position, want *reading) {
	t.Helper()
	if name == "backup" {
		points, err := fsck.RestorePoints(t.Context(), to, 0)
		if err != nil || len(points) == 0 {
			t.Fatal(points, err)
		}
		for _, p := range points {
			must.Get(fsck.Verify(t.Context(), fsck.CopyOptions{From: to, At: &p.Position}))(t)
		}
		if last := points[len(points)-1]; last.Position == first {
			sameRecords(t, restored(t, to, &first), want)
		}
		return
	}
	if names := keys(t, to); len(names) < 2 || names[core.MetaKey] > 0 {
		return // no objects, or complete except for deleting the mark
	}
	if r := start(t, to, false); r.err == nil {
		t.Fatalf("a broker leads half a %s", name)
	}
	must.ErrorIsf(t, check.Err(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: to})), fsck.ErrIsBackup, "recover")
}

// TestCopy: the copy continues the log without a gap. Copy fences the source before the second
// pass.
func TestCopy(t *testing.T) {
	t.Parallel()
	from, to := objstore.NewMemory(), objstore.NewMemory()
	live(t, from, 4)
	b := open(t, options(from, 4))
	produce(t, b, "a", 0, "one")
	fence := func(ctx context.Context) error {
		produce(t, b, "a", 0, "between the passes")
		other := open(t, options(from, 4))
		return other.Close(ctx)
	}
	must.Get(fsck.Copy(t.Context(), fsck.CopyOptions{From: from, To: to, Fence: fence}))(t)
	if r := brokertest.Try(t.Context(), b, brokertest.Append("a", 0, recordtest.Values("lost")...)); r.Err == nil {
		t.Error("the broker of the source has acknowledged a record after the copy")
	}
	settled(t, from)
	clean(t, to)
	want, got := content(t, from), content(t, to)
	if !maps.Equal(want.values, got.values) || !maps.Equal(want.next, got.next) || len(got.errs) != 0 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCopiesAreRefused: each error names the cause, and the call writes no object.
func TestCopiesAreRefused(t *testing.T) {
	t.Parallel()
	good, other, target := objstore.NewMemory(), objstore.NewMemory(), objstore.NewMemory()
	live(t, good, 4)
	live(t, other, 1000)
	settled(t, good)
	settled(t, other)
	backup(t, good, target, 0)
	data := withData(t, good)
	lost := contentOf(t, good).store(t)
	remove(t, lost, data[len(data)-3]) // above or below the newest snapshot, and with records in both cases
	damaged := contentOf(t, good).store(t)
	change(t, damaged, packs(t, good)[0], func(b []byte) []byte { b[len(b)-9] ^= 1; return b })
	foreign := objstore.NewMemory()
	put(t, foreign, "my-photos/1.jpg", []byte("x"))
	for name, c := range map[string]struct {
		from, to objstore.Store
		want     error
		text     string
	}{
		"no log":           {objstore.NewMemory(), objstore.NewMemory(), fsck.ErrNoLog, ""},
		"a backup as from": {target, objstore.NewMemory(), fsck.ErrIsBackup, "seb restore"},
		"a bucket as to":   {good, other, fsck.ErrIsBucket, ""},
		"itself":           {good, good, fsck.ErrIsBucket, ""},
		"another backup":   {other, target, fsck.ErrOtherLog, ""},
		"other files":      {good, foreign, nil, "my-photos/1.jpg"},
		"a lost object":    {lost, objstore.NewMemory(), nil, data[len(data)-3]},
		"a damaged pack":   {damaged, objstore.NewMemory(), record.ErrCorrupt, packs(t, good)[0]},
	} {
		t.Run(name, func(t *testing.T) {
			before := keys(t, c.to)
			_, err := fsck.Backup(t.Context(), fsck.CopyOptions{From: c.from, To: c.to, MemoryBytes: inFiles})
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v with %q", err, c.want, c.text)
			}
			if len(snapshots(t, c.to)) != 0 && !maps.Equal(before, keys(t, c.to)) {
				t.Error("the target was changed")
			}
		})
	}
	if _, _, err := fsck.Restore(t.Context(), fsck.CopyOptions{From: good, To: objstore.NewMemory()}); !errors.Is(err, fsck.ErrNoLog) {
		t.Errorf("restore from a bucket: %v", err)
	}
	if _, _, err := fsck.Restore(t.Context(), fsck.CopyOptions{From: target, To: objstore.NewMemory(), At: &state.Position{Epoch: 9}}); !errors.Is(err, fsck.ErrNoLog) {
		t.Errorf("restore of a position that is none: %v", err)
	}
	for key := range keys(t, target) {
		if strings.Contains(key, "/pack/") || strings.Contains(key, "/wal/") {
			broken := contentOf(t, target).store(t)
			change(t, broken, key, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
			if _, err := fsck.Verify(t.Context(), fsck.CopyOptions{From: broken}); !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s is damaged: %v", key, err)
			}
			if _, _, err := fsck.Restore(t.Context(), fsck.CopyOptions{From: broken, To: objstore.NewMemory(), MemoryBytes: inFiles}); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("%s is damaged: restore: %v", key, err)
			}
			remove(t, broken, key)
			if _, err := fsck.Verify(t.Context(), fsck.CopyOptions{From: broken}); err == nil && !strings.Contains(key, "/wal/") {
				t.Errorf("%s is missing: no error", key)
			}
		}
	}
}

// TestBackupOfManyEpochs: the state forgets epochs without records. The copy holds their SEALs and
// not their garbage.
func TestBackupOfManyEpochs(t *testing.T) {
	t.Parallel()
	from, to := objstore.NewMemory(), objstore.NewMemory()
	live(t, from, 4)
	for range 40 {
		kill(open(t, options(from, 4)))
	}
	closeBroker(t, open(t, options(from, 4)))
	settled(t, from)
	head := must.Get(record.DecodeHead(read(t, from, withData(t, from)[0])[:record.HeadSize]))(t)
	head.Epoch, head.Nonce, head.Slot, head.Low = 20, record.ID{1}, 3, 0
	garbage := state.SlotKey(0, head.Epoch, head.Nonce, head.Slot)
	body := must.Get(record.EncodeObject(&head, nil, nil, nil))(t)
	put(t, from, garbage, body)
	backup(t, from, to, 0)
	want := content(t, from)
	s := restored(t, to, nil)
	if names := keys(t, s); names[garbage] != 0 || len(slots(t, s, record.KindSeal)) < 40 {
		t.Errorf("garbage of %d bytes and %d SEALs", names[garbage], len(slots(t, s, record.KindSeal)))
	}
	sameRecords(t, s, want)
}
