package fsck_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

const values = 10

// journaled is a bucket in a folder whose epoch 1 has a journal. It holds the records 0 to 9 of
// partition a/0, each in an object of its own.
type journaled struct {
	t   *testing.T
	dir string
}

// newJournaled makes the bucket. Its broker was closed, or killed.
func newJournaled(t *testing.T, closed bool) *journaled {
	j := &journaled{t, t.TempDir()}
	store := j.open()
	b := open(t, options(store, 1000))
	if !b.Status().Journaled {
		t.Skip("no journals on this file system")
	}
	create(t, b, "a", 1)
	for i := range values {
		produce(t, b, "a", 0, fmt.Sprintf("value-%d", i))
	}
	if !closed { // what a killed process leaves is what a running one has
		killed := t.TempDir()
		must.NoError(t, os.CopyFS(killed, os.DirFS(j.dir)))
		defer func() { j.dir = killed }()
	}
	closeBroker(t, b)
	must.NoError(t, store.Close())
	return j
}

// open opens the bucket like a new process.
func (j *journaled) open() *objstore.Disk {
	j.t.Helper()
	s := must.Get(objstore.OpenDisk(j.dir, objstore.DiskOptions{NoSync: true}))(j.t)
	j.t.Cleanup(func() { _ = s.Close() })
	return s
}

// file is the path of a file of epoch 1, such as "+journal/00000001".
func (j *journaled) file(name string) string {
	j.t.Helper()
	found, err := filepath.Glob(filepath.Join(j.dir, "s0000", "wal", "0000000001-????????????????????????????????"+name))
	if err != nil || len(found) != 1 {
		j.t.Fatalf("%q: %v, %v", name, found, err)
	}
	return found[0]
}

func (j *journaled) flip(name string, at func(content []byte) int) {
	j.t.Helper()
	content := must.Get(os.ReadFile(j.file(name)))(j.t)
	content[at(content)] ^= 1
	must.NoError(j.t, os.WriteFile(j.file(name), content, 0o600))
}

func body(i int) func([]byte) int {
	return func(b []byte) int { return bytes.Index(b, fmt.Appendf(nil, "value-%d", i)) }
}

// head is in the head of the batch with a record.
func head(i int) func([]byte) int { return func(b []byte) int { return body(i)(b)&^4095 + 50 } }

func at(n int) func([]byte) int { return func([]byte) int { return n } }

// reads starts a broker and compares the records that it serves.
func (j *journaled) reads(want ...int) {
	j.t.Helper()
	s := j.open()
	b := open(j.t, options(s, 1000))
	got := readAll(j.t, b)
	var wrong []string
	for _, i := range want {
		if got.values[fmt.Sprintf("a/0@%d", i)] != fmt.Sprintf("value-%d", i) {
			wrong = append(wrong, fmt.Sprint(i))
		}
	}
	if len(wrong) > 0 || len(got.values) != len(want) {
		j.t.Errorf("serves %v, want %v: %v", got.values, want, got.errs)
	}
	closeBroker(j.t, b)
	must.NoError(j.t, s.Close())
}

// finds runs a check and compares the damage with the words that each finding must hold.
func (j *journaled) finds(want ...string) {
	j.t.Helper()
	_, found, err := verify(j.t, fsck.Options{Store: j.open()})
	var got []string
	for _, f := range found {
		if f.Severity == fsck.Damage {
			got = append(got, fmt.Sprintf("%s %s: %s", f.Kind, f.Key, f.Text))
		}
	}
	ok := err == nil && len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.Contains(got[i], want[i])
	}
	if !ok {
		j.t.Errorf("fsck finds %q, %v; want %q", got, err, want)
	}
}

// refuses starts a broker, which must name the damage, and returns the error.
func (j *journaled) refuses(words string) *core.LostError {
	j.t.Helper()
	for _, readOnly := range []bool{true, false} {
		o := options(j.open(), 1000)
		o.Core.ReadOnly = readOnly
		b, err := broker.Open(j.t.Context(), o)
		if err == nil {
			kill(b)
		}
		lost, is := errors.AsType[*core.LostError](err)
		if !is || !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), words) {
			j.t.Fatalf("read-only %v: %v, want words %q", readOnly, err, words)
		}
		if !readOnly {
			return lost
		}
	}
	return nil
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// losesFrom damages the batch of a record, and recovers.
func losesFrom(t *testing.T, name string, from int, closed, successor bool) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		j := newJournaled(t, closed)
		if successor { // a later epoch, with a record that belongs to the lost branch
			s := j.open()
			b := open(t, options(s, 1000))
			produce(t, b, "a", 0, "later")
			closeBroker(t, b)
			must.NoError(t, s.Close())
		}
		j.flip("+journal/00000001", head(from))
		lost := j.refuses("+journal/00000001: 4096 bytes at offset ")
		damages := []string{"corrupt object s0000/wal/0000000001-", "damaged journal s0000/wal/0000000001-"}
		if successor {
			damages = append([]string{"lost epoch s0000/wal/0000000002-"}, damages...)
		}
		j.finds(damages...)
		r := must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: j.open(), Accept: &lost.Pos}))(t)
		if len(r.Lost) != 1 || r.Lost[0].From != int64(from) || r.Lost[0].To < values+(1<<24) {
			t.Errorf("recovered %+v", r)
		}
		j.reads(upTo(from)...)
		j.finds()
		if _, err := fsck.Recover(t.Context(), fsck.RecoverOptions{Store: j.open(), Accept: &lost.Pos}); !errors.Is(err, fsck.ErrNothingLost) {
			t.Errorf("a second recovery: %v", err)
		}
	})
}

// TestDamagedJournals damages each part of a journal under a log. Either the broker serves every
// acknowledged record, or it names the file and the offset and a recovery continues.
func TestDamagedJournals(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		name := map[bool]string{true: "closed", false: "killed"}[closed]
		losesFrom(t, "a head/"+name, 5, closed, false)
		losesFrom(t, "a head below a later epoch/"+name, 5, closed, true)
		losesFrom(t, "the last head/"+name, values-1, closed, false)
		t.Run("a body/"+name, func(t *testing.T) {
			j := newJournaled(t, closed)
			j.flip("+journal/00000001", body(5))
			j.finds("corrupt batches s0000/wal/0000000001-")
			b := open(t, options(j.open(), 1000))
			defer kill(b)
			if got := readAll(t, b); !errors.Is(got.errs["a/0"], state.ErrCorrupt) || len(got.values) != 5 {
				t.Errorf("%v", got)
			}
		})
		t.Run("the claim/"+name, func(t *testing.T) {
			j := newJournaled(t, closed)
			j.flip("", at(20))
			j.finds("claim is damaged: its content is invalid; every object of the journal can be read")
			j.reads(upTo(values)...)
		})
		if closed {
			t.Run("the end", func(t *testing.T) {
				j := newJournaled(t, closed)
				j.flip("+late/+end", at(60))
				j.finds("+late/+end: end is damaged")
				j.reads(upTo(values)...)
			})
			for _, late := range []bool{true, false} { // objects after the end: it had a name
				t.Run(fmt.Sprintf("no end, objects after it %t", late), func(t *testing.T) {
					j := newJournaled(t, closed)
					want := upTo(values)
					if late {
						b := open(t, options(j.open(), 1000)) // it seals the epoch before
						produce(t, b, "a", 0, fmt.Sprintf("value-%d", values))
						closeBroker(t, b)
						want = upTo(values + 1)
					}
					end := j.file("+late/+end")
					was := must.Get(os.ReadFile(end))(t)
					must.NoError(t, os.Remove(end))
					if late {
						j.finds("+late/+end: end is damaged: the file is missing; every object of the journal can be read")
					} else { // as after a kill before it had a name
						j.finds()
						check.Equalf(t, string(must.Get(os.ReadFile(end))(t)), string(was), "the end that the check names again")
					}
					j.reads(want...)
				})
			}
		}
	}
}

// TestObjectOfADamagedJournalIsRestored puts an object from a backup under its name into the folder of
// the late objects. Nothing is lost then. In the newest epoch the end of the log is still unknown, so a
// recovery ends the epoch there.
func TestObjectOfADamagedJournalIsRestored(t *testing.T) {
	t.Parallel()
	for _, successor := range []bool{true, false} {
		j := newJournaled(t, true)
		s := j.open()
		all := withData(t, s)
		key := all[len(all)-5]
		object := read(t, s, key)
		want := upTo(values)
		if successor {
			b := open(t, options(s, 1000))
			produce(t, b, "a", 0, fmt.Sprintf("value-%d", values))
			closeBroker(t, b)
			want = upTo(values + 1)
		}
		must.NoError(t, s.Close())
		j.flip("+journal/00000001", head(5))
		j.refuses("offset")
		must.NoError(t, os.WriteFile(filepath.Join(j.file("+late"), filepath.Base(key)), object, 0o600))
		if !successor {
			end := j.refuses("offset")
			must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: j.open(), Accept: &end.Pos}))(t)
		}
		j.reads(want...)
	}
}

// TestObjectOfAKilledJournalIsRestored: the same in a journal without an end. Its end is named by the
// recovery, so nothing is damaged afterwards but what the recovery has accepted, and a leader that compares the
// bucket with its state raises no alarm.
func TestObjectOfAKilledJournalIsRestored(t *testing.T) {
	t.Parallel()
	for _, restored := range []bool{true, false} {
		j := newJournaled(t, false)
		s := j.open()
		all := withData(t, s)
		key := all[len(all)-5]
		object := read(t, s, key)
		j.flip("+journal/00000001", head(5))
		want := upTo(5)
		if restored {
			late := filepath.Join(strings.TrimSuffix(j.file("+journal"), "+journal") + "+late")
			must.NoError(t, os.MkdirAll(late, 0o700))
			must.NoError(t, os.WriteFile(filepath.Join(late, filepath.Base(key)), object, 0o600))
			want = upTo(values)
		}
		end := j.refuses("offset")
		must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: j.open(), Accept: &end.Pos}))(t)
		j.finds()
		var log sebtest.Log
		counted := storetest.NewCounter(j.open())
		o := options(counted, 1000)
		o.Logger, o.Core.ScrubEvery = log.Logger(), 1
		b := open(t, o)
		began := counted.Counts().Lists
		sebtest.Eventually(t, "two comparisons of three lists have ended", func() bool {
			produce(t, b, "a", 0, "compared")
			return counted.Counts().Lists >= began+7
		})
		closeBroker(t, b)
		if log.Contains("log alarm") {
			t.Errorf("restored %t: %s", restored, log.String())
		}
		b = open(t, options(j.open(), 1000))
		for _, i := range want {
			check.Equalf(t, readAll(t, b).values[fmt.Sprintf("a/0@%d", i)], fmt.Sprintf("value-%d", i), "restored %t: record %d", restored, i)
		}
		closeBroker(t, b)
	}
}

// TestCopiesOfJournaledBuckets makes backups and moves a log whose bucket has journals: of a broker
// that was closed, that was killed, that runs, and that another broker has taken over from.
func TestCopiesOfJournaledBuckets(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"closed", "killed", "running", "taken over"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			j := newJournaled(t, state != "killed")
			want := upTo(values)
			switch state {
			case "running":
				b := open(t, options(j.open(), 1000))
				produce(t, b, "a", 0, "value-10")
				want = upTo(values + 1)
			case "taken over": // the first process stays suspended
				produce(t, open(t, options(j.open(), 1000)), "a", 0, "value-10")
				produce(t, open(t, options(j.open(), 1000)), "a", 0, "value-11")
				want = upTo(values + 2)
			}
			before := contentOf(t, j.open())
			to := &journaled{t, t.TempDir()}
			backup(t, j.open(), to.open(), 0)
			if after := contentOf(t, j.open()); len(after) != len(before) {
				t.Errorf("%d objects after the backup, %d before", len(after), len(before))
			}
			back := &journaled{t, t.TempDir()}
			must.Get2(fsck.Restore(t.Context(), fsck.CopyOptions{From: to.open(), To: back.open()}))(t)
			back.finds()
			back.reads(want...)
			moved := &journaled{t, t.TempDir()}
			must.Get(fsck.Copy(t.Context(), fsck.CopyOptions{From: j.open(), To: moved.open()}))(t)
			moved.finds()
			moved.reads(want...)
			j.finds()
		})
	}
}

// TestPlainCopies copies a bucket with the tools of the system: while no broker runs, and while one
// writes and collects garbage. The copy of the stopped bucket is complete. That of the running one
// holds every record that was acknowledged before the copy began, or the broker names what is missing.
func TestPlainCopies(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"cp -a": `cp -a "$0" "$1"`,
		"cp -r": `cp -r "$0" "$1"`,
		"tar":   `mkdir "$1" && tar -C "$0" -cf - . | tar -C "$1" -xf -`,
	} {
		if testing.Short() && name != "cp -a" {
			continue
		}
		copied := func(t *testing.T, j *journaled) *journaled {
			t.Helper()
			to := &journaled{t, filepath.Join(t.TempDir(), "copy")}
			// cp and tar report files that vanish under them
			if out, err := exec.Command("sh", "-c", command, j.dir, to.dir).CombinedOutput(); err != nil {
				t.Logf("%v: %s", err, out)
			}
			return to
		}
		for _, closed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stopped, closed %v", name, closed), func(t *testing.T) {
				t.Parallel()
				j := newJournaled(t, closed)
				to := copied(t, j)
				to.finds()
				to.reads(upTo(values)...)
				j.reads(upTo(values)...)
			})
		}
		t.Run(name+"/running", func(t *testing.T) {
			t.Parallel()
			j := newJournaled(t, true)
			store := j.open()
			o := options(store, 4)
			b := open(t, o)
			for i := values; i < 3*values; i++ {
				produce(t, b, "a", 0, fmt.Sprintf("value-%d", i))
			}
			stop, stopped := make(chan bool), make(chan bool)
			go func() {
				defer close(stopped)
				for i := 3 * values; ; i++ {
					select {
					case <-stop:
						return
					default:
						produce(t, b, "a", 0, fmt.Sprintf("value-%d", i))
					}
				}
			}()
			to := copied(t, j)
			close(stop)
			<-stopped
			started, err := broker.Open(t.Context(), options(to.open(), 1000))
			if err != nil {
				check.ErrorIsf(t, err, record.ErrCorrupt, "the copy")
				t.Logf("the copy is refused: %v", err)
				return
			}
			defer kill(started)
			got := readAll(t, started)
			for i := range 3 * values {
				if at := fmt.Sprintf("a/0@%d", i); got.values[at] != fmt.Sprintf("value-%d", i) && !errors.Is(got.errs["a/0"], state.ErrCorrupt) {
					t.Errorf("record %d is %q in the copy, and no error says why: %v", i, got.values[at], got.errs)
				}
			}
			t.Logf("the copy has %d records, %v", len(got.values), got.errs)
		})
	}
}
